"""Results as JSON, and JSON as results: every value must have the type, and lie within the limits, of its record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from nws_sweep.results.batch_table import Times, WindowKey
from nws_sweep.results.measurements import Window, WindowKind
from nws_sweep.results.search_record import SearchRecord

# Version of result.json. Raise it when an older program could not read the file.
# 1: first version.
# 2: measure.precision instead of measure.seconds; trials have noise, and may be unfinished or mismeasured.
# 3: the search's rules have time_budget_s and also; results have cost and verdict.
# 4: trials may have wrong samples; check_samples may be null; what is known of a dataset has handles.
SCHEMA_VERSION = 4

# Text that is not what was written: no JSON, other values than the records have, or a key that is missing.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)  # msgspec.ValidationError is a ValueError

_SUMMARISED = (
    "kind", "batches", "samples", "startup_s", "wait_s", "consume_s", "end_s", "produced", "batch_bytes",
    "batch_tensors",
)  # fmt: skip


def to_text(result: SearchRecord) -> str:
    """The content of result.json: everything but the single batches, which stand in batches.csv."""
    trials = tuple(replace(trial, windows=()) for trial in result.trials)
    data = msgspec.to_builtins(replace(result, trials=trials), enc_hook=str)
    data["configuration"]["fingerprint"] = result.configuration.fingerprint
    if result.configuration.ranks == 1:
        del data["configuration"]["ranks"]
    for trial, stored in zip(result.trials, data["trials"], strict=True):
        stored["windows"] = [_summary(window) for window in trial.windows]
        if trial.measurement and not trial.measurement.ranks:
            del stored["measurement"]["ranks"]
    return _dumped({"schema_version": SCHEMA_VERSION, **data})


def _dumped(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=1) + "\n"


def _summary(window: Window) -> dict[str, Any]:
    sums = {"kind": window.kind.value, "wait_s": sum(window.wait_s), "consume_s": sum(window.consume_s)}
    return {name: sums[name] if name in sums else getattr(window, name) for name in _SUMMARISED}


def from_text(text: str) -> SearchRecord:
    """What ``to_text`` has written, also by an earlier version; its trials without windows.

    Raises:
        UNREADABLE: If it is none of that.
    """
    data = json.loads(text)
    if data["schema_version"] > SCHEMA_VERSION:
        raise ValueError(f"schema version {data['schema_version']}, this program reads up to {SCHEMA_VERSION}")
    trials = [{**trial, "windows": ()} for trial in msgspec.convert(data["trials"], list[dict[str, Any]])]
    return msgspec.convert({**data, "trials": trials}, SearchRecord)


def with_windows(text: str, times: Mapping[WindowKey, Times]) -> SearchRecord:
    """The same, with the windows of its trials, of which the text has all but the times of their batches.

    Raises:
        UNREADABLE: If both do not fit together.
    """
    result, trials = from_text(text), []
    for trial, data in zip(result.trials, json.loads(text)["trials"], strict=True):
        candidate = trial.num_workers, result.configuration.differing(trial.settings)
        summaries = enumerate(data.get("windows", ()))
        windows = tuple(_window_of(summary, times.get((*candidate, number))) for number, summary in summaries)
        trials.append(replace(trial, windows=windows))
    return replace(result, trials=tuple(trials))


def _window_of(summary: Mapping[str, Any], times: Times | None) -> Window:
    """A window; of a look at something else, whose batches have no rows, with as many equal ones."""
    count = summary["batches"]
    if summary["kind"] == WindowKind.LOADING.value and count:
        times = (summary["wait_s"] / count,) * count, (summary["consume_s"] / count,) * count
    waits, consumes = times or ((), ())
    if len(waits) != count:
        raise ValueError(f"{len(waits)} of {count} batches of a window")
    return msgspec.convert({**summary, "wait_s": waits, "consume_s": consumes}, Window)


def with_forced(text: str, forced: str) -> str:
    """The content of result.json with another ``forced``, and all else as it is."""
    return _dumped({**json.loads(text), "forced": forced})
