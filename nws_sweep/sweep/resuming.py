"""What a folder holds already of what is about to be measured, and whether that may be gone on with; who works in it.

Finished trials are not measured again. Whatever cannot be read, or was left half-way, is set aside under another name:
nothing measured is ever lost, and nothing that is doubtful is mixed with what is measured now.
"""

from __future__ import annotations

import contextlib
import errno
from dataclasses import dataclass, replace
from pathlib import Path

import filelock

from nws_sweep.errors import ConfigurationError, NotARunError
from nws_sweep.results import MACHINE, VERSIONS, Configuration, Host, SearchRecord, atomic, storage

_FORCE = "resume.force=true goes on all the same and marks every row"
# A program that was killed has let its claim go with its last helper, a moment later.
_GRACE_S = 3.0
# What file systems without locks answer: there no process can be told apart.
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, getattr(errno, "ENOTSUP", errno.EOPNOTSUPP))


def folder_lock(folder: Path) -> filelock.BaseFileLock | None:
    """Makes the folder of a run or a grid, if need be, and takes it for this program alone.

    The claim is the kernel's lock, so a program that is killed holds nothing back; what it has left half-written of the
    folder's own files is removed. None on file systems without locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = filelock.FileLock(folder / storage.FOLDER_LOCK, thread_local=False, fallback_to_soft=False)
    except TypeError:  # of a version that has nothing to fall back to
        lock = filelock.FileLock(folder / storage.FOLDER_LOCK, thread_local=False)
    taken = True
    try:
        lock.acquire(timeout=_GRACE_S, poll_interval=0.1)
    except filelock.Timeout:
        raise ConfigurationError(
            f"{folder}: another program measures into this folder now; wait for it, or choose another hydra.run.dir or "
            "hydra.sweep.dir"
        ) from None
    except NotImplementedError:  # what filelock makes of ENOSYS if it may not take another kind of lock
        taken = False
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
        taken = False
    for place in (folder, folder / storage.PLOTS):
        atomic.remove_temporary(place)
    return lock if taken else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeState:
    """Where the search of a configuration goes on, or begins (without a record); a line for what was set aside."""

    folder: Path
    record: SearchRecord | None = None
    told: tuple[str, ...] = ()


def check(folder: Path, host: Host, *, is_grid: bool, nodes_differ: bool, force: bool) -> str:
    """Looks at what an earlier program has left in a folder; ConfigurationError says why it must be left alone.

    Where nodes differ only versions must be the same. What is mixed by force is the answer, else empty.
    """
    option = "hydra.sweep.dir" if is_grid else "hydra.run.dir"
    is_run = (folder / storage.RESULT).exists()
    if is_grid is is_run and storage.holds_results(folder):  # its report would not show both
        there = "a single run" if is_run else "a grid"
        raise ConfigurationError(f"{folder}: holds {there}; choose another {option}")
    names = VERSIONS if nodes_differ else (*MACHINE, *VERSIONS)
    earlier = (run.result for run in storage.readable_runs(folder) if run.result.trials)  # or nothing was measured
    found = next((text for record in earlier if (text := record.host.difference(host, names))), "")
    if found and not force:
        raise ConfigurationError(f"{folder}: holds results {found}; {_FORCE}, or choose another {option}")
    return f"resumed by force: beside results {found}" if found else ""


def refuse_another(folder: Path, configuration: Configuration) -> None:
    """ConfigurationError if the folder holds the run of another configuration."""
    with contextlib.suppress(NotARunError):
        if storage.load(folder).result.configuration.fingerprint != configuration.fingerprint:
            raise ConfigurationError(f"{folder}: holds the run of another configuration; choose another hydra.run.dir")


def mark(folder: Path, forced: str) -> None:
    """Writes into every result of a folder, and so into every row, what a resumption by force has mixed."""
    for run in storage.readable_runs(folder):
        if forced not in run.result.forced:
            storage.mark_forced(run.folder, "; ".join(filter(None, (run.result.forced, forced))))


def finished(folder: Path, configuration: Configuration, host: Host) -> storage.StoredRun | None:
    """The result of a configuration, if it was searched to its end and its batches can be read; changes nothing."""
    place, loaded = _place_of(folder, configuration, host)
    if not isinstance(loaded, storage.Loaded) or not loaded.result.complete or loaded.batches_error:
        return None
    return storage.StoredRun(folder=place, result=loaded.result)


def begun(folder: Path, configuration: Configuration, host: Host, *, force: bool = False) -> ResumeState:
    """Finds what there is of a configuration, in its folder or, if that has another, in a numbered one beside it.

    What another machine has left half-way restarts on this host, but by force.
    """
    place, loaded = _place_of(folder, configuration, host)
    if loaded is None:
        return ResumeState(folder=place)
    if isinstance(loaded, NotARunError):
        aside = storage.set_aside(place, storage.UNREADABLE)
        return ResumeState(folder=place, told=(f"{loaded}; set aside as {aside.name}, and measured again",))
    record, told = loaded.result, []
    if not record.complete and not any(trial.finished for trial in record.trials):
        storage.copy_batches(place)
        return ResumeState(folder=place)
    if not record.complete and not force and (found := record.host.difference(host)):
        aside = storage.set_aside(place, "other_host")
        return ResumeState(
            folder=place, told=(f"{place}: begun {found}; set aside as {aside.name}, and measured again",)
        )
    if loaded.batches_error:
        aside = atomic.set_aside(place / storage.BATCHES, storage.UNREADABLE)
        told.append(f"{loaded.batches_error}; set aside as {aside.name}: the times of its single batches are missing")
    elif not all(trial.finished for trial in record.trials):
        storage.copy_batches(place)
    return ResumeState(folder=place, record=record, told=tuple(told))


def _place_of(
    folder: Path, configuration: Configuration, host: Host
) -> tuple[Path, storage.Loaded | NotARunError | None]:
    """The folder of a configuration, and what is in it: its result, one that cannot be read, or none."""
    for place in storage.numbered_folders(folder):
        if not (place / storage.RESULT).exists():
            return place, None
        try:
            loaded = storage.load(place)
        except NotARunError as error:
            return place, error
        if _asks_the_same(loaded.result, configuration, host):
            return place, loaded
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
    candidates = () if rules.candidates == tuple(range(len(rules.candidates))) else rules.candidates
    return replace(configuration, search=replace(rules, candidates=candidates, reference=None))
