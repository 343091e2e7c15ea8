"""timings.csv: one row per trial; the identifying columns come first."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from nws_sweep.results.measurements import Trial
from nws_sweep.results.search_record import SearchRecord

TIMING_COLUMNS = (
    "num_workers", "startup_s", "batch_s", "batch_s_low", "batch_s_high", "samples_per_s", "wait_s", "step_s",
    "stall_fraction", "epoch_s", "loading_s", "cpu_s", "memory_bytes", "shm_bytes", "memory_growth_bytes", "state",
    "reason", "windows", "bias_bound", "cache", "disk_bytes", "other_cpus", "steal", "throttled", "outliers", "cost_s",
    "settings", "notes",
)  # fmt: skip


def text_of(result: SearchRecord) -> str:
    """The content of timings.csv."""
    rows = (timing_row(trial, result) for trial in result.trials)
    return csv_text((*result.configuration.columns, *TIMING_COLUMNS), rows)


def csv_text(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A table as CSV; missing values are empty cells, and repeated columns are left out."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(columns)), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def timing_row(trial: Trial, result: SearchRecord) -> dict[str, Any]:
    """The row of a trial in timings.csv; undefined values are absent or None."""
    configuration = result.configuration
    measurement, noise = _values(trial.measurement), _values(trial.noise)
    batch = measurement.pop("batch_s", None)
    if batch:
        measurement |= {"batch_s": batch.value, "batch_s_low": batch.low, "batch_s_high": batch.high}
    return {
        **configuration.columns,
        "num_workers": trial.num_workers,
        **measurement,
        **noise,
        **({"outliers": len(noise["outliers"])} if noise else {}),
        "cache": configuration.measure.cache,
        "state": trial.state.value,
        "reason": trial.reason,
        "windows": batch.n if batch else 0,
        "cost_s": trial.cost_s,
        "settings": configuration.differing(trial.settings),
        "notes": "; ".join([*trial.notes, *trial.warnings]),
    }


def _values(record: Any) -> dict[str, Any]:
    """The fields without copies: asdict takes seconds for thousands of trials."""
    return {} if record is None else {each.name: getattr(record, each.name) for each in fields(record)}
