"""Resuming: which results a folder holds, whether a search may continue with them, and
the lock of the folder.

Finished trials are not measured again. Unreadable files and unfinished batches are
renamed, never deleted, and never mixed with new measurements.
"""

import contextlib
import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import filelock

from nws_sweep.errors import ConfigurationError, NotARunError
from nws_sweep.records import (
    MACHINE,
    VERSIONS,
    Configuration,
    Host,
    SearchRecord,
    atomic,
    storage,
)

# The lock of a killed program is released when its last child process exits.
_GRACE_S = 3.0
# Errors of file systems without locks.
_WITHOUT_LOCKS = (
    errno.ENOLCK,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    getattr(errno, "ENOTSUP", errno.EOPNOTSUPP),
)


def folder_lock(folder: Path) -> filelock.BaseFileLock:
    """Creates a folder, locks it, and removes temporary files of a killed program,
    whose lock the kernel has released.

    On file systems without locks it is not locked, and the files, which may be another
    program's, stay. ConfigurationError if another program holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(
        folder / storage.FOLDER_LOCK, thread_local=False, fallback_to_soft=False
    )
    try:
        lock.acquire(timeout=_GRACE_S, poll_interval=0.1)
    except filelock.Timeout:
        raise ConfigurationError(
            f"{folder}: another program is measuring into this folder; wait for it, or choose another hydra.run.dir or "
            "hydra.sweep.dir"
        ) from None
    except (NotImplementedError, OSError) as error:
        # filelock raises NotImplementedError for ENOSYS
        if isinstance(error, OSError) and error.errno not in _WITHOUT_LOCKS:
            raise
    if lock.is_locked:
        atomic.remove_temporary(folder)
        atomic.remove_temporary(folder / storage.PLOTS)
    return lock


def check(
    folder: Path, describe: Callable[[int], Host], *, is_grid: bool, nodes_differ: bool
) -> None:
    """Raises ConfigurationError if a folder has results of another host or versions, or
    of the other kind of run.

    A link that leads out of the folder is an error, too: files and logs would be
    written there. ``describe`` returns this host for a number of ranks. If nodes
    differ, only the versions must be equal.
    """
    atomic.refuse_links_out(folder, folder.rglob("*"))
    option = "hydra.sweep.dir" if is_grid else "hydra.run.dir"
    is_run = (folder / storage.RESULT).exists()
    if is_grid is is_run and storage.holds_results(folder):  # a report shows one kind
        kind = "a single run" if is_run else "a grid"
        raise ConfigurationError(f"{folder}: holds {kind}; choose another {option}")
    names = VERSIONS if nodes_differ else (*MACHINE, *VERSIONS)
    with contextlib.suppress(NotARunError):
        for run in storage.find(folder).runs:
            here = describe(run.result.configuration.ranks)
            difference = run.result.host.difference(here, names)
            if difference and run.result.trials:
                raise ConfigurationError(
                    f"{folder}: holds results {difference}; choose another {option}"
                )


def refuse_another(folder: Path, configuration: Configuration) -> None:
    """Raises ConfigurationError if the folder holds the run of another
    configuration."""
    with contextlib.suppress(NotARunError):
        if (
            storage.load(folder).result.configuration.fingerprint
            != configuration.fingerprint
        ):
            raise ConfigurationError(
                f"{folder}: holds the run of another configuration; choose another hydra.run.dir"
            )


def ended(
    folder: Path, configuration: Configuration, host: Host
) -> storage.StoredRun | None:
    """Loads the result of a configuration if its search ended, perhaps by its limit,
    and its batches can be read."""
    with contextlib.suppress(NotARunError):
        run = storage.load(folder)
        if (
            run.result.complete
            and not run.batches_error
            and _is_same_search(run.result, configuration, host)
        ):
            return run
    return None


def resume(
    folder: Path, configuration: Configuration, host: Host
) -> tuple[SearchRecord | None, str]:
    """Loads the record with which a search continues, and a line if files were set
    aside; None if the search starts.

    Another configuration with the same overrides, and an unfinished search of another
    host, are set aside.
    """
    if not (folder / storage.RESULT).exists():
        return None, ""
    try:
        run = storage.load(folder)
    except NotARunError as error:
        return _set_aside(folder, storage.UNREADABLE, str(error))
    record, message = run.result, ""
    if not _is_same_search(record, configuration, host):
        return _set_aside(
            folder,
            "other_values",
            f"{folder}: holds another configuration with the same overrides",
        )
    if not record.is_final and not record.results:
        storage.copy_batches(folder)
        return None, ""
    difference = "" if record.is_final else record.host.difference(host)
    if difference:
        return _set_aside(folder, "other_host", f"{folder}: started {difference}")
    if run.batches_error:
        aside = atomic.set_aside(folder / storage.BATCHES, storage.UNREADABLE)
        message = f"{run.batches_error}; set aside as {aside.name}: the times of its single batches are missing"
    elif any(trial.windows for trial in record.trials if trial not in record.results):
        storage.copy_batches(folder)
    return record, message


def _set_aside(folder: Path, why: str, reason: str) -> tuple[None, str]:
    aside = storage.set_aside(folder, why)
    return None, f"{reason}; set aside as {aside.name}, and measured again"


def _is_same_search(
    record: SearchRecord, configuration: Configuration, host: Host
) -> bool:
    """Whether a record is of this configuration; on another host the candidates may
    differ with its CPUs."""
    there, here = record.configuration, configuration
    if record.host.difference(host, MACHINE):
        there, here = _without_cpu_defaults(there), _without_cpu_defaults(here)
    return there.fingerprint == here.fingerprint


def _without_cpu_defaults(configuration: Configuration) -> Configuration:
    """Leaves out the values whose defaults depend on the CPUs: the largest candidate,
    max_workers and the reference."""
    rules = configuration.search
    is_default = rules.max_workers is None or rules.candidates == tuple(
        range(len(rules.candidates))
    )
    candidates = () if is_default else rules.candidates
    return replace(
        configuration,
        search=replace(rules, candidates=candidates, max_workers=None, reference=None),
    )
