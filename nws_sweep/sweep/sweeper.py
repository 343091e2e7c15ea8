"""Runs the points of a grid: skips finished points and records lost jobs as failures.

A launcher of Hydra returns the results of all points of a batch at once, and raises as soon as one job dies; submitit
and Ray then continue the others unobserved. Patches of these two return a result for each job. After an exception of
another launcher, each point without a result is launched once more, alone.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib
import itertools
import logging
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf

from nws_sweep.errors import ConfigurationError, LostJob, one_line
from nws_sweep.results import atomic, storage
from nws_sweep.sweep import app, grid, job, resuming
from nws_sweep.sweep.grid import Composer
from nws_sweep.sweep.session import Session
from nws_sweep.system import host

logger = logging.getLogger(__name__)

Point = Sequence[str]  # its overrides

# Slurm's queue is polled every two seconds at first, then less and less often down to this interval.
_POLL_EVERY_S = 60
# Slurm's states of finished jobs; a job in any other state may still run.
_ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY REVOKED TIMEOUT".split()  # noqa: SIM905
)
_RAISED = re.compile(r"[\w.]*(Error|Exception)\b")


class GridState:
    """The results of a grid's points in their folders; ConfigurationError if the callback has not checked the grid."""

    def __init__(self, session: Session | None, composer: Composer) -> None:
        if session is None or session.folder is None:
            raise ConfigurationError("hydra.callbacks: a grid needs the callback nws_sweep; others may be added")
        self._session, self._composer, self._folder = session, composer, session.folder
        self._host = host.describe()

    def finished(self, point: Point) -> storage.StoredRun | None:
        """The finished result of a point; None if there is none."""
        folder = self._folder / storage.folder_name(point)
        if not (folder / storage.RESULT).exists():  # a hundred times faster than composing the configuration
            return None
        return resuming.finished(folder, self._composer.configuration(point), self._host)

    def skip_if_finished(self, point: Point) -> bool:
        """Shows and remembers the result of a finished point; False if the point needs a job."""
        run = self.finished(point)
        if run is not None:
            job.skip_finished(run, self._session)
        return run is not None

    def record_lost_job(self, point: Point, error: BaseException) -> None:
        """Records a job without a result as a failure; raises the error if no search has started: it may recur."""
        if not isinstance(error, LostJob) and not self._session.search_started:
            raise error
        logger.debug("a job was lost", exc_info=error)
        folder = self._folder / storage.folder_name(point)
        job.record_lost_job(folder, self._composer.configuration(point), error, self._session)


def sweep(config: DictConfig, loader: ConfigLoader, launcher: Launcher, batch_size: int | None) -> None:
    """Runs the jobs of a grid in batches; without a size one at a time in this process, else all at once."""
    grid_state = GridState(app.current, Composer(config, loader))
    folder = Path(config.hydra.sweep.dir)
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_text(folder / "multirun.yaml", OmegaConf.to_yaml(config))  # as Hydra's own sweeper does
    is_local = str(config.hydra.launcher.get("_target_")).endswith(".BasicLauncher")
    points = grid.points(grid.axes_of(config, loader), config.order)
    run(points, grid_state, launcher, batch_size or (1 if is_local else None))


def run(points: Iterable[Point], grid_state: GridState, launcher: Launcher, batch_size: int | None) -> None:
    """Launches the unfinished points in batches, which are read one at a time; None for one batch."""
    unfinished = (numbered for numbered in enumerate(points) if not grid_state.skip_if_finished(numbered[1]))
    while batch := list(itertools.islice(unfinished, batch_size)):
        chosen = [point for _, point in batch]
        errors = launch(launcher, chosen, batch[0][0], grid_state.finished)
        for point, error in zip(chosen, errors, strict=True):
            if error is not None:
                grid_state.record_lost_job(point, error)


def launch(
    launcher: Launcher, points: Sequence[Point], first_index: int, is_finished: Callable[[Point], object]
) -> list[BaseException | None]:
    """Runs a batch of points; returns for each the error that ended its job, None if the job returned.

    ConfigurationError if the launcher can launch no job.
    """
    patch = _PATCHES.get(".".join(type(launcher).__module__.split(".")[:2]))
    try:
        with patch() if patch else contextlib.nullcontext():
            returns = launcher.launch([list(point) for point in points], initial_job_idx=first_index)
        return [_error_of(each) for each in returns]
    except Exception as error:  # the libraries' errors have no common base
        if patch:
            raise ConfigurationError(one_line(f"hydra/launcher: no job could be launched: {error}")) from error
        if len(points) == 1:
            return [error]
        logger.warning("the launcher failed; each job without a result is launched again: %s", one_line(error))
    return [
        None if is_finished(point) else launch(launcher, [point], first_index + index, is_finished)[0]
        for index, point in enumerate(points)
    ]


def _error_of(job_return: JobReturn) -> BaseException | None:
    if job_return.status is JobStatus.COMPLETED:
        return None
    error = job_return._return_value  # the property return_value would print and raise it
    return error if isinstance(error, BaseException) else LostJob(f"the job returned no result: {error}")


def _lost(reason: str) -> JobReturn:
    return JobReturn(status=JobStatus.FAILED, _return_value=LostJob(one_line(reason)))


@contextlib.contextmanager
def _patched_ray() -> Iterator[None]:
    """Makes Ray's launcher return a failed job for a task that dies, where it would raise."""
    core: Any = importlib.import_module("hydra_plugins.hydra_ray_launcher._core")
    ray = core.ray

    def get(task: Any) -> Any:
        try:
            return ray.get(task)
        except ray.exceptions.RayError as error:
            return _lost(f"the task was lost: {type(error).__name__}: {error}")

    core.ray = SimpleNamespace(get=get)  # the launcher uses nothing else of it
    try:
        yield
    finally:
        core.ray = ray


@contextlib.contextmanager
def _patched_submitit() -> Iterator[None]:
    """Makes submitit's launchers return a failed job for a job that dies, and cancel unfinished jobs when interrupted.

    submitit asks Slurm's accounting (sacct) for the states of jobs. Where accounting is missing, submitit would wait
    for a killed job without end; the patch asks the queue (squeue) instead.
    """
    from submitit.core.core import Executor
    from submitit.slurm.slurm import SlurmInfoWatcher, SlurmJob

    class Queue(SlurmInfoWatcher):  # type: ignore[misc] # its base is known only where submitit is installed
        def _make_command(self) -> list[str]:
            user = f"--user={getpass.getuser()}"
            return ["squeue", "--noheader", "--array", "--states=all", user, "--format=%i %T %N"]

        def read_info(self, string: bytes) -> dict[str, dict[str, str]]:
            unfinished = self._registered - self._finished
            return {job: {"State": state} for job, state in job_states(string.decode(), unfinished).items()}

    jobs: list[Any] = []
    map_array, watcher = Executor.map_array, SlurmJob.watcher

    def submitted(*arguments: Any) -> list[Any]:
        jobs.extend(map_array(*arguments))
        return [SimpleNamespace(results=lambda job=job: [_result_of(job)]) for job in jobs]

    Executor.map_array, SlurmJob.watcher = submitted, Queue(delay_s=_POLL_EVERY_S)
    try:
        yield
    except BaseException:
        unfinished = [job for job in jobs if not job.paths.result_pickle.exists()]
        # The jobs of an array share a number; a local job is ended as by Ctrl-C.
        for number, job in {job.job_id.partition("_")[0]: job for job in unfinished}.items():
            if isinstance(job, SlurmJob):
                subprocess.run(["scancel", number], check=False)
            else:
                job.cancel(check=False)
        raise
    finally:
        Executor.map_array, SlurmJob.watcher = map_array, watcher


def _result_of(job: Any) -> Any:
    try:
        return job.results()[0]
    except Exception:  # reading a pickle may raise anything
        log = job.paths.stderr.read_text("utf-8", "replace") if job.paths.stderr.is_file() else ""
        return _lost(loss_reason(job.job_id, job.state, log))


def loss_reason(job_id: str, state: str, log: str) -> str:
    """One line with the state of a lost job in the queue and the most informative line of its standard error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)][-1:]
    from_slurm = [line for line in lines if "error:" in line][:1]  # the first one is the cause
    return one_line(": ".join([f"job {job_id} was lost ({state})", *(raised or from_slurm or lines[-1:])]))


def job_states(queue: str, jobs: Iterable[str]) -> dict[str, str]:
    """The state of each job: RUNNING, or another text, from which submitit concludes that the job has ended.

    ``queue`` is the output of squeue: number, state and node of each job, including those that ended recently.
    """
    found = {}
    for number, state, *node in map(str.split, queue.strip().splitlines()):
        found[number] = " on ".join([state, *node]) if state in _ENDED else "RUNNING"
    return {job: found.get(job, "not in the queue") for job in jobs}


# By the package of the launcher. Within the context, launch returns a result for each point, and raises only if no job
# could be launched.
_PATCHES: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "hydra_plugins.hydra_submitit_launcher": _patched_submitit,
    "hydra_plugins.hydra_ray_launcher": _patched_ray,
}
