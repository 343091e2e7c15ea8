"""Fills measured figures into documents, from the tables that ``scripts/benchmark``
writes to ``benchmarks/results``.

Two marks name a table by its folder and file: ``<!-- cell: search/methods | ROW | COLUMN
-->figure<!-- end -->``, where ROW is the first cell of the row, or the first cells as
``first/second``, and ``<!-- table: search/methods | COLUMN, COLUMN | COLUMN = VALUE
-->``, lines of the table, ``<!-- end -->``. Without columns a table has all of them,
without a value all rows.
"""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from scripts.pages.reference import ROOT

DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
_MARK = re.compile(r"(<!-- (cell|table): ([^>]*?) -->)(.*?)(<!-- end -->)", re.DOTALL)


def documents() -> list[Path]:
    """All documents that may have marks."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def filled(text: str) -> str:
    """The text with the figures of today's results; ValueError if a mark names none."""

    def figure(mark: re.Match[str]) -> str:
        name, *parts = (part.strip() for part in mark[3].split("|"))
        rows = _rows(name)
        if mark[2] == "cell":
            return f"{mark[1]}{_cell(rows, *parts)}{mark[5]}"
        return f"{mark[1]}\n\n{_table(rows, *parts)}\n\n{mark[5]}"

    return _MARK.sub(figure, text)


def _rows(name: str) -> list[list[str]]:
    """The cells of a table, its header first."""
    path = RESULTS / f"{name}.csv"
    if not path.is_file():
        raise ValueError(f"there is no table {name}")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def _table(
    rows: Sequence[Sequence[str]], columns: str = "", condition: str = ""
) -> str:
    """Lines of Markdown."""
    header, *lines = rows
    names = [name.strip() for name in columns.split(",")] if columns else header
    places = [_place(header, name) for name in names]
    if condition:
        column, value = (part.strip() for part in condition.split("="))
        lines = [line for line in lines if line[_place(header, column)] == value]
        if not lines:
            raise ValueError(f"no row has {condition}")
    shown = [[line[place] for place in places] for line in lines]
    rule = "|" + "---|" * len(names)
    return "\n".join([_line(names), rule, *map(_line, shown)])


def _line(cells: Sequence[str]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def _cell(rows: Sequence[Sequence[str]], row: str, column: str) -> str:
    header, *lines = rows
    wanted = row.split("/")
    matching = [line for line in lines if line[: len(wanted)] == wanted]
    if len(matching) != 1:
        raise ValueError(f"{len(matching)} rows begin with {row!r}")
    return matching[0][_place(header, column)]


def _place(header: Sequence[str], column: str) -> int:
    if column not in header:
        raise ValueError(f"the columns are {', '.join(header)}, not {column!r}")
    return list(header).index(column)


def main() -> None:
    """Fills all documents."""
    for path in documents():
        text = path.read_text("utf-8")
        if (new := filled(text)) != text:
            path.write_text(new, "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
