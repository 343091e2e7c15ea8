"""``+nws_sweep=auto``: runs another Hydra program once for each value of its own num_workers, and reports at the end.

A callback adds one axis to the multirun of the unchanged program and watches its DataLoaders while a job runs. The
result of a job is written when the job ends, in any process. Hydra turns an exception in a callback into a warning, so
a wrong command line raises SystemExit.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import filelock
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, flag_override

from nws_sweep.analysis import program_runs
from nws_sweep.config.embedding import GROUP
from nws_sweep.config.project_keys import SETTINGS
from nws_sweep.config.schema import column_value, require
from nws_sweep.dataloading.watching import LoaderWatch
from nws_sweep.errors import ConfigurationError, NwsSweepError, one_line
from nws_sweep.measurement import timeline
from nws_sweep.measurement.counters import noise_of
from nws_sweep.report.progress import printer_for
from nws_sweep.results import ProgramRun, ProjectFacts, TimeSlice, storage
from nws_sweep.sweep import grid, resuming
from nws_sweep.system import host, host_lock, usage

logger = logging.getLogger(__name__)

_LOCK_FILE = "NWS_SWEEP_LOCK_FILE"
_NAMES = {"num_workers", "dataloader_num_workers"}
_CALLBACK = "hydra.callbacks.nws_sweep"


class ProgramSweep(Callback):
    """Measures the runs of another program.

    Args:
        key: The key from which the program's DataLoader takes num_workers; None for the only key of that name.
        candidates: Values of num_workers; None for 0, 1, 2, 4, ... up to twice the usable CPUs.
        keep_going: Continue after two candidates have failed for the same reason.
    """

    def __init__(
        self, key: str | None = None, candidates: Sequence[int] | None = None, keep_going: bool = False
    ) -> None:
        self._key = key
        self._candidates = candidates
        self._keep_going = keep_going
        # Set before the first job, since launchers pickle the callback. The folder is None in ranks other than 0.
        self._folder: Path | None = None
        self._job: _Job | None = None
        self._folder_lock: filelock.BaseFileLock | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the lock, which other processes must not hold."""
        return {**self.__dict__, "_folder_lock": None}

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Stops: a single run compares nothing."""
        how = "python train.py -m +nws_sweep=auto"
        raise SystemExit(f"nws_sweep: +nws_sweep=auto runs the program several times, which needs -m: {how}")

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Adds the axis of num_workers unless the command line has it."""
        try:
            self._prepare(config)
        except Exception as error:
            line = str(error) if isinstance(error, NwsSweepError) else one_line(f"{type(error).__name__}: {error}")
            raise SystemExit(f"nws_sweep: {line}") from error

    def _prepare(self, config: DictConfig) -> None:
        given = _swept_values(config)
        self._key = key = num_workers_key(_dotted(config), list(given), self._key)
        if key in given:
            self._candidates = given[key]
        else:
            require("num_workers", self._candidates)
            tried = default_candidates(host.usable_cpus()) if self._candidates is None else self._candidates
            self._candidates = tuple(sorted(tried))
            overrides = config.hydra.overrides.task  # Hydra passes these to its sweeper after this callback
            with flag_override(overrides, ["struct", "readonly"], [False, False]):
                overrides.append(f"{key}={','.join(map(str, self._candidates))}")
        # Only one of the processes of torchrun or srun writes results.
        if all(os.environ.get(name, "0") == "0" for name in ("RANK", "SLURM_PROCID")):
            folder = Path(config.hydra.sweep.dir).absolute() / storage.PROGRAM_GRID
            self._folder_lock = resuming.folder_lock(folder)
            if storage.holds_results(folder):  # Hydra would run all jobs of the sweep again
                raise ConfigurationError(f"{folder}: holds results of an earlier sweep; choose another hydra.sweep.dir")
            self._folder = folder
            atexit.register(_report_at_exit, folder, os.getpid())

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Waits until no other measurement runs on this machine, and starts to watch."""
        if self._folder is None:
            return
        try:
            self._job = _Job(self._folder)
        except NwsSweepError as error:
            raise SystemExit(f"nws_sweep: {error}") from error
        if not self._keep_going and (failure := program_runs.repeated_failure(self._folder)):
            self._job.lock.close()
            remedy = f"{_CALLBACK}.keep_going=true includes them"
            raise SystemExit(f"nws_sweep: {failure}; the other runs are skipped; {remedy}")

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Writes the run, and the result of its configuration so far."""
        job, self._job = self._job, None
        if self._folder is None or job is None:
            return
        with job.lock:
            names = {override: override.partition("=")[0].lstrip("+") for override in job_return.overrides or ()}
            others = {override: name for override, name in names.items() if name not in (self._key, GROUP)}
            run = self._run(job, config, others)
            if job_return.status.name == "FAILED":
                error = job_return._return_value  # the property return_value would raise it
                logger.error("the program failed", exc_info=error)  # Hydra 1.3 shows only the first failure
                run = replace(run, reason=one_line(f"{type(error).__name__}: {error}"))
            folder = self._folder / storage.folder_name(list(others))
            storage.save_program_run(folder, int(config.hydra.job.num), run)
            program_runs.gather(folder)

    def _run(self, job: _Job, config: DictConfig, others: Mapping[str, str]) -> ProgramRun:
        key = str(self._key)
        number = int(OmegaConf.select(config, key))
        timelines, job_slice = timeline.merged(job.watch.stop()), job.usage_so_far()
        run = ProgramRun(
            num_workers=number,
            candidates=tuple(self._candidates or ()),
            columns={name: column_value(config, name, override) for override, name in others.items()},
            program=str(config.hydra.job.name),
            host=host.describe(),
            reason="the program took no batch of any DataLoader",
            started_at=job.started_at,
            elapsed_s=job_slice.elapsed_s,
            noise=noise_of([job_slice], host.usable_cpus()),
        )
        chosen = timeline.training(timelines, number)
        if chosen is None:
            return run
        settings, length, samples = chosen.settings, chosen.batches_per_epoch, None
        if length is not None:  # samples of one process in an epoch, which a sampler may reduce
            seen = length * (settings.batch_size or 1)
            samples = seen if chosen.facts.samples is None else min(seen, chosen.facts.samples)
        project = project_facts(key, _dotted(config), list(others.values()))
        lost = f"set {key}={number}, ran with num_workers={settings.num_workers}: the value does not reach the "
        return replace(
            run,
            settings=settings,
            facts=replace(chosen.facts, samples=samples, project=project),
            batches_per_epoch=length,
            windows=timeline.windows(chosen, [other for other in timelines if other is not chosen]),
            reason="" if number == settings.num_workers else f"{lost}DataLoader",
        )

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes and prints the report."""
        if self._folder is None:
            return
        from nws_sweep.report import writer
        from nws_sweep.sweep.terminal import View

        atexit.unregister(_report_at_exit)
        folders = storage.program_run_folders(self._folder)
        for folder in folders:
            program_runs.gather(folder, finished=True)
        if storage.holds_results(self._folder):
            for folder in folders:
                writer.try_pictures(folder)
            View().conclude(*writer.write(self._folder))


class _Job:
    """A running job, which holds the lock of the machine; programs that wait for the lock print ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.lock = contextlib.ExitStack()
        path = os.environ.get(_LOCK_FILE, host_lock.DEFAULT)
        self.lock.enter_context(host_lock.held(path, str(folder), printer_for(True)))
        if _LOCK_FILE in os.environ:
            self.lock.callback(os.environ.__setitem__, _LOCK_FILE, path)
        else:
            self.lock.callback(os.environ.pop, _LOCK_FILE, None)
        os.environ[_LOCK_FILE] = ""  # a search inside the program must not wait for this lock
        self.watch = LoaderWatch()
        self.watch.start()
        self.lock.callback(self.watch.stop)
        self.started_at = datetime.now().astimezone().isoformat()
        self._began = time.monotonic()
        self._before, self._machine = usage.of_tree(os.getpid()), usage.of_machine()

    def usage_so_far(self) -> TimeSlice:
        """The job up to now as one time slice without windows."""
        elapsed_s, machine = time.monotonic() - self._began, usage.of_machine().since(self._machine)
        after = usage.of_tree(os.getpid())
        return TimeSlice(windows=(), before=self._before, after=after, elapsed_s=elapsed_s, machine=machine)


def _report_at_exit(folder: Path, process: int) -> None:
    """Reports at exit if a job failed: Hydra 1.3 then raises its error and does not call on_multirun_end."""
    if os.getpid() == process and storage.holds_results(folder):
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "nws_sweep", "report", str(folder)], check=False)


def num_workers_key(config: Mapping[str, Any], swept: Sequence[str], requested: str | None) -> str:
    """The dotted key from which the DataLoader takes num_workers.

    ``config`` has all dotted keys with their unresolved values, ``swept`` are the keys on the command line, and
    ``requested`` is the key that the user named. ConfigurationError if there is no such key, or several.
    """

    def is_num_workers(axis: str) -> bool:  # or the training's entry of a mapping of that name
        node, _, last = axis.rpartition(".")
        return last in _NAMES or (node.split(".")[-1] in _NAMES and last.startswith("train"))

    # A reference to another key does not count; a colon is a call of a resolver.
    own = [key for key, value in config.items() if not re.fullmatch(r"\$\{[^:}]*\}", str(value))]
    found = [key for key in own if key.split(".")[-1] in _NAMES]
    if requested is not None and requested not in config and requested not in swept:
        raise ConfigurationError(
            f"{_CALLBACK}.key={requested}: the configuration has no such key; keys of num_workers: "
            f"{', '.join(found) or 'none'}"
        )
    found = [requested] if requested else [axis for axis in swept if is_num_workers(axis)] or found
    if not found:
        raise ConfigurationError(
            f"the configuration has no key named {' or '.join(sorted(_NAMES, reverse=True))}; name the key from which "
            f"the DataLoader takes num_workers: {_CALLBACK}.key=NAME"
        )
    if len(found) > 1:
        raise ConfigurationError(
            f"the configuration has several keys of num_workers: {', '.join(found)}; choose one: "
            f"{_CALLBACK}.key={found[0]}"
        )
    return _single_key(found[0], config, swept)


def _single_key(key: str, config: Mapping[str, Any], swept: Sequence[str]) -> str:
    """The key itself, or the training's entry of a mapping, which a number must not replace."""
    value = config.get(key)
    if not isinstance(value, Mapping | list):
        return key
    entries = [str(name) for name in value] if isinstance(value, Mapping) else []
    training = [name for name in entries if name.startswith("train")]
    if len(training) == 1 and key not in swept:
        return _single_key(f"{key}.{training[0]}", config, swept)
    kind = f"a mapping of {', '.join(entries)}" if entries else "a list"
    raise ConfigurationError(
        f"{key}: holds {kind}, which one number would replace; name the key from which the training's DataLoader takes "
        f"num_workers: {_CALLBACK}.key={key}.{(training or entries or ['NAME'])[0]}"
    )


def _dotted(config: DictConfig) -> dict[str, Any]:

    def below(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in node.items():
            yield f"{prefix}{key}", value
            if isinstance(value, Mapping):
                yield from below(value, f"{prefix}{key}.")

    plain = cast("dict[str, Any]", OmegaConf.to_container(config, resolve=False))
    plain.pop("hydra", None)
    return dict(below(plain, ""))


def _swept_values(config: DictConfig) -> dict[str, tuple[int, ...]]:
    """The keys that the multirun sweeps, with their values; () for values that are no integers."""
    try:
        axes = grid.axes_of(config, GlobalHydra.instance().config_loader())
    except Exception:  # syntax of another sweeper, such as a distribution
        overrides, params = list(config.hydra.overrides.task), dict(config.hydra.sweeper.get("params") or {})
        axes = {text.partition("=")[0]: [] for text in (*params, *overrides)}
    texts = {name.lstrip("+"): [value.partition("=")[2] for value in values] for name, values in axes.items()}
    return {
        name: tuple(sorted({int(text) for text in given})) if all(map(str.isdecimal, given)) else ()
        for name, given in texts.items()
    }


def default_candidates(cpus: int) -> tuple[int, ...]:
    """0, the powers of two up to twice the CPUs, the CPUs and twice the CPUs."""
    powers = [1 << exponent for exponent in range((2 * cpus).bit_length())]
    return tuple(sorted({0, *powers, cpus, 2 * cpus}))


def project_facts(key: str, config: Mapping[str, Any], swept: Sequence[str]) -> ProjectFacts:
    """The keys of the DataLoader's settings: beside that of num_workers, or on an axis of the command line."""
    path = key.split(".")
    place = next((index for index, part in enumerate(path) if part in _NAMES), len(path) - 1)
    prefix = "dataloader_" if path[place].startswith("dataloader_") else ""
    keys = {axis.split(".")[-1]: axis for axis in swept if axis.split(".")[-1] in SETTINGS}
    for below in ([], path[place + 1 :]):  # the entry of the training, if a setting is a mapping
        beside = {name: ".".join([*path[:place], f"{prefix}{name}", *below]) for name in SETTINGS}
        keys |= {name: at for name, at in beside.items() if not isinstance(config.get(at, {}), Mapping | list)}
    return ProjectFacts(key=".".join(path[:place]), keys={**keys, "num_workers": key}, fingerprint="")
