"""The files of a run and of a grid: the only module that knows their names.

Every file is written under a temporary name and renamed, so that a reader never meets half of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nws_sweep.errors import NotARunError, one_line
from nws_sweep.results import atomic, batch_table, codec, timing_table
from nws_sweep.results.batch_table import BatchTime
from nws_sweep.results.search_record import ProgramRun, SearchRecord
from nws_sweep.results.settings import shown

logger = logging.getLogger(__name__)

RESULT = "result.json"
TIMINGS = "timings.csv"
BATCHES = "batches.csv"
RANKS = "ranks.csv"  # where there are several
BEST = "best.yaml"
BEST_GROUP = "best"  # a folder that is a config group of Hydra's: an option for each configuration
TRIAL_LOG = "trial.log"
FOLDER_LOCK = ".nws_sweep"  # locked by the program that measures into the folder
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
UNREADABLE = "unreadable"  # what is set aside as such has this in its name
# Beginnings of overrides that do not tell configurations apart: how the grid is run, and presets.
NAMELESS = (
    "axis/", "order=", "resume.", "resume=", "reuse=", "paths.output_dir=", "paths.lock_file=", "paths.cache_dir="
)  # fmt: skip
PROGRAM_GRID = "nws_sweep_results"  # no name of a package; in the sweep folder of another program: the grid of its runs
PROGRAM_RUNS = "jobs"  # below a configuration of it: a file per run, from which its result is made

_LONGEST_NAME = 120  # bytes; file systems allow 255, the hash included
_OPTION_MARK = "# nws_sweep writes this file again with each report\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """One configuration's result and where it lies."""

    folder: Path
    result: SearchRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A result with all that is known of it."""

    result: SearchRecord  # with the batches of its trials, or without any
    batches_error: str = ""  # why they cannot be read; empty if they can, or are not there


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What was found in a folder of a run or a grid."""

    folder: Path
    is_grid: bool  # whether it holds a sub-folder per configuration
    runs: tuple[StoredRun, ...]  # in the order of measuring
    unreadable: tuple[str, ...] = ()  # one line for each result that cannot be read
    set_aside: tuple[str, ...] = ()  # one line for each file that could not be read when it was to be gone on with
    axes: tuple[str, ...] = ()  # the columns that vary in the grid of which these are a selection


def folder_name(overrides: Sequence[str]) -> str:
    """The name of a configuration's folder in a grid: its overrides, sorted, such as ``batch_size=64,pin_memory=true``.

    Presets (``axis/...``) and what does not change what is measured are left out. Whatever does not belong into a file
    name is replaced, and a name that is changed by this, or too long, ends in a hash that keeps it unique.
    """
    typed = (re.sub("=(True|False|None)$", lambda value: value[0].lower(), text) for text in overrides)
    plain = sorted(text for text in typed if not text.startswith(NAMELESS))
    return _safe_name(",".join(plain) or "default", r"[^\w=.,+~@\[\]-]")


def _safe_name(name: str, refused: str) -> str:
    safe = re.sub(refused, "_", name).encode()[:_LONGEST_NAME].decode(errors="ignore").lstrip(".")
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def option_names(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of configurations as options of a config group, such as ``batch_size-64--pin_memory-true``; all differ.

    They hold only what Hydra's command line takes without quotes: ASCII letters, digits, ``_``, ``-`` and ``.``. The
    values of a point are those that tell the configuration from the others; the only one has none.
    """
    names: dict[str, str] = {}  # by what file systems see that know no case
    for point in points:
        # Never a number or null, which Hydra takes for no name: each part has its key. Nor may it end like a file.
        wanted = "--".join(f"{key}-{shown(value)}" for key, value in point.items()) or "run"
        wanted = _safe_name(wanted, r"[^A-Za-z0-9_.-]|\.(?=ya?ml$)")
        name = next(name for name in _numbered(wanted) if name.casefold() not in names)
        names[name.casefold()] = name
    return list(names.values())


def _numbered(name: str) -> Iterator[str]:
    """The name itself, then the same with 2, 3, ... behind."""
    return (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))


def save(folder: Path, result: SearchRecord) -> None:
    """Writes the files of one configuration, complete or as far as it got.

    What result.json says is in batches.csv too, also after a power failure.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_timings(folder, result)
    atomic.write_text(folder / BATCHES, batch_table.text_of(result), durable=True)
    if result.configuration.ranks > 1:
        atomic.write_text(folder / RANKS, timing_table.ranks_text(result))
    atomic.write_text(folder / RESULT, codec.to_text(result), durable=True)


def write_timings(folder: Path, result: SearchRecord) -> None:
    """Writes timings.csv if it does not say what result.json does."""
    path, text = folder / TIMINGS, timing_table.text_of(result)
    if not path.is_file() or path.read_bytes() != text.encode():
        atomic.write_text(path, text)


def load(folder: Path) -> Loaded:
    """Reads the result of one configuration with all its batches, to go on with it.

    Raises:
        NotARunError: If result.json is missing or cannot be read.
    """
    result = _stored_run(folder / RESULT).result
    if not (folder / BATCHES).exists():  # set aside, or removed by someone
        return Loaded(result=result)
    try:
        times = batch_table.by_window(batch_table.parse((folder / BATCHES).read_text("utf-8")))
        return Loaded(result=codec.with_windows((folder / RESULT).read_text("utf-8"), times))
    except (*codec.UNREADABLE, OSError) as error:
        return Loaded(result=result, batches_error=_cannot_be_read(folder / BATCHES, error))


def write_options(group: Path, options: Mapping[str, str]) -> None:
    """Writes the YAML of each option of a config group, and removes those that are no more of an earlier report."""
    if options:
        group.mkdir(parents=True, exist_ok=True)
    for name, text in options.items():
        # The mark stands below a line for Hydra, which reads that only at the top.
        header, newline, rest = text.partition("\n") if text.startswith("# @") else ("", "", text)
        atomic.write_text(group / f"{name}.yaml", f"{header}{newline}{_OPTION_MARK}{rest}")
    kept = {name.casefold() for name in options}
    for path in group.glob("*.yaml"):
        if path.stem.casefold() not in kept and _OPTION_MARK.encode() in path.read_bytes():
            path.unlink()


def numbered_folders(folder: Path) -> Iterator[Path]:
    """The folder itself, then those beside it with 2, 3, ... behind its name."""
    return (folder.with_name(name) for name in _numbered(folder.name))


def set_aside(folder: Path, why: str) -> Path:
    """Renames the files of a configuration to make place for others; the new name of its result."""
    for name in (TIMINGS, BATCHES, RANKS):
        if (folder / name).exists():
            atomic.set_aside(folder / name, why)
    return atomic.set_aside(folder / RESULT, why)


def copy_batches(folder: Path) -> None:
    """Copies batches.csv, whose unfinished trials will be measured again; it stays until that has a result."""
    if _has_batches(folder):
        atomic.copy_aside(folder / BATCHES, "interrupted")


def _has_batches(folder: Path) -> bool:
    with contextlib.suppress(FileNotFoundError), (folder / BATCHES).open("rb") as file:
        return bool(file.readline() and file.readline())  # more than the header
    return False


def mark_forced(folder: Path, forced: str) -> None:
    """Writes what a resumption by force has mixed into the result of a configuration; all else stays."""
    path = folder / RESULT
    text = codec.with_forced(path.read_text("utf-8"), forced)
    atomic.write_text(path, text, durable=True)
    write_timings(folder, codec.from_text(text))


def has_plots(folder: Path) -> bool:
    """Whether the pictures of a configuration are in its folder; where all trials failed there are none to be made."""
    names = [SCALING_PLOT, *([BATCHES_PLOT] if _has_batches(folder) else [])]
    return all((folder / f"{name}.svg").exists() for name in names)  # the SVG is written after the PNG


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
            runs.append(_stored_run(path))
        except NotARunError as error:
            unreadable.append(str(error))
    if not runs:
        raise NotARunError(unreadable[0])
    runs.sort(key=lambda run: run.result.started_at)
    left = (path.relative_to(folder) for path in sorted(folder.rglob(f"*.{UNREADABLE}-*")))
    aside = tuple(f"{path}: could not be read, and was set aside" for path in left)
    return Stored(folder=folder, is_grid=is_grid, runs=tuple(runs), unreadable=tuple(unreadable), set_aside=aside)


def readable_runs(folder: Path) -> Iterator[StoredRun]:
    """The same results, as far as they can be read, one after the other: of long grids only one is held."""
    for path in sorted(folder.rglob(RESULT)):
        with contextlib.suppress(NotARunError):
            yield _stored_run(path)


def _stored_run(path: Path) -> StoredRun:
    try:
        return StoredRun(folder=path.parent, result=codec.from_text(path.read_text("utf-8")))
    except (*codec.UNREADABLE, OSError) as error:
        raise NotARunError(_cannot_be_read(path, error)) from error


def read_batches(folder: Path) -> list[BatchTime]:
    """The per-batch times of a run's search of num_workers, in the order of measuring; empty if there is no file.

    Raises:
        NotARunError: If the file is there and cannot be read.
    """
    path = folder / BATCHES
    if not path.is_file():
        return []
    try:
        return [row for row in batch_table.parse(path.read_text("utf-8")) if not row.settings]
    except ValueError as error:
        raise NotARunError(_cannot_be_read(path, error)) from error


def _cannot_be_read(path: Path, error: Exception) -> str:
    return f"{path}: cannot be read ({one_line(repr(error), 120)})"


def save_program_run(folder: Path, number: int, run: ProgramRun) -> None:
    """Writes what a run of another program, of this number in its sweep, told into the configuration's folder."""
    (folder / PROGRAM_RUNS).mkdir(parents=True, exist_ok=True)
    atomic.write_text(
        folder / PROGRAM_RUNS / f"{number}.json", json.dumps(msgspec.to_builtins(run, enc_hook=str)) + "\n"
    )


def read_program_runs(folder: Path) -> list[ProgramRun]:
    """The runs of a configuration, in the order in which they started; of those that cannot be read the log says so."""
    runs = []
    for path in (folder / PROGRAM_RUNS).glob("*.json"):
        try:
            runs.append(msgspec.convert(json.loads(path.read_text("utf-8")), ProgramRun))
        except (*codec.UNREADABLE, OSError) as error:
            logger.warning("%s; it is left out", _cannot_be_read(path, error))
    return sorted(runs, key=lambda run: run.started_at)


def program_run_folders(folder: Path) -> list[Path]:
    """The folders of the configurations of another program's sweep."""
    return sorted(path.parent for path in folder.glob(f"*/{PROGRAM_RUNS}"))
