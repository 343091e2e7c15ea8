"""Results as JSON, and JSON as results: every value must have the type that its record says."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

import msgspec

from nws_sweep.batch_table import Times
from nws_sweep.records import Burst, BurstKind, Estimate, HostedRun, Measurement, MeasureRules, SearchRecord

Record = TypeVar("Record")

# Version of result.json. Raise it when an older program could not read the file.
# 1: first version.
# 2: measure.precision instead of measure.seconds; trials have noise, and may be unfinished or mismeasured.
# 3: the search's rules have time_budget_s and also; results have cost and verdict.
# 4: trials may have wrong samples; check_samples may be null; what is known of a dataset has handles.
SCHEMA_VERSION = 4

# What a measurement may amount to, in s, bytes or samples per second; a pace is above zero.
_LEAST, _MOST = 1e-12, 1e18
_POSITIVE = ("batch_s", "samples_per_s")

# Text that is not what was written: no JSON, other values than the records have, or a key that is missing.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)  # msgspec.ValidationError is a ValueError


def to_text(result: SearchRecord) -> str:
    """The content of result.json: everything but the single batches."""
    data = asdict(replace(result, trials=tuple(replace(trial, bursts=()) for trial in result.trials)))
    data["configuration"]["fingerprint"] = result.configuration.fingerprint
    if result.configuration.ranks == 1:
        del data["configuration"]["ranks"]
    for trial, stored in zip(result.trials, data["trials"], strict=True):
        stored["bursts"] = [_burst_summary(burst) for burst in trial.bursts]
        if trial.measurement and not trial.measurement.ranks:
            del stored["measurement"]["ranks"]
    return _dumped({"schema_version": SCHEMA_VERSION, **data})


def _dumped(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=1, default=str) + "\n"


def from_text(text: str) -> SearchRecord:
    """What ``to_text`` has written, also by an earlier version; its trials without bursts.

    Raises:
        UNREADABLE: If it is none of that.
    """
    return _record(_checked(text))


def with_summaries(text: str) -> tuple[SearchRecord, list[list[dict[str, Any]]]]:
    """The same, and of each trial what ``bursts_of`` needs.

    Raises:
        UNREADABLE: If it is none of that.
    """
    data = _checked(text)
    summaries = [trial.get("bursts", []) for trial in data["trials"]]
    return _record(data), summaries


def marked(text: str, forced: str) -> str:
    """The content of result.json with another ``forced``, and all else as it is."""
    return _dumped({**json.loads(text), "forced": forced})


def bursts_of(summaries: Sequence[Mapping[str, Any]], times: Callable[[int], Times | None]) -> tuple[Burst, ...]:
    """The bursts of a trial.

    Args:
        summaries: What result.json says of them.
        times: Of the burst of a number the times of its batches; None if they were not kept.

    Raises:
        UNREADABLE: If both do not fit together.
    """
    return tuple(_burst(summary, times(number)) for number, summary in enumerate(summaries))


def hosted_to_text(run: HostedRun) -> str:
    """What one run of another program told, with all its batches."""
    return json.dumps(asdict(run), default=str) + "\n"


def hosted_from_text(text: str) -> HostedRun:
    """What ``hosted_to_text`` has written.

    Raises:
        UNREADABLE: If it is none of that.
    """
    return _converted(json.loads(text), HostedRun)


def _burst_summary(burst: Burst) -> dict[str, Any]:
    """A burst without its single batches, which stand in batches.csv."""
    return {
        "kind": burst.kind.value,
        "batches": burst.batches,
        "samples": burst.samples,
        "startup_s": burst.startup_s,
        "wait_s": sum(burst.wait_s),
        "consume_s": sum(burst.consume_s),
        "end_s": burst.end_s,
        "produced": burst.produced,
        "batch_bytes": burst.batch_bytes,
        "batch_tensors": burst.batch_tensors,
    }


def _burst(summary: Mapping[str, Any], times: Times | None) -> Burst:
    """A burst; of a look at something else, whose batches have no rows, with as many equal ones."""
    count = summary["batches"]
    if summary["kind"] == BurstKind.LOADING.value and count:
        times = (summary["wait_s"] / count,) * count, (summary["consume_s"] / count,) * count
    waits, consumes = times or ((), ())
    if len(waits) != count:
        raise ValueError(f"{len(waits)} of {count} batches of a burst")
    known = {each.name: summary[each.name] for each in fields(Burst) if each.name in summary}
    return _converted({**known, "wait_s": waits, "consume_s": consumes}, Burst)


def _checked(text: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(text)
    if data["schema_version"] > SCHEMA_VERSION:
        raise ValueError(f"schema version {data['schema_version']}, this program reads up to {SCHEMA_VERSION}")
    return data


def _record(data: dict[str, Any]) -> SearchRecord:
    if not isinstance(data["trials"], list):
        raise TypeError("trials: no list")
    trials = [{name: value for name, value in trial.items() if name != "bursts"} for trial in data["trials"]]
    configuration = {name: value for name, value in data["configuration"].items() if name != "fingerprint"}
    configuration["measure"] = _measure_rules(configuration["measure"])
    _refuse_endless({name: value for name, value in data.items() if name != "configuration"})
    converted = _converted({**data, "configuration": configuration, "trials": trials}, SearchRecord)
    _refuse_impossible(converted)
    return converted


def _refuse_endless(value: Any) -> None:
    """NaN and infinity, which only a configuration may hold."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value}: no figure")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_endless(inner)


def _refuse_impossible(record: SearchRecord) -> None:
    """Figures that no measurement has would stop whoever reckons with them; where they come from is known to nobody."""
    rules = record.configuration.search
    counts = [trial.settings.batch_size for trial in record.trials] + [record.configuration.loader.batch_size]
    if not rules.candidates or min(rules.candidates) < 0 or any(count is not None and count < 1 for count in counts):
        raise ValueError("impossible settings")
    if min(record.host.usable_cpus, record.host.cpu_count) < 1 or not 0 <= record.cost_s <= _MOST:
        raise ValueError("an impossible host or cost")
    for measurement in (trial.measurement for trial in record.trials if trial.measurement):
        for name, value in _numbers(measurement):
            least = -_MOST if name == "memory_growth_bytes" else _LEAST if name in _POSITIVE else 0.0
            if not least <= value <= _MOST:
                raise ValueError(f"{name}={value}: impossible")


def _numbers(measurement: Measurement) -> Iterator[tuple[str, float]]:
    for each in fields(measurement):
        value = getattr(measurement, each.name)
        if isinstance(value, Estimate):
            yield from ((each.name, end) for end in (value.value, value.low, value.high) if end is not None)
        elif isinstance(value, int | float):
            yield each.name, value


def _measure_rules(data: Mapping[str, Any]) -> dict[str, Any]:
    """Those of version 1 had keys that are gone; what they lack has the values of today."""
    return {entry.name: data[entry.name] for entry in fields(MeasureRules) if entry.name in data}


def _converted(data: Any, kind: type[Record]) -> Record:
    return msgspec.convert(data, kind)
