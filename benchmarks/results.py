"""What a benchmark has measured, as a folder of the repository: README.md says how it
was measured, and each table is a CSV file beside it.

``docs/evidence.md`` shows some of these tables (``scripts.pages.figures``).
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("benchmarks/results")


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of text.

    Attributes:
        name: Of its file, without ``.csv``.
        header: The names of the columns.
        rows: As long as the header; the first cell names the row.
    """

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of a benchmark.

    Attributes:
        title: What was compared.
        headline: The figures that matter most, in one or two sentences.
        about: How it was measured, and what the columns mean, in Markdown.
        tables: All figures.
    """

    title: str
    headline: str
    about: str
    tables: Sequence[Table]

    def write(self, folder: Path, origin: str) -> None:
        """Writes the files, and removes tables of an earlier run."""
        folder.mkdir(parents=True, exist_ok=True)
        for earlier in folder.glob("*.csv"):
            earlier.unlink()
        for table in self.tables:
            with (folder / f"{table.name}.csv").open("w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerows([table.header, *table.rows])
        names = ", ".join(
            f"[{table.name}.csv]({table.name}.csv)" for table in self.tables
        )
        parts = [
            f"# {self.title}",
            self.headline,
            origin,
            self.about,
            f"Tables: {names}.",
        ]
        text = "\n\n".join(part.strip() for part in parts if part.strip())
        (folder / "README.md").write_text(text + "\n", "utf-8")


def bullets(lines: Iterable[str]) -> str:
    """A list in Markdown."""
    return "\n".join(f"- {line}" for line in lines)
