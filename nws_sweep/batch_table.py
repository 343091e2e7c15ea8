"""batches.csv: the time of every batch, a row each; made of trials, and read back."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nws_sweep.csv_table import csv_text
from nws_sweep.records import BurstKind, SearchRecord

COLUMNS = ("num_workers", "burst", "index", "warm_up", "wait_s", "consume_s", "outlier", "settings")


@dataclass(frozen=True, slots=True)
class BatchTime:
    """One row: the time of one batch, s; ``index`` counts the trial's batches from 0.

    ``settings`` is what its candidate has otherwise than the configuration beside num_workers; empty for most.
    """

    num_workers: int
    burst: int
    index: int
    warm_up: bool
    wait_s: float
    consume_s: float
    settings: str = ""


def text_of(result: SearchRecord) -> str:
    """The file's content."""
    return csv_text(COLUMNS, _rows(result))


def _rows(result: SearchRecord) -> Iterator[dict[str, Any]]:
    for trial in result.trials:
        index, settings = 0, result.configuration.differing(trial.settings)
        for number, burst in enumerate(trial.bursts):
            if burst.kind is BurstKind.LOADING:  # a look at something else than what was measured
                continue
            outlier = int(trial.noise is not None and number in trial.noise.outliers)
            for wait_s, consume_s in zip(burst.wait_s, burst.consume_s, strict=True):
                values = (trial.num_workers, number, index, int(not burst.counts), wait_s, consume_s, outlier, settings)
                yield dict(zip(COLUMNS, values, strict=True))
                index += 1


def parse(text: str) -> list[BatchTime]:
    """The rows of a file, in the order of measuring.

    Raises:
        ValueError: If it is none, or not whole.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        if missing := set(COLUMNS) - {"settings", "outlier"} - set(reader.fieldnames or ()):
            raise KeyError(", ".join(sorted(missing)))
        return [_row(row) for row in reader]
    except (KeyError, TypeError, csv.Error) as error:  # a column or a value that is missing
        raise ValueError(f"not a table of batches: {error!r}") from error


def _row(row: Mapping[str, str]) -> BatchTime:
    return BatchTime(
        num_workers=int(row["num_workers"]),
        burst=int(row["burst"]),
        index=int(row["index"]),
        warm_up=row["warm_up"] == "1",
        wait_s=float(row["wait_s"]),
        consume_s=float(row["consume_s"]),
        settings=row.get("settings", ""),  # of version 1 there is no such column
    )


# Which burst of which candidate: num_workers, other settings, number; and its waits and the consumer's times, s.
BurstKey = tuple[int, str, int]
Times = tuple[tuple[float, ...], tuple[float, ...]]


def by_burst(rows: Sequence[BatchTime]) -> dict[BurstKey, Times]:
    """The times of each burst, a value per batch."""
    found: dict[BurstKey, list[BatchTime]] = defaultdict(list)
    for row in rows:
        found[row.num_workers, row.settings, row.burst].append(row)
    return {
        key: (tuple(row.wait_s for row in rows), tuple(row.consume_s for row in rows)) for key, rows in found.items()
    }
