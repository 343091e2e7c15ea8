"""The files of a run and of a grid: the only module that knows their names.

Every file is written under a temporary name and renamed, so that a reader never meets half of one.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from nws_sweep.errors import ConfigurationError, NotARunError, one_line
from nws_sweep.records import (
    Burst,
    BurstKind,
    Configuration,
    DatasetFacts,
    Estimate,
    Host,
    HostedRun,
    LoaderSettings,
    Measurement,
    MeasureRules,
    Noise,
    ObjectStore,
    ProjectFacts,
    RankMeasurement,
    SampleCheck,
    SearchCost,
    SearchRecord,
    SearchRules,
    Trial,
    TrialState,
    Verdict,
    shown,
)

RESULT = "result.json"
TIMINGS = "timings.csv"
BATCHES = "batches.csv"
RANKS = "ranks.csv"  # where there are several
BEST = "best.yaml"
BEST_GROUP = "best"  # a folder that is a config group of Hydra's: an option for each configuration
ARM_LOG = "arms.log"
CLAIM = ".nws_sweep"  # made when a program takes the folder for itself
GRID_RESULTS = "results.csv"
GRID_BEST = "best.csv"
REPORT = "report.md"
PAGE = "report.html"
PLOTS = "plots"  # the folder of a grid's pictures; each is a PNG and an SVG of these names
THROUGHPUT_PLOT = "throughput_vs_num_workers"
TIME_PLOT = "time_vs_num_workers"
WAITING_PLOT = "waiting_vs_num_workers"
BEST_PLOT = "best_per_configuration"
HEAT_PLOT = "best_throughput"
MEMORY_PLOT = "time_vs_memory"
BATCHES_PLOT = "batch_times"
SCALING_PLOT = "scaling"
COST_PLOT = "search_cost"
HOSTED = "nws_sweep"  # in the sweep folder of another program: the grid of its runs
HOSTED_RUNS = "jobs"  # below a configuration of it: a file per run, from which its result is made

# Version of result.json. Raise it when an older program could not read the file.
# 1: first version.
# 2: measure.precision instead of measure.seconds; trials have noise, and may be unfinished or mismeasured.
# 3: the search's rules have time_budget_s and also; results have cost and verdict.
SCHEMA_VERSION = 3

TIMING_COLUMNS = (
    "num_workers", "startup_s", "batch_s", "batch_s_low", "batch_s_high", "samples_per_s", "wait_s", "consume_s",
    "stall_fraction", "epoch_s", "loading_s", "cpu_s", "memory_bytes", "shm_bytes", "memory_growth_bytes", "state",
    "reason", "bursts", "bias_bound", "cache", "disk_bytes", "other_cpus", "steal", "throttled", "outliers", "cost_s",
    "settings", "notes",
)  # fmt: skip
_LONGEST_NAME = 120  # bytes; file systems allow 255, the hash included
_OPTION_SUFFIX = ".yaml"
_OPTION_MARK = "# nws_sweep writes this file anew with each report\n"
_RUN_OPTION = "run"  # the only option of a run that is no grid

BATCH_COLUMNS = ("num_workers", "burst", "index", "warm_up", "wait_s", "consume_s", "outlier", "settings")


RANK_COLUMNS = (
    "num_workers", "rank", "samples_per_s", "own_s", "own_s_low", "own_s_high", "wait_s", "consume_s", "meet_s",
    "startup_s", "settings",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """One configuration's result and where it lies."""

    folder: Path
    result: SearchRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What was found in a folder.

    Attributes:
        folder: The run's or the grid's folder.
        is_grid: Whether it holds a sub-folder per configuration.
        runs: The configurations in the order of measuring.
        unreadable: One line for each result that cannot be read.
    """

    folder: Path
    is_grid: bool
    runs: tuple[StoredRun, ...]
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchTime:
    """One row of batches.csv: the time of one batch, s; ``index`` counts the trial's batches from 0."""

    num_workers: int
    burst: int
    index: int
    warm_up: bool
    wait_s: float
    consume_s: float


def folder_name(overrides: Sequence[str]) -> str:
    """The name of a configuration's folder in a grid: its overrides, sorted, such as ``batch_size=64,pin_memory=true``.

    Presets (``axis/...``) are left out: the values that they stand for are there. Whatever does not belong into a file
    name is replaced, and a name that is changed by this, or too long, ends in a hash that keeps it unique.
    """
    plain = sorted(_lower_literal(text) for text in overrides if not text.startswith("axis/"))
    return _safe_name(",".join(plain) or "default", r"[^\w=.,+~@\[\]-]")


def _safe_name(name: str, refused: str) -> str:
    """The name without the characters that the pattern matches, and with a hash if this or its length changes it."""
    safe = re.sub(refused, "_", name).encode()[:_LONGEST_NAME].decode(errors="ignore").lstrip(".")
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def option_names(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of configurations as options of a config group, such as ``batch_size-64--pin_memory-true``; all differ.

    They hold only what Hydra's command line takes without quotes: ASCII letters, digits, ``_``, ``-`` and ``.``.

    Args:
        points: The values that tell each configuration from the others; none for the only one.
    """
    names: list[str] = []
    taken: set[str] = set()  # as file systems see them that know no case
    for point in points:
        name = next(name for name in _numbered(_option_name(point)) if name.casefold() not in taken)
        names.append(name)
        taken.add(name.casefold())
    return names


def _option_name(point: Mapping[str, Any]) -> str:
    # Never a number or null, which Hydra does not take for a name: each part has its key. Nor may it end like a file.
    name = "--".join(f"{key}-{shown(value)}" for key, value in point.items()) or _RUN_OPTION
    return _safe_name(name, r"[^A-Za-z0-9_.-]|\.(?=ya?ml$)")


def _numbered(name: str) -> Iterator[str]:
    """The name itself, then the same with 2, 3, ... behind."""
    return (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))


def _lower_literal(override: str) -> str:
    """``pin_memory=True``, as Hydra writes it, is what people type as ``pin_memory=true``."""
    key, equals, value = override.partition("=")
    return f"{key}={value.lower()}" if value in ("True", "False", "None") else f"{key}{equals}{value}"


def save(folder: Path, result: SearchRecord) -> None:
    """Writes the files of one configuration, complete or as far as it got.

    They are timings.csv, batches.csv and result.json; of several ranks ranks.csv too.
    """
    rows = (timing_row(trial, result.configuration) for trial in result.trials)
    write_text(folder / TIMINGS, csv_text(TIMING_COLUMNS, rows))
    write_text(folder / BATCHES, csv_text(BATCH_COLUMNS, _batch_rows(result)))
    if result.configuration.ranks > 1:
        write_text(folder / RANKS, csv_text(RANK_COLUMNS, _rank_rows(result)))
    write_text(folder / RESULT, to_text(result))


def to_text(result: SearchRecord) -> str:
    """The content of result.json: everything but the single batches."""
    return json.dumps(_to_json(result), indent=1, default=str) + "\n"


def from_text(text: str) -> SearchRecord:
    """What ``to_text`` has written, also by an earlier version.

    Raises:
        ValueError, KeyError, TypeError: If it is none of that.
    """
    return _from_json(json.loads(text))


def timing_row(trial: Trial, configuration: Configuration) -> dict[str, Any]:
    """The trial as a row of timings.csv; what is not defined is left out and becomes an empty cell.

    Args:
        trial: What was measured, or not.
        configuration: What it was measured under.
    """
    measurement, noise = _values(trial.measurement), _values(trial.noise)
    batch = measurement.pop("batch_s", None)
    measurement.pop("ranks", None)  # each has rows of its own in ranks.csv
    if batch:
        measurement |= {"batch_s": batch.value, "batch_s_low": batch.low, "batch_s_high": batch.high}
    return {
        "num_workers": trial.num_workers,
        **measurement,
        **noise,
        **({"outliers": len(noise["outliers"])} if noise else {}),
        "cache": configuration.measure.cache,
        "state": trial.state.value,
        "reason": trial.reason,
        "bursts": batch.n if batch else 0,
        "cost_s": trial.cost_s,
        "settings": configuration.differing(trial.settings),
        "notes": "; ".join(trial.notes + trial.warnings),
    }


def _values(record: Measurement | RankMeasurement | Noise | None) -> dict[str, Any]:
    """Its fields as they are: asdict would copy what is in them, which takes seconds for thousands of trials."""
    return {} if record is None else {each.name: getattr(record, each.name) for each in fields(record)}


def _batch_rows(result: SearchRecord) -> Iterator[dict[str, Any]]:
    for trial in result.trials:
        index, settings = 0, result.configuration.differing(trial.settings)
        for number, burst in enumerate(trial.bursts):
            if burst.kind is BurstKind.LOADING:  # a look at something else than what was measured
                continue
            outlier = int(trial.noise is not None and number in trial.noise.outliers)
            for wait_s, consume_s in zip(burst.wait_s, burst.consume_s, strict=True):
                values = (trial.num_workers, number, index, _is_warm_up(burst), wait_s, consume_s, outlier, settings)
                yield dict(zip(BATCH_COLUMNS, values, strict=True))
                index += 1


def _rank_rows(result: SearchRecord) -> Iterator[dict[str, Any]]:
    """A row of each candidate and rank, in the order of measuring."""
    for trial in result.trials:
        settings = result.configuration.differing(trial.settings)
        for rank in trial.measurement.ranks if trial.measurement else ():
            own = {"own_s": rank.own_s.value, "own_s_low": rank.own_s.low, "own_s_high": rank.own_s.high}
            yield {"num_workers": trial.num_workers, **_values(rank), **own, "settings": settings}


def _is_warm_up(burst: Burst) -> int:
    return int(not burst.counts)


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A table as CSV; what a row lacks is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_text(path: Path, text: str) -> None:
    """Writes the file in UTF-8 under a temporary name beside it, then renames it."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Writes the file under a temporary name beside it, then renames it."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.chmod(0o666 & ~_umask())  # mkstemp's own mode would keep other users out
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_options(group: Path, options: Mapping[str, str]) -> None:
    """Writes a config group, and removes the options that an earlier report wrote and that are no more.

    Args:
        group: The folder, made if there is anything to write.
        options: The YAML of each, by name.
    """
    if options:
        group.mkdir(parents=True, exist_ok=True)
    for name, text in options.items():
        write_text(group / f"{name}{_OPTION_SUFFIX}", _marked(text))
    kept = {name.casefold() for name in options}
    for path in group.glob(f"*{_OPTION_SUFFIX}"):
        if path.stem.casefold() not in kept and _OPTION_MARK.encode() in path.read_bytes():
            path.unlink()


def _marked(text: str) -> str:
    """The text with the mark, below a line for Hydra, which reads it only at the top."""
    header, newline, rest = text.partition("\n") if text.startswith("# @") else ("", "", text)
    return f"{header}{newline}{_OPTION_MARK}{rest}"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def claim(folder: Path) -> Path:
    """Makes the folder of a run or a grid for one program alone.

    Raises:
        ConfigurationError: If another one has claimed it, at work or finished.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / CLAIM).open("x").close()
    except FileExistsError:
        raise ConfigurationError(
            f"{folder}: holds a run or a grid already, or one that has just begun; choose another hydra.run.dir or "
            "hydra.sweep.dir"
        ) from None
    return folder


def free_folder(folder: Path) -> Path:
    """The folder, or one beside it with a number if it holds another configuration's result already."""
    folders = (folder.with_name(name) for name in _numbered(folder.name))
    return next(each for each in folders if not (each / RESULT).exists())


def holds_results(folder: Path) -> bool:
    """Whether there is any result in the folder or below."""
    return next(folder.rglob(RESULT), None) is not None


def find(folder: Path) -> Stored:
    """Reads the results of a run, or of all configurations of a grid, finished or not.

    Raises:
        NotARunError: If the folder holds neither, or no result in it can be read.
    """
    is_grid = not (folder / RESULT).is_file()
    paths = sorted(folder.rglob(RESULT)) if is_grid else [folder / RESULT]
    if not paths:
        what = "no such folder" if not folder.is_dir() else f"no {RESULT} in it or in a folder in it"
        raise NotARunError(f"{folder}: not a run or a grid of nws_sweep ({what})")
    runs, unreadable = [], []
    for path in paths:
        try:
            runs.append(StoredRun(folder=path.parent, result=from_text(path.read_text("utf-8"))))
        except (ValueError, KeyError, TypeError, OSError) as error:
            unreadable.append(f"{path}: cannot be read ({one_line(repr(error), 120)})")
    if not runs:
        raise NotARunError(unreadable[0])
    runs.sort(key=lambda run: run.result.started_at)
    return Stored(folder=folder, is_grid=is_grid, runs=tuple(runs), unreadable=tuple(unreadable))


def read_batches(folder: Path) -> list[BatchTime]:
    """The per-batch times of a run, in the order of measuring; empty if there is no file.

    Only those of the search of num_workers, not of the settings that were searched after it.
    """
    path = folder / BATCHES
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            BatchTime(
                num_workers=int(row["num_workers"]),
                burst=int(row["burst"]),
                index=int(row["index"]),
                warm_up=row["warm_up"] == "1",
                wait_s=float(row["wait_s"]),
                consume_s=float(row["consume_s"]),
            )
            for row in csv.DictReader(file)
            if not row.get("settings")
        ]


def save_hosted(folder: Path, number: int, run: HostedRun) -> None:
    """Writes what one run of another program told, below the folder of its configuration.

    Args:
        folder: Of the configuration.
        number: That of the run in its sweep; a run of the same number is replaced.
        run: What it told.
    """
    (folder / HOSTED_RUNS).mkdir(parents=True, exist_ok=True)
    write_text(folder / HOSTED_RUNS / f"{number}.json", json.dumps(asdict(run), default=str) + "\n")


def read_hosted(folder: Path) -> list[HostedRun]:
    """The runs of a configuration, in the order in which they started; those that cannot be read are left out."""
    runs = []
    for path in (folder / HOSTED_RUNS).glob("*.json"):
        with contextlib.suppress(ValueError, KeyError, TypeError, OSError):
            runs.append(_hosted_run(json.loads(path.read_text("utf-8"))))
    return sorted(runs, key=lambda run: run.started_at)


def hosted_folders(folder: Path) -> list[Path]:
    """The folders of the configurations of another program's sweep."""
    return sorted(path.parent for path in folder.glob(f"*/{HOSTED_RUNS}"))


def _hosted_run(data: Mapping[str, Any]) -> HostedRun:
    return HostedRun(
        **{
            **data,
            "candidates": tuple(data["candidates"]),
            "host": Host(**data["host"]),
            "settings": LoaderSettings(**data["settings"]) if data["settings"] else None,
            "facts": _facts(data["facts"]) if data["facts"] else None,
            "bursts": tuple(_burst(burst) for burst in data["bursts"]),
        }
    )


def _burst(data: Mapping[str, Any]) -> Burst:
    lists = {"wait_s": tuple(data["wait_s"]), "consume_s": tuple(data["consume_s"]), "meet_s": (), "ranks": ()}
    return Burst(**{**data, **lists, "kind": BurstKind(data["kind"])})


def _to_json(result: SearchRecord) -> dict[str, Any]:
    data = asdict(result)
    data["configuration"]["fingerprint"] = result.configuration.fingerprint
    if result.configuration.ranks == 1:
        del data["configuration"]["ranks"]
    for trial, stored in zip(result.trials, data["trials"], strict=True):
        stored["bursts"] = [_burst_summary(burst) for burst in trial.bursts]
        if trial.measurement and not trial.measurement.ranks:
            del stored["measurement"]["ranks"]
    return {"schema_version": SCHEMA_VERSION, **data}


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
    }


def _from_json(data: Mapping[str, Any]) -> SearchRecord:
    if data["schema_version"] > SCHEMA_VERSION:
        raise ValueError(f"schema version {data['schema_version']}, this program reads up to {SCHEMA_VERSION}")
    return SearchRecord(
        configuration=_configuration(data["configuration"]),
        host=Host(**data["host"]),
        facts=_facts(data["facts"]) if data["facts"] else None,
        trials=tuple(_trial(trial) for trial in data["trials"]),
        stop_reason=data["stop_reason"],
        error=data["error"],
        started_at=data["started_at"],
        cost_s=data["cost_s"],
        cost=SearchCost(**data["cost"]) if data.get("cost") else None,
        verdict=_verdict(data.get("verdict")),
        sample_check=SampleCheck(**data["sample_check"]) if data.get("sample_check") else None,
    )


def _facts(data: Mapping[str, Any]) -> DatasetFacts:
    objects = tuple(ObjectStore(**store) for store in data.get("objects", ()))
    loader = LoaderSettings(**data["loader"]) if data.get("loader") else None
    project = ProjectFacts(**data["project"]) if data.get("project") else None
    return DatasetFacts(**{**data, "objects": objects, "loader": loader, "project": project})


def _verdict(data: Mapping[str, Any] | None) -> Verdict | None:
    if not data:
        return None
    return Verdict(
        recommended=LoaderSettings(**data["recommended"]),
        fastest=LoaderSettings(**data["fastest"]),
        tied=tuple(LoaderSettings(**settings) for settings in data["tied"]),
        settle_s=data["settle_s"],
        provisional=data["provisional"],
    )


def _configuration(data: Mapping[str, Any]) -> Configuration:
    rest = {key: data[key] for key in ("columns", "dataset", "consumer", "collate_fn", "seed")}
    rest |= {"services": data.get("services", {}), "check_samples": data.get("check_samples", False)}
    rest["ranks"] = data.get("ranks", 1)
    search = {**data["search"], "candidates": tuple(data["search"]["candidates"])}
    search["also"] = tuple(search.get("also", ()))
    return Configuration(
        loader=LoaderSettings(**data["loader"]),
        measure=_measure_rules(data["measure"]),
        search=SearchRules(**search),
        **rest,
    )


def _measure_rules(data: Mapping[str, Any]) -> MeasureRules:
    """Those of version 1 had keys that are gone; what they lack has the values of today."""
    known = {entry.name: data[entry.name] for entry in fields(MeasureRules) if entry.name in data}
    files = known.get("cache_files")
    return MeasureRules(**{**known, "cache_files": None if files is None else tuple(files)})


def _noise(data: Mapping[str, Any] | None) -> Noise | None:
    return Noise(**{**data, "outliers": tuple(data["outliers"])}) if data else None


def _rank(data: Mapping[str, Any]) -> RankMeasurement:
    return RankMeasurement(**{**data, "own_s": Estimate(**data["own_s"])})


def _trial(data: Mapping[str, Any]) -> Trial:
    measurement = data["measurement"]
    if measurement:
        batch, ranks = measurement["batch_s"], tuple(_rank(rank) for rank in measurement.get("ranks", ()))
        measurement = Measurement(**{**measurement, "batch_s": Estimate(**batch) if batch else None, "ranks": ranks})
    return Trial(
        settings=LoaderSettings(**data["settings"]),
        state=TrialState(data["state"]),
        reason=data["reason"],
        notes=tuple(data["notes"]),
        warnings=tuple(data["warnings"]),
        measurement=measurement,
        noise=_noise(data.get("noise")),
        finished=data.get("finished", True),
        cost_s=data["cost_s"],
    )
