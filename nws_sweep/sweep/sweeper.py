"""Runs the points of a grid: one by one out of its axes, those that are finished left out, a job that is lost a row.

A launcher of Hydra answers for all points of a batch at once, and raises as soon as it learns that one has died: then
nothing is heard of the others, which submitit and Ray let run on. So these two are made to answer for each by itself.
Of other launchers an exception says no more than that something died; who has no result yet gets another chance, alone.
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
from nws_sweep.sweep import app, grid, resuming
from nws_sweep.sweep.invocation import Invocation
from nws_sweep.sweep.job import record_loss, skip_finished
from nws_sweep.system import host

logger = logging.getLogger(__name__)

Point = Sequence[str]  # its overrides

# The queue is asked at first every two seconds, then ever more seldom down to this; answers are looked for each second.
_ASK_EVERY_S = 60
# States of a job that will not go on; whatever else Slurm calls a job is one that may.
_ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY REVOKED TIMEOUT".split()  # noqa: SIM905
)
_RAISED = re.compile(r"[\w.]*(Error|Exception)\b")


class GridState:
    """What is known of a grid's points by their files, where these are as conf/config.yaml has it; else nothing.

    Raises:
        ConfigurationError: If the callback was taken out of the configuration: nothing was checked then.
    """

    def __init__(self, current: Invocation) -> None:
        if current.composer is None or current.folder is None:
            raise ConfigurationError(
                "hydra.callbacks: without nws_sweep's own a grid cannot be run; allowed is to add others"
            )
        self._current, self._composer, self._folder = current, current.composer, current.folder
        self._host = host.describe()

    def finished(self, point: Point) -> storage.StoredRun | None:
        """The finished result of a point, if there is one."""
        folder = self._folder / storage.folder_name(point)
        # A look at the file first: to make a configuration takes a hundred times as long.
        if not (folder / storage.RESULT).exists():
            return None
        return resuming.finished(folder, self._composer.configuration(point), self._host)

    def skips(self, point: Point) -> bool:
        """Whether a point needs no job; then the user is told, and later searches learn from it."""
        run = self.finished(point)
        if run is not None:
            skip_finished(run, self._current)
        return run is not None

    def record_lost_job(self, point: Point, error: BaseException) -> None:
        """Keeps as a failure that a job came to no end of its own.

        Raises:
            BaseException: The error, if nothing has come to anything yet and it may be no matter of this job alone.
        """
        if not isinstance(error, LostJob) and not self._current.has_started:
            raise error
        logger.debug("a job was lost", exc_info=error)
        folder = self._folder / storage.folder_name(point)
        record_loss(folder, self._composer.configuration(point), error, self._current)


def sweep(config: DictConfig, loader: ConfigLoader, launcher: Launcher, batch_size: int | None) -> None:
    """Runs the jobs of a grid, so many at once; None for one if they run in this process, else for all."""
    grid_state = GridState(app.invocation.get())
    folder = Path(config.hydra.sweep.dir)
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_text(folder / "multirun.yaml", OmegaConf.to_yaml(config))  # as Hydra's own sweeper does
    one_by_one = str(config.hydra.launcher.get("_target_")).endswith(".BasicLauncher")
    points = grid.points(grid.axes_of(config, loader), config.order)
    run(points, grid_state, launcher, batch_size or (1 if one_by_one else None))


def run(points: Iterable[Point], grid_state: GridState, launcher: Launcher, batch_size: int | None) -> None:
    """Launches the points that are not finished, taken one by one, so many at once; None for all."""
    unfinished = (numbered for numbered in enumerate(points) if not grid_state.skips(numbered[1]))
    while batch := list(itertools.islice(unfinished, batch_size)):
        chosen = [point for _, point in batch]
        ends = launch_surviving(launcher, chosen, batch[0][0], grid_state.finished)
        for point, error in zip(chosen, ends, strict=True):
            if error is not None:
                grid_state.record_lost_job(point, error)


def launch_surviving(
    launcher: Launcher, points: Sequence[Point], first_index: int, is_finished: Callable[[Point], object]
) -> list[BaseException | None]:
    """Runs a batch of points, whatever becomes of some; for each what ended its job, None if that ended by itself.

    Raises:
        ConfigurationError: If the launcher can launch nothing at all.
    """
    answering = _ANSWERING.get(".".join(type(launcher).__module__.split(".")[:2]))
    try:
        with answering() if answering else contextlib.nullcontext():
            answers = launcher.launch([list(point) for point in points], initial_job_idx=first_index)
        return [_error_of(answer) for answer in answers]
    except Exception as error:  # the libraries' errors have no common base
        if answering:
            raise ConfigurationError(one_line(f"hydra/launcher: nothing could be launched: {error}")) from error
        if len(points) == 1:
            return [error]
        logger.warning(
            "a launcher gave up: what has no result is launched once more, each by itself: %s", one_line(error)
        )
    return [
        None if is_finished(point) else launch_surviving(launcher, [point], first_index + index, is_finished)[0]
        for index, point in enumerate(points)
    ]


def _error_of(answer: JobReturn) -> BaseException | None:
    if answer.status is JobStatus.COMPLETED:
        return None
    error = answer._return_value  # return_value would print and raise it
    return error if isinstance(error, BaseException) else LostJob(f"the job came to no end: {error}")


def _lost(reason: str) -> JobReturn:
    return JobReturn(status=JobStatus.FAILED, _return_value=LostJob(one_line(reason)))


@contextlib.contextmanager
def _ray_answers() -> Iterator[None]:
    """Within the block a task of Ray that dies becomes a failed answer, where the launcher would raise."""
    core: Any = importlib.import_module("hydra_plugins.hydra_ray_launcher._core")
    ray = core.ray

    def get(task: Any) -> Any:
        try:
            return ray.get(task)
        except ray.exceptions.RayError as error:
            return _lost(f"the task was lost: {type(error).__name__}: {error}")

    core.ray = SimpleNamespace(get=get)  # all that the launcher uses of it
    try:
        yield
    finally:
        core.ray = ray


@contextlib.contextmanager
def _submitit_answers() -> Iterator[None]:
    """Within the block a job of submitit that dies becomes a failed answer; an interruption ends those that go on.

    submitit asks Slurm's accounting (sacct), which may be missing: then it waits for a killed job for ever. Here the
    queue is asked, which every Slurm has.
    """
    from submitit.core.core import Executor
    from submitit.slurm.slurm import SlurmInfoWatcher, SlurmJob

    class Queue(SlurmInfoWatcher):  # type: ignore[misc] # its base is known only where submitit is installed
        def _make_command(self) -> list[str]:
            user = f"--user={getpass.getuser()}"
            return ["squeue", "--noheader", "--array", "--states=all", user, "--format=%i %T %N"]

        def read_info(self, string: bytes) -> dict[str, dict[str, str]]:
            unfinished = self._registered - self._finished
            return {job: {"State": state} for job, state in states(string.decode(), unfinished).items()}

    jobs: list[Any] = []
    map_array, watcher = Executor.map_array, SlurmJob.watcher

    def submitted(*arguments: Any) -> list[Any]:
        jobs.extend(map_array(*arguments))
        return [SimpleNamespace(results=lambda job=job: [_answer_of(job)]) for job in jobs]

    Executor.map_array, SlurmJob.watcher = submitted, Queue(delay_s=_ASK_EVERY_S)
    try:
        yield
    except BaseException:
        resumed = [job for job in jobs if not job.paths.result_pickle.exists()]
        # The jobs of an array share a number; a local one is ended as by Ctrl-C.
        for number, job in {job.job_id.partition("_")[0]: job for job in resumed}.items():
            if isinstance(job, SlurmJob):
                subprocess.run(["scancel", number], check=False)
            else:
                job.cancel(check=False)
        raise
    finally:
        Executor.map_array, SlurmJob.watcher = map_array, watcher


def _answer_of(job: Any) -> Any:
    try:
        return job.results()[0]
    except Exception:  # whatever reading an answer may raise
        log = job.paths.stderr.read_text("utf-8", "replace") if job.paths.stderr.is_file() else ""
        return _lost(death(job.job_id, job.state, log))


def death(job_id: str, state: str, log: str) -> str:
    """One line: how a job ended as the queue has it, and what its log, standard error, has to say about that."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)][-1:]
    refused = [line for line in lines if "error:" in line][:1]  # Slurm's own; the first one is the cause
    return one_line(": ".join([f"job {job_id} was lost ({state})", *(raised or refused or lines[-1:])]))


def states(queue: str, jobs: Iterable[str]) -> dict[str, str]:
    """What has become of jobs: RUNNING, which submitit knows, or what says to it that they have ended.

    Args:
        queue: What squeue prints: number, state and node of each job, also of those that have ended lately.
        jobs: Their numbers; squeue has been told of all of them.
    """
    told = {}
    for number, state, *node in map(str.split, queue.strip().splitlines()):
        told[number] = " on ".join([state, *node]) if state in _ENDED else "RUNNING"
    return {job: told.get(job, "not in the queue") for job in jobs}


# By the package of the launcher: within the context its launch answers for each point, and raises only if it could not
# launch any.
_ANSWERING: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "hydra_plugins.hydra_submitit_launcher": _submitit_answers,
    "hydra_plugins.hydra_ray_launcher": _ray_answers,
}
