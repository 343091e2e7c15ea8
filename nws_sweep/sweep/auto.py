"""``+nws_sweep=auto``: runs another Hydra program once for each value of its own num_workers, and reports at the end.

The program stays what it is. A callback adds one axis to its multirun and watches its DataLoaders while a job runs;
what a job told is on disk when the job ends, in whatever process that was. Hydra makes a warning of an exception in a
callback, and lets SystemExit through: that is how a wrong command line is told.
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
from typing import TYPE_CHECKING, Any, cast

import filelock
from hydra.core.global_hydra import GlobalHydra
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, flag_override

from nws_sweep.analysis import program_runs
from nws_sweep.config.embedding import GROUP
from nws_sweep.config.project_keys import SETTINGS
from nws_sweep.config.schema import column_value
from nws_sweep.dataloading.watching import LoaderWatch
from nws_sweep.errors import ConfigurationError, NwsSweepError, one_line
from nws_sweep.measurement import timeline
from nws_sweep.measurement.counters import noise_of
from nws_sweep.report.progress import printer_for
from nws_sweep.results import ProgramRun, ProjectFacts, TimeSlice, storage
from nws_sweep.sweep import grid, resuming
from nws_sweep.system import cores, host, host_lock, usage

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn

logger = logging.getLogger(__name__)

_LOCK_FILE = "NWS_SWEEP_LOCK_FILE"
_NAMES = {"num_workers", "dataloader_num_workers"}
_CALLBACK = "hydra.callbacks.nws_sweep"


class ProgramSweep(Callback):
    """Watches the runs of a program that knows nothing of it.

    Args:
        key: The key that the program's DataLoader takes its num_workers from; None for the only one of that name.
        candidates: Its values; None for 0, 1, 2, 4, ... up to twice the usable CPUs.
        keep_going: Whether the other runs follow after two candidates have failed for the same reason.
    """

    def __init__(
        self, key: str | None = None, candidates: Sequence[int] | None = None, keep_going: bool = False
    ) -> None:
        self._key = key
        self._candidates = candidates
        self._keep_going = keep_going
        # Where results belong; None in processes that leave them to another. All three are known before the first job,
        # and a launcher's processes get them with the callback.
        self._folder: Path | None = None
        self._job: _Job | None = None
        self._folder_lock: filelock.BaseFileLock | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the claim: what is sent to another process holds nothing."""
        return {**self.__dict__, "_folder_lock": None}

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """One run has nothing to compare."""
        how = "python train.py -m +nws_sweep=auto"
        raise SystemExit(f"nws_sweep: +nws_sweep=auto runs the program several times, which needs -m: {how}")

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Adds the axis, unless it is there already."""
        try:
            self._prepare(config)
        except Exception as error:
            line = str(error) if isinstance(error, NwsSweepError) else one_line(f"{type(error).__name__}: {error}")
            raise SystemExit(f"nws_sweep: {line}") from error

    def _prepare(self, config: DictConfig) -> None:
        given = _given(config)
        self._key = key = key_of(_dotted(config), list(given), self._key)
        if key in given:
            self._candidates = given[key]
        else:
            self._candidates = default_candidates() if self._candidates is None else checked(self._candidates)
            overrides = config.hydra.overrides.task  # Hydra hands these to its sweeper after this
            with flag_override(overrides, ["struct", "readonly"], [False, False]):
                overrides.append(f"{key}={','.join(map(str, self._candidates))}")
        # Of all those that a launcher such as torchrun or srun has started one speaks.
        if all(os.environ.get(name, "0") == "0" for name in ("RANK", "SLURM_PROCID")):
            folder = Path(config.hydra.sweep.dir).absolute() / storage.PROGRAM_GRID
            self._folder_lock = resuming.folder_lock(folder)
            if storage.holds_results(folder):  # Hydra runs all jobs of a program's sweep again
                raise ConfigurationError(
                    f"{folder}: holds the results of an earlier sweep; choose another hydra.sweep.dir"
                )
            self._folder = folder
            atexit.register(_report_after_all, folder, os.getpid())

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Waits until no other measurement runs on this machine, and begins to watch."""
        if self._folder is None:
            return
        try:
            self._job = _Job(self._folder)
        except NwsSweepError as error:
            raise SystemExit(f"nws_sweep: {error}") from error
        if not self._keep_going and (failure := program_runs.repeated_failure(self._folder)):
            self._job.lock.close()
            raise SystemExit(
                f"nws_sweep: {failure}; the other runs are left out; {_CALLBACK}.keep_going=true includes them"
            )

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Writes what was seen, and the result of the configuration as far as it is known."""
        job, self._job = self._job, None
        if self._folder is None or job is None:
            return
        with job.lock:
            told = {override: override.partition("=")[0].lstrip("+") for override in job_return.overrides or ()}
            others = {override: name for override, name in told.items() if name not in (self._key, GROUP)}
            run = self._run_of(job, config, others)
            if job_return.status.name == "FAILED":
                error = job_return._return_value  # what .return_value would raise
                logger.error("the program failed", exc_info=error)  # Hydra 1.3 shows the first failure alone
                run = replace(run, reason=one_line(f"{type(error).__name__}: {error}"))
            folder = self._folder / storage.folder_name(list(others))
            storage.save_program_run(folder, int(config.hydra.job.num), run)
            program_runs.gather(folder)

    def _run_of(self, job: _Job, config: DictConfig, others: Mapping[str, str]) -> ProgramRun:
        """What a job told; ``others`` are its overrides beside its num_workers, with their keys."""
        key = str(self._key)
        number = int(OmegaConf.select(config, key))
        timelines, meanwhile = timeline.merged(job.watch.stop()), job.so_far()
        run = ProgramRun(
            num_workers=number,
            candidates=tuple(self._candidates or ()),
            columns={name: column_value(config, name, override) for override, name in others.items()},
            program=str(config.hydra.job.name),
            host=host.describe(),
            reason="the program took no batch of any DataLoader",
            started_at=job.started_at,
            elapsed_s=meanwhile.elapsed_s,
            noise=noise_of([meanwhile], cores.usable_cpus()),
        )
        chosen = timeline.training(timelines, number)
        if chosen is None:
            return run
        settings, length, samples = chosen.settings, chosen.batches_per_epoch, None
        if length is not None:  # what one process sees of it in an epoch: a sampler may leave some out
            seen = length * (settings.batch_size or 1)
            samples = seen if chosen.facts.samples is None else min(seen, chosen.facts.samples)
        project = project_of(key, _dotted(config), list(others.values()))
        lost = f"asked for {key}={number}, ran with num_workers={settings.num_workers}: the value does not reach the "
        return replace(
            run,
            settings=settings,
            facts=replace(chosen.facts, samples=samples, project=project),
            batches_per_epoch=length,
            windows=timeline.windows(chosen, [other for other in timelines if other is not chosen]),
            reason="" if number == settings.num_workers else f"{lost}DataLoader",
        )

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Reports."""
        if self._folder is None:
            return
        from nws_sweep.report import writer
        from nws_sweep.sweep.terminal import View

        atexit.unregister(_report_after_all)
        folders = storage.program_run_folders(self._folder)
        for folder in folders:
            program_runs.gather(folder, finished=True)
        if storage.holds_results(self._folder):
            for folder in folders:
                writer.try_pictures(folder)
            View().conclude(*writer.write(self._folder))


class _Job:
    """A job that is running, alone on its machine among measurements; ``folder`` tells those who wait for whom."""

    def __init__(self, folder: Path) -> None:
        self.lock = contextlib.ExitStack()
        given = os.environ.get(_LOCK_FILE)
        path = host_lock.DEFAULT if given is None else given
        self.lock.enter_context(host_lock.held(path, str(folder), printer_for(True)))
        if given is None:
            self.lock.callback(os.environ.pop, _LOCK_FILE, None)
        else:
            self.lock.callback(os.environ.__setitem__, _LOCK_FILE, given)
        os.environ[_LOCK_FILE] = ""  # a search that the program itself makes meanwhile does not wait for this lock
        self.watch = LoaderWatch()
        self.watch.start()
        self.lock.callback(self.watch.stop)
        self.started_at = datetime.now().astimezone().isoformat()
        self._began = time.monotonic()
        self._before, self._machine = usage.of_tree(os.getpid()), usage.of_machine()

    def so_far(self) -> TimeSlice:
        """The whole job up to now, without its batches."""
        return TimeSlice(
            windows=(),
            before=self._before,
            after=usage.of_tree(os.getpid()),
            elapsed_s=time.monotonic() - self._began,
            machine=usage.of_machine().since(self._machine),
        )


def _report_after_all(folder: Path, process: int) -> None:
    """What Hydra 1.3 leaves out where a job failed: it raises that job's error in place of on_multirun_end."""
    if os.getpid() == process and storage.holds_results(folder):
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "nws_sweep", "report", str(folder)], check=False)


def key_of(config: Mapping[str, Any], swept: Sequence[str], wanted: str | None) -> str:
    """The dotted key that the DataLoader takes its num_workers from.

    Args:
        config: All keys of the program's configuration, dotted, with their values as they are written.
        swept: Keys that the command line gives values.
        wanted: The key, if it was named; else ConfigurationError if there is none, or there are several.
    """

    def is_meant(axis: str) -> bool:  # a number of workers, or the training's entry of a mapping of such
        node, _, last = axis.rpartition(".")
        return last in _NAMES or (node.split(".")[-1] in _NAMES and last.startswith("train"))

    # What refers to another key, which is listed itself, is none; a colon calls a resolver.
    own = [key for key, value in config.items() if not re.fullmatch(r"\$\{[^:}]*\}", str(value))]
    found = [key for key in own if key.split(".")[-1] in _NAMES]
    if wanted is not None:
        if wanted not in config and wanted not in swept:
            raise ConfigurationError(
                f"{_CALLBACK}.key={wanted}: the configuration has no such key; of that name it has "
                f"{', '.join(found) or 'none'}"
            )
        return _number_at(wanted, config, swept)
    found = [axis for axis in swept if is_meant(axis)] or found
    if not found:
        raise ConfigurationError(
            f"the configuration has no key called {' or '.join(sorted(_NAMES, reverse=True))}; name the one that the "
            f"DataLoader takes its num_workers from: {_CALLBACK}.key=NAME"
        )
    if len(found) > 1:
        raise ConfigurationError(
            f"the configuration has several keys that may be meant: {', '.join(found)}; choose one: "
            f"{_CALLBACK}.key={found[0]}"
        )
    return _number_at(found[0], config, swept)


def _number_at(key: str, config: Mapping[str, Any], swept: Sequence[str]) -> str:
    """The key itself, or the training's entry of the mapping that it holds, which no number may replace."""
    value = config.get(key)
    if not isinstance(value, Mapping | list):
        return key
    entries = [str(name) for name in value] if isinstance(value, Mapping) else []
    training = [name for name in entries if name.startswith("train")]
    if len(training) == 1 and key not in swept:
        return _number_at(f"{key}.{training[0]}", config, swept)
    kind = f"a mapping of {', '.join(entries)}" if entries else "a list"
    raise ConfigurationError(
        f"{key}: holds {kind}, which one number would replace; name the key that the training's DataLoader takes its "
        f"num_workers from: {_CALLBACK}.key={key}.{(training or entries or ['NAME'])[0]}"
    )


def _dotted(config: DictConfig) -> dict[str, Any]:
    """All keys of the program's configuration, without Hydra's; interpolations as they are written."""

    def below(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in node.items():
            yield f"{prefix}{key}", value
            if isinstance(value, Mapping):
                yield from below(value, f"{prefix}{key}.")

    plain = cast("dict[str, Any]", OmegaConf.to_container(config, resolve=False))
    plain.pop("hydra", None)
    return dict(below(plain, ""))


def _given(config: DictConfig) -> dict[str, tuple[int, ...]]:
    """The keys that the multirun gives values anyway, with those values; () where they are no numbers."""
    try:
        axes = grid.axes_of(config, GlobalHydra.instance().config_loader())
    except Exception:  # what only the sweeper understands, such as a distribution
        overrides, params = list(config.hydra.overrides.task), dict(config.hydra.sweeper.get("params") or {})
        axes = {text.partition("=")[0]: [] for text in (*params, *overrides)}
    texts = {name.lstrip("+"): [value.partition("=")[2] for value in values] for name, values in axes.items()}
    return {
        name: tuple(sorted({int(text) for text in given})) if all(map(str.isdecimal, given)) else ()
        for name, given in texts.items()
    }


def checked(candidates: Sequence[int]) -> tuple[int, ...]:
    """The candidates, ascending; ConfigurationError if they make no sense."""
    values = list(candidates)
    if not values or len(set(values)) < len(values) or not all(type(v) is int and v >= 0 for v in values):
        raise ConfigurationError(
            f"{_CALLBACK}.candidates={values}: allowed is a list of different integers of at least 0, such as [0,2,4]"
        )
    return tuple(sorted(values))


def default_candidates(cpus: int | None = None) -> tuple[int, ...]:
    """0, the powers of two up to twice the CPUs, the CPUs (the usual rule), and twice as many; None asks the system."""
    cpus = cores.usable_cpus() if cpus is None else cpus
    powers = [1 << exponent for exponent in range((2 * cpus).bit_length())]
    return tuple(sorted({0, *powers, cpus, 2 * cpus}))


def project_of(key: str, config: Mapping[str, Any], swept: Sequence[str]) -> ProjectFacts:
    """Where the configuration has the DataLoader's settings: beside the key of num_workers, or on an axis."""
    path = key.split(".")
    place = next((index for index, part in enumerate(path) if part in _NAMES), len(path) - 1)
    prefix = "dataloader_" if path[place].startswith("dataloader_") else ""
    keys = {axis.split(".")[-1]: axis for axis in swept if axis.split(".")[-1] in SETTINGS}
    for below in ([], path[place + 1 :]):  # the entry of the training, where a setting is a mapping too
        beside = {name: ".".join([*path[:place], f"{prefix}{name}", *below]) for name in SETTINGS}
        keys |= {name: at for name, at in beside.items() if not isinstance(config.get(at, {}), Mapping | list)}
    return ProjectFacts(key=".".join(path[:place]), keys={**keys, "num_workers": key}, fingerprint="")
