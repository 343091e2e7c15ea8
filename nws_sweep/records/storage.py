"""The files of a run and of a grid: their names, writing and reading. Every file is
written atomically."""

import contextlib
import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from nws_sweep.errors import NotARunError, one_line
from nws_sweep.records import atomic, codec
from nws_sweep.records.measurements import BatchTime
from nws_sweep.records.search_record import SearchRecord

RESULT = "result.json"
TIMINGS = "timings.csv"
BATCHES = "batches.csv"
COSTS = "costs.csv"
BEST = "best.yaml"
TRIAL_LOG = "trial.log"
FOLDER_LOCK = ".nws_sweep"  # locked by the program that writes into the folder
GRID_RESULTS = "results.csv"
GRID_BEST = "best.csv"
REPORT = "report.md"
PAGE = "report.html"
PLOTS = "plots"  # folder of the pictures of a grid
UNREADABLE = "unreadable"  # part of the name of an unreadable file that was set aside

_Content = TypeVar("_Content")

_LONGEST_NAME = 120  # bytes, without the hash; file systems allow 255


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """The result of one configuration and its folder."""

    folder: Path
    result: SearchRecord
    # why batches.csv cannot be read; empty if it can, or does not exist
    batches_error: str = ""

    @property
    def recorded(self) -> SearchRecord:
        """The result with the records of its batches, if costs.csv exists and can be
        read; each use reads it."""
        if not any(trial.records for trial in self.result.trials):
            with contextlib.suppress(NotARunError):
                return with_records(self)
        return self.result


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The results in the folder of a run or a grid."""

    folder: Path
    is_grid: bool  # True if each configuration has a sub-folder
    runs: tuple[StoredRun, ...]  # in the order of measuring
    unreadable: tuple[str, ...] = ()  # one line per unreadable result
    # one line per unreadable file that a resumption set aside
    set_aside: tuple[str, ...] = ()
    # of a selection: the columns that vary in the whole grid
    axes: tuple[str, ...] = ()


def safe_name(name: str, refused: str) -> str:
    """A name for a file, in which characters that match ``refused`` are replaced.

    A name changed by this, or cut because of its length, ends in a hash.
    """
    safe = (
        re.sub(refused, "_", name)
        .encode()[:_LONGEST_NAME]
        .decode(errors="ignore")
        .lstrip(".")
    )
    return (
        safe
        if safe == name
        else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    )


def numbered(name: str) -> Iterator[str]:
    """The name, then ``NAME-2``, ``NAME-3``, ..."""
    return (
        name if number == 1 else f"{name}-{number}" for number in itertools.count(1)
    )


def save(folder: Path, result: SearchRecord) -> None:
    """Writes the files of one configuration, complete or interrupted.

    batches.csv is on the disk before result.json, so that a power failure never leaves
    a result without its batches. A folder that is removed meanwhile is made again.
    """
    try:
        _write(folder, result)
    except FileNotFoundError:
        _write(folder, result)


def _write(folder: Path, result: SearchRecord) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_text(folder / TIMINGS, codec.timings_text(result))
    atomic.write_text(folder / BATCHES, codec.batches_text(result), durable=True)
    atomic.write_text(folder / COSTS, codec.costs_text(result))
    atomic.write_text(folder / RESULT, codec.to_text(result), durable=True)


def load(folder: Path) -> StoredRun:
    """Reads the result of one configuration, with what of batches.csv and costs.csv can
    be read, to resume its search.

    NotARunError if result.json is missing or cannot be read.
    """
    run = _stored_run(folder / RESULT)
    run = replace(run, result=run.recorded)
    if not (folder / BATCHES).exists():
        return run
    try:
        return replace(
            run, result=_read(folder / BATCHES, partial(codec.with_windows, run.result))
        )
    except NotARunError as error:
        return replace(run, batches_error=str(error))


def with_records(run: StoredRun) -> SearchRecord:
    """The result with the records of its batches; NotARunError if costs.csv is missing
    or cannot be read."""
    path = run.folder / COSTS
    if not path.exists():
        raise NotARunError(f"{run.folder}: no {COSTS}, so nothing can be predicted")
    return _read(path, partial(codec.with_records, run.result))


def set_aside(folder: Path, why: str) -> Path:
    """Renames the files of a configuration; returns the new path of its result."""
    for name in (TIMINGS, BATCHES, COSTS):
        if (folder / name).exists():
            atomic.set_aside(folder / name, why)
    return atomic.set_aside(folder / RESULT, why)


def copy_batches(folder: Path) -> None:
    """Copies batches.csv as interrupted, if it has rows and no copy is equal:
    unfinished trials are measured again."""
    path = folder / BATCHES
    copies = [
        atomic.read_bytes(copy) for copy in folder.glob(f"{BATCHES}.interrupted-*")
    ]
    if has_rows(path) and (content := atomic.read_bytes(path)) not in copies:
        atomic.write_bytes(atomic.free_name(path, "interrupted"), content)


def has_rows(path: Path) -> bool:
    """Whether a CSV file exists and has more than its header."""
    with contextlib.suppress(FileNotFoundError):
        return atomic.read_bytes(path).count(b"\n") > 1
    return False


def output_folder() -> Path:
    """The folder of ``runs/`` and ``sweeps/``, as in conf/paths/default.yaml."""
    return Path(os.environ.get("NWS_SWEEP_OUTPUT_DIR") or "outputs")


def new_folder(kind: str, suffix: str = "", output: Path | None = None) -> Path:
    """Makes a folder named after the time in ``runs`` or ``sweeps`` of an output
    folder, or of the usual one."""
    parent = ((output or output_folder()) / kind).absolute()
    parent.mkdir(parents=True, exist_ok=True)
    names = numbered(f"{datetime.now().astimezone():%Y-%m-%d_%H-%M-%S}{suffix}")
    return next(folder for name in names if _is_made(folder := parent / name))


def _is_made(folder: Path) -> bool:
    """Makes the folder, unless another process has made it."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def newest() -> Path:
    """The folder of the newest run or grid below the output folder; NotARunError if
    there is none."""
    output = output_folder()
    folders = [
        folder
        for kind in ("runs", "sweeps")
        for folder in output.glob(f"{kind}/*")
        if holds_results(folder)
    ]
    if not folders:
        raise NotARunError(f"{output}: no run or grid of nws_sweep; name its folder")
    return max(
        folders,
        key=lambda folder: max(
            result.stat().st_mtime for result in folder.rglob(RESULT)
        ),
    )


def holds_results(folder: Path) -> bool:
    """True if the folder or a folder below contains a result."""
    return next(folder.rglob(RESULT), None) is not None


def find(folder: Path) -> Stored:
    """Reads the results of a run, or of all configurations of a grid; NotARunError if
    none is readable."""
    is_grid = not (folder / RESULT).is_file()
    paths = sorted(folder.rglob(RESULT)) if is_grid else [folder / RESULT]
    if not paths:
        why = (
            "no such folder"
            if not folder.is_dir()
            else f"no {RESULT} in it or in a folder in it"
        )
        raise NotARunError(f"{folder}: not a run or a grid of nws_sweep ({why})")
    runs, unreadable = [], []
    for path in paths:
        try:
            runs.append(_stored_run(path))
        except NotARunError as error:
            unreadable.append(str(error))
    if not runs:
        raise NotARunError(unreadable[0])
    runs.sort(key=lambda run: run.result.started_at)
    aside = (
        path.relative_to(folder) for path in sorted(folder.rglob(f"*.{UNREADABLE}-*"))
    )
    lines = tuple(f"{path}: could not be read, and was set aside" for path in aside)
    return Stored(
        folder=folder,
        is_grid=is_grid,
        runs=tuple(runs),
        unreadable=tuple(unreadable),
        set_aside=lines,
    )


def _stored_run(path: Path) -> StoredRun:
    return StoredRun(folder=path.parent, result=_read(path, codec.from_text))


def read_batches(folder: Path) -> list[BatchTime]:
    """The times of batches, in the order of measuring; empty if there is no file.

    NotARunError if the file cannot be read.
    """
    path = folder / BATCHES
    return _read(path, codec.parse_batches) if path.is_file() else []


def _read(path: Path, parse: Callable[[str], _Content]) -> _Content:
    """The parsed content of a file; NotARunError if it cannot be read or is wrong."""
    try:
        return parse(atomic.read_text(path))
    except (*codec.UNREADABLE, OSError) as error:
        raise NotARunError(
            f"{path}: cannot be read ({one_line(repr(error), 120)})"
        ) from error
