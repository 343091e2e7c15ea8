"""Tables of a page: rows of text beside what they are sorted by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text with what they are sorted by.

    Attributes:
        header: Titles of the columns.
        rows: Cells, a row each.
        keys: What the cells are sorted by: the number where there is one, None for the text itself.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: tuple[tuple[float | None, ...], ...]

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which of the columns hold numbers."""
        return tuple(any(row[index] is not None for row in self.keys) for index in range(len(self.header)))


def rounded(value: float | None) -> float | None:
    """Enough of a number to sort by: a page of thousands of rows is a page of many digits."""
    return None if value is None else float(f"{value:.4g}")
