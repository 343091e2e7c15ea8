"""What a folder holds already of what is about to be measured, and whether that may be gone on with.

Finished trials are not measured again. Whatever cannot be read, or was left half-way, is set aside under another name:
nothing measured is ever lost, and nothing that is doubtful is mixed with what is measured now.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path

from nws_sweep import disk, storage
from nws_sweep.errors import ConfigurationError, NotARunError
from nws_sweep.records import MACHINE, VERSIONS, Configuration, Host, SearchRecord

_FORCE = "resume.force=true goes on all the same and marks every row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Where the search of a configuration goes on, or begins.

    Attributes:
        folder: Where its files belong.
        record: What there is of it; None if it begins.
        told: A line for everything that was set aside.
    """

    folder: Path
    record: SearchRecord | None = None
    told: tuple[str, ...] = ()


def check(folder: Path, host: Host, *, is_grid: bool, nodes_differ: bool, force: bool) -> str:
    """Looks at what an earlier program has left in a folder before anything is added to it.

    Args:
        folder: Of the run or the grid that is about to begin.
        host: This machine.
        is_grid: Whether it is a grid.
        nodes_differ: Whether jobs run on other machines than this one: then only versions must be the same.
        force: Whether results of other hosts or versions may stand beside those that are measured now.

    Returns:
        What is mixed by force; empty if nothing is.

    Raises:
        ConfigurationError: If the folder must be left alone, with the reason.
    """
    _refuse_other_kind(folder, is_grid)
    found = _difference(folder, host, VERSIONS if nodes_differ else (*MACHINE, *VERSIONS))
    if found and not force:
        raise ConfigurationError(f"{folder}: holds results {found}; {_FORCE}, or choose another {_option(is_grid)}")
    return f"resumed by force: beside results {found}" if found else ""


def _refuse_other_kind(folder: Path, is_grid: bool) -> None:
    """A grid's report would not show a single run in the same folder, nor a run's report a grid."""
    is_run = (folder / storage.RESULT).exists()
    if is_grid and is_run:
        raise ConfigurationError(f"{folder}: holds a single run; choose another {_option(is_grid)}")
    if not is_grid and not is_run and storage.holds_results(folder):
        raise ConfigurationError(f"{folder}: holds a grid; choose another {_option(is_grid)}")


def refuse_another(folder: Path, configuration: Configuration) -> None:
    """A single run has one folder, and one configuration.

    Raises:
        ConfigurationError: If the folder holds the run of another one.
    """
    with contextlib.suppress(NotARunError):
        if storage.load(folder).result.configuration.fingerprint != configuration.fingerprint:
            raise ConfigurationError(f"{folder}: holds the run of another configuration; choose another hydra.run.dir")


def _option(is_grid: bool) -> str:
    return "hydra.sweep.dir" if is_grid else "hydra.run.dir"


def _difference(folder: Path, host: Host, names: tuple[str, ...]) -> str:
    earlier = (run.result for run in storage.each(folder) if run.result.trials)  # or nothing was measured
    return next((text for record in earlier if (text := record.host.difference(host, names))), "")


def mark(folder: Path, forced: str) -> None:
    """Writes into every result of a folder, and so into every row, what a resumption by force has mixed."""
    for run in storage.each(folder):
        if forced not in run.result.forced:
            storage.mark(run.folder, "; ".join(filter(None, (run.result.forced, forced))))


def left_half_way(folder: Path) -> SearchRecord | None:
    """The result that a job of this call has begun in its folder and not finished."""
    try:
        record = storage.load(folder).result
    except NotARunError:
        return None
    return None if record.complete else record


def finished(folder: Path, configuration: Configuration, host: Host) -> storage.StoredRun | None:
    """The result of a configuration, if it was searched to its end and its batches can be read; changes nothing."""
    for place in storage.numbered(folder):
        if not (place / storage.RESULT).exists():
            return None
        try:
            loaded = storage.load(place)
        except NotARunError:
            return None
        if _asks_the_same(loaded.result, configuration, host):
            whole = loaded.result.complete and not loaded.batches_lost
            return storage.StoredRun(folder=place, result=loaded.result) if whole else None
    raise AssertionError("numbers do not end")


def begun(folder: Path, configuration: Configuration, host: Host, *, force: bool = False) -> Begun:
    """Finds what there is of a configuration, in its folder or in one with a number beside it.

    Args:
        folder: Where its files belong; another one is taken if that has a search of something else.
        configuration: What is about to be searched.
        host: This machine. What another one has left half-way begins anew here.
        force: Whether it does not matter where it was begun.
    """
    for place in storage.numbered(folder):
        if not (place / storage.RESULT).exists():
            return Begun(folder=place)
        try:
            loaded = storage.load(place)
        except NotARunError as error:
            return Begun(folder=place, told=(f"{error}; {_aside(place, storage.UNREADABLE)}, and measured anew",))
        if _asks_the_same(loaded.result, configuration, host):
            return _going_on(place, loaded, host, force)
    raise AssertionError("numbers do not end")


def _asks_the_same(record: SearchRecord, configuration: Configuration, host: Host) -> bool:
    """Whether a result is that of a configuration, whose candidates depend on the CPUs of its host by default."""
    if record.configuration.fingerprint == configuration.fingerprint:
        return True
    elsewhere = record.host.difference(host, MACHINE) != ""
    return elsewhere and _anywhere(record.configuration).fingerprint == _anywhere(configuration).fingerprint


def _anywhere(configuration: Configuration) -> Configuration:
    """Without what the CPUs decide unless it is chosen: up to how many workers, and which one is the usual rule."""
    rules = configuration.search
    by_default = rules.candidates == tuple(range(len(rules.candidates)))
    candidates = () if by_default else rules.candidates
    return replace(configuration, search=replace(rules, candidates=candidates, reference=None))


def _going_on(place: Path, loaded: storage.Loaded, host: Host, force: bool) -> Begun:
    record, told = loaded.result, []
    if not record.complete and not any(trial.finished for trial in record.trials):
        storage.keep_batches(place)
        return Begun(folder=place)
    if not record.complete and not force and (found := record.host.difference(host)):
        return Begun(folder=place, told=(f"{place}: begun {found}; {_aside(place, 'other_host')}, and measured anew",))
    if loaded.batches_lost:
        aside = disk.set_aside(place / storage.BATCHES, storage.UNREADABLE)
        told.append(f"{loaded.batches_lost}; {_named(aside)}: the times of its single batches are missing")
    elif not all(trial.finished for trial in record.trials):
        storage.keep_batches(place)
    return Begun(folder=place, record=record, told=tuple(told))


def _aside(place: Path, why: str) -> str:
    return _named(storage.set_aside(place, why))


def _named(aside: Path) -> str:
    return f"set aside as {aside.name}"
