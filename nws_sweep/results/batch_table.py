"""batches.csv: one row per batch."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from nws_sweep.results.measurements import WindowKind
from nws_sweep.results.search_record import SearchRecord

COLUMNS = ("num_workers", "window", "index", "warm_up", "wait_s", "consume_s", "outlier", "settings")

# num_workers, other settings, number of the window; and the waits and the consumer's times of the window, s.
WindowKey = tuple[int, str, int]
Times = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class BatchTime:
    """One row: the times of one batch, s."""

    num_workers: int
    window: int
    index: int  # in the trial, from 0
    warm_up: bool
    wait_s: float
    consume_s: float
    settings: str = ""  # that differ from the configuration, except num_workers; not in files of version 1


def text_of(result: SearchRecord) -> str:
    """The content of batches.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for trial in result.trials:
        index, settings = 0, result.configuration.differing(trial.settings)
        for number, window in enumerate(trial.windows):
            if window.kind is WindowKind.LOADING:
                continue
            identity = trial.num_workers, number
            outlier = int(trial.noise is not None and number in trial.noise.outliers)
            for wait_s, consume_s in zip(window.wait_s, window.consume_s, strict=True):
                writer.writerow((*identity, index, int(not window.counts), wait_s, consume_s, outlier, settings))
                index += 1
    return text.getvalue()


def parse(text: str) -> list[BatchTime]:
    """The rows of a file, in the order of measuring.

    Raises:
        ValueError: If the text is not a complete batches.csv.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        if "num_workers" not in (reader.fieldnames or ()):
            raise ValueError("no header")
        return msgspec.convert(list(reader), list[BatchTime], strict=False)
    except (ValueError, TypeError, csv.Error) as error:
        raise ValueError(f"not a table of batches: {error!r}") from error


def by_window(rows: Sequence[BatchTime]) -> dict[WindowKey, Times]:
    """The times of each window, one value per batch."""
    found: dict[WindowKey, list[BatchTime]] = defaultdict(list)
    for row in rows:
        found[row.num_workers, row.settings, row.window].append(row)
    return {
        key: (tuple(row.wait_s for row in rows), tuple(row.consume_s for row in rows)) for key, rows in found.items()
    }
