"""The files of a search as text: result.json, which is read back with types and value
ranges checked, and CSV files."""

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import count, groupby
from operator import attrgetter
from typing import Any

import msgspec

from nws_sweep.errors import printable
from nws_sweep.records.measurements import (
    BatchRecord,
    BatchTime,
    StageTime,
    Trial,
    Window,
    WindowKind,
)
from nws_sweep.records.search_record import SearchRecord
from nws_sweep.records.settings import Configuration, plain

# Version of result.json: raised when keys go or change their meaning. A new key with
# a default needs no other version.
SCHEMA_VERSION = 6

# Errors of reading: invalid JSON, a missing key, a value of the wrong type or out of
# range, or too much of something. The errors of msgspec are ValueErrors.
UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    csv.Error,
    RecursionError,
    MemoryError,
)

_LONGEST_TEXT = 2**17  # Linux takes no longer argument of a command line
_DEEPEST = 100  # Hydra composes nothing that is nested deeper

TIMING_COLUMNS = (
    "num_workers",
    "startup_s",
    "batch_s",
    "batch_s_low",
    "batch_s_high",
    "samples_per_s",
    "wait_s",
    "step_s",
    "stall_fraction",
    "epoch_s",
    "first_epoch_s",
    "cpu_s",
    "memory_bytes",
    "shm_bytes",
    "memory_growth_bytes",
    "state",
    "reason",
    "windows",
    "bias_bound",
    "cache",
    "disk_bytes",
    "other_cpus",
    "steal",
    "throttled",
    "cost_s",
    "settings",
    "notes",
)
BATCH_COLUMNS = tuple(field.name for field in fields(BatchTime))
COST_COLUMNS = (
    "num_workers",
    "epoch",
    "number",
    "position",
    "cpu_s",
    "wait_s",
    "copy_s",
    "threads",
    "was_stopped",
    "settings",
    "stages",
)
# how a cell begins that a spreadsheet computes
_OF_FORMULAS = ("=", "+", "-", "@", "\t")
_WINDOW = attrgetter("num_workers", "settings", "window", "warm_up")


def to_text(result: SearchRecord) -> str:
    """The content of result.json: everything but the times of single batches, which
    batches.csv holds."""
    trials = tuple(replace(trial, windows=(), records=()) for trial in result.trials)
    data = msgspec.to_builtins(replace(result, trials=trials), enc_hook=plain)
    data["configuration"]["fingerprint"] = result.configuration.fingerprint
    data["status"] = result.status  # for other programs
    return (
        json.dumps(
            {"schema_version": SCHEMA_VERSION, **data}, indent=1, ensure_ascii=False
        )
        + "\n"
    )


def from_text(text: str) -> SearchRecord:
    """Reads result.json, without windows; ``UNREADABLE`` if it is not valid or of
    another version."""
    data = msgspec.json.decode(text)
    if data["schema_version"] != SCHEMA_VERSION:
        raise ValueError(
            f"schema version {data['schema_version']}, this program reads {SCHEMA_VERSION}"
        )
    _refuse_oversized(data)
    record = msgspec.convert(data, SearchRecord)
    _refuse_repeated(record)
    return record


def _refuse_oversized(value: Any, levels: int = 0) -> None:
    """Raises ValueError for a text that is too long, or values that are nested too
    deeply, to be shown."""
    if isinstance(value, str):
        if len(value) > _LONGEST_TEXT:
            raise ValueError(
                f"{value[:20]!r}... has {len(value)} characters, more than {_LONGEST_TEXT}"
            )
        return
    if not isinstance(value, dict | list):
        return
    if levels > _DEEPEST:
        raise ValueError(f"values are nested in more than {_DEEPEST} levels")
    for inner in (*value, *value.values()) if isinstance(value, dict) else value:
        _refuse_oversized(inner, levels + 1)


def _refuse_repeated(record: SearchRecord) -> None:
    """Raises ValueError if a candidate was measured twice, which no search does."""
    counts = Counter(_key(trial, record) for trial in record.trials)
    for (num_workers, settings), times in counts.items():
        if times > 1:
            raise ValueError(
                f"num_workers={num_workers} {settings}".rstrip()
                + f" has {times} trials"
            )


def batches_text(result: SearchRecord) -> str:
    """The content of batches.csv: one row per batch."""
    rows: list[Sequence[Any]] = [BATCH_COLUMNS]
    for trial in result.trials:
        num_workers, settings = _key(trial, result)
        index = count()
        for number, window in enumerate(trial.windows):
            for wait_s, step_s in zip(window.wait_s, window.step_s, strict=True):
                rows.append(
                    (
                        num_workers,
                        number,
                        next(index),
                        int(not window.counts),
                        wait_s,
                        step_s,
                        settings,
                    )
                )
    return _csv_text(rows)


def parse_batches(text: str) -> list[BatchTime]:
    """The rows of batches.csv, in the order of measuring; ``UNREADABLE`` if the text is
    not complete."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    if "num_workers" not in (reader.fieldnames or ()):
        raise ValueError("no header")
    return msgspec.convert(list(reader), list[BatchTime], strict=False)


def costs_text(result: SearchRecord) -> str:
    """The content of costs.csv: one row per batch that was made, with its cost."""
    rows: list[Sequence[Any]] = [COST_COLUMNS]
    for trial in result.trials:
        num_workers, settings = _key(trial, result)
        for record in trial.records:
            place = num_workers, record.epoch, record.number, record.position
            stages = (
                msgspec.json.encode(record.stages).decode() if record.stages else ""
            )
            rows.append(
                (
                    *place,
                    *record.cost.parts,
                    record.cost.threads,
                    int(record.was_stopped),
                    settings,
                    stages,
                )
            )
    return _csv_text(rows)


def _csv_text(rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def with_records(result: SearchRecord, costs: str) -> SearchRecord:
    """Adds the records of costs.csv to the trials; ``UNREADABLE`` if the text is not
    complete."""
    records: dict[tuple[int, str], list[BatchRecord]] = defaultdict(list)
    for row in csv.DictReader(io.StringIO(costs, newline=""), strict=True):
        values = {name: value for name, value in row.items() if value != ""}
        stages = msgspec.json.decode(row.get("stages") or "[]")
        data = {
            **values,
            "began_s": 0.0,
            "ended_s": 0.0,
            "cost": values,
            "stages": stages,
        }
        record = msgspec.convert(data, BatchRecord, strict=False)
        _refuse_cycles(record.stages)
        records[int(row["num_workers"]), row["settings"]].append(record)
    trials = (
        replace(trial, records=tuple(records[_key(trial, result)]))
        for trial in result.trials
    )
    return replace(result, trials=tuple(trials))


def _refuse_cycles(stages: Sequence[StageTime]) -> None:
    """Raises ValueError unless each stage stands behind the stage that calls it."""
    for place, stage in enumerate(stages):
        if not -1 <= stage.parent < place:
            raise ValueError(
                f"the stage {stage.name!r}, number {place}, has the parent {stage.parent}"
            )


def with_windows(result: SearchRecord, batches: str) -> SearchRecord:
    """Adds the windows to the trials, with what batches.csv holds of them;
    ``UNREADABLE`` if the text is not valid."""
    windows: dict[tuple[int, str], list[Window]] = defaultdict(list)
    for (num_workers, settings, _, warm_up), rows in groupby(
        parse_batches(batches), _WINDOW
    ):
        kind = WindowKind.WARM_UP if warm_up else WindowKind.STEADY
        waits, steps = zip(*((row.wait_s, row.step_s) for row in rows), strict=True)
        windows[num_workers, settings].append(
            Window(kind=kind, wait_s=waits, step_s=steps, startup_s=None, samples=0)
        )
    trials = (
        replace(trial, windows=tuple(windows[_key(trial, result)]))
        for trial in result.trials
    )
    return replace(result, trials=tuple(trials))


def _key(trial: Trial, result: SearchRecord) -> tuple[int, str]:
    """The cells by which rows of a CSV file belong to a trial."""
    return trial.num_workers, result.configuration.differing(trial.settings)


def timings_text(result: SearchRecord) -> str:
    """The content of timings.csv."""
    rows = (timing_row(trial, result) for trial in result.trials)
    return table_text((*identifying(result.configuration), *TIMING_COLUMNS), rows)


def table_text(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A table as CSV; missing values are empty cells, and repeated columns are left
    out."""
    names = list(dict.fromkeys(columns))
    cells = ([_cell(row.get(name)) for name in names] for row in rows)
    return _csv_text([map(_cell, names), *cells])


def _cell(value: Any) -> Any:
    """The value; a text that a spreadsheet would take for a formula begins with an
    apostrophe instead."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return (
        f"'{text}" if text.startswith(_OF_FORMULAS) and not _is_number(text) else text
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def identifying(configuration: Configuration) -> dict[str, Any]:
    """The identifying columns of a table; ``given_num_workers`` for one with the name
    of a column of timings.csv."""
    columns = configuration.columns.items()
    return {
        f"given_{name}" if name in TIMING_COLUMNS else name: value
        for name, value in columns
    }


def timing_row(trial: Trial, result: SearchRecord) -> dict[str, Any]:
    """The row of a trial in timings.csv; undefined values are absent or None."""
    configuration = result.configuration
    # asdict takes seconds for thousands of trials. ``float`` is for numbers of numpy.
    measurement = msgspec.to_builtins(trial.measurement, enc_hook=float) or {}
    noise = msgspec.to_builtins(trial.noise, enc_hook=float) or {}
    batch = measurement.pop("batch_s", None)
    if batch:
        measurement |= {
            "batch_s": batch["value"],
            "batch_s_low": batch["low"],
            "batch_s_high": batch["high"],
        }
    return {
        **identifying(configuration),
        "num_workers": trial.num_workers,
        **measurement,
        **noise,
        "cache": configuration.measure.cache,
        "state": trial.state.value,
        "reason": trial.reason,
        "windows": batch["n"] if batch else 0,
        "cost_s": trial.cost_s,
        "settings": configuration.differing(trial.settings),
        "notes": "; ".join([*trial.notes, *trial.warnings]),
    }
