"""Fills measured figures into documents, from the tables of the evidence pages that
``scripts/benchmark`` writes.

Two marks name a table by page and section: ``<!-- cell: PAGE | SECTION | ROW | COLUMN
-->figure<!-- end -->``, where ROW is the first cell of the row, or the first two as
``first/second``, and ``<!-- table: PAGE | SECTION -->``, lines of the table, ``<!-- end
-->``.
"""

import re
from pathlib import Path

from scripts.pages.reference import ROOT

DOCS = ROOT / "docs"
_MARK = re.compile(r"(<!-- (cell|table): ([^>]*?) -->)(.*?)(<!-- end -->)", re.DOTALL)


def documents() -> list[Path]:
    """All documents that may have marks."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def filled(text: str) -> str:
    """The text with the figures of today's evidence pages; ValueError if a mark names
    none."""

    def figure(mark: re.Match[str]) -> str:
        kind, (page, section, *place) = (
            mark[2],
            (part.strip() for part in mark[3].split("|")),
        )
        rows = _table(page, section)
        found = (
            "\n\n" + "\n".join(rows) + "\n\n"
            if kind == "table"
            else _cell(rows, *place)
        )
        return f"{mark[1]}{found}{mark[5]}"

    return _MARK.sub(figure, text)


def _table(page: str, section: str) -> list[str]:
    """The lines of the first table of a section."""
    parts = re.split(
        r"^#+ (.*)\n", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE
    )
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    if section not in sections:
        raise ValueError(f"{page} has no section {section!r}")
    blocks = (block.strip() for block in sections[section].split("\n\n"))
    return next((block for block in blocks if block.startswith("|")), "").splitlines()


def _cell(rows: list[str], row: str, column: str) -> str:
    header, _, *lines = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in rows
    ]
    wanted = row.split("/")
    found = [line for line in lines if line[: len(wanted)] == wanted]
    if len(found) != 1 or column not in header:
        raise ValueError(
            f"{len(found)} rows begin with {row!r}; the columns are {header}, not {column!r}"
        )
    return found[0][header.index(column)]


def main() -> None:
    """Fills all documents."""
    for path in documents():
        text = path.read_text("utf-8")
        if (new := filled(text)) != text:
            path.write_text(new, "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
