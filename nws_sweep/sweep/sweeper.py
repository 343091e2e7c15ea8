"""Runs the points of a grid: skips finished points and records lost jobs as failures.

A launcher of Hydra returns the results of all points of a batch at once, and raises as soon as one job dies. Points
without a result are lost then; they are not launched again, because their jobs may still run on a cluster.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf

from nws_sweep.config.schema import folder_name
from nws_sweep.errors import ConfigurationError, LostJob, one_line
from nws_sweep.results import atomic, storage
from nws_sweep.sweep import app, grid, job, resuming
from nws_sweep.sweep.grid import Composer
from nws_sweep.sweep.session import Session
from nws_sweep.system import host

logger = logging.getLogger(__name__)

Point = Sequence[str]  # its overrides


class GridState:
    """The results of a grid's points in their folders; ConfigurationError if the callback has not checked the grid."""

    def __init__(self, session: Session | None, composer: Composer) -> None:
        if session is None or session.folder is None:
            raise ConfigurationError("hydra.callbacks: a grid needs the callback nws_sweep; others may be added")
        self._session, self._composer, self._folder = session, composer, session.folder
        self._host = host.describe()

    def finished(self, point: Point) -> storage.StoredRun | None:
        """The finished result of a point; None if there is none."""
        folder = self._folder / folder_name(point)
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
        if not storage.holds_results(self._folder):
            raise error
        logger.debug("a job was lost", exc_info=error)
        folder = self._folder / folder_name(point)
        job.record_lost_job(folder, self._composer.configuration(point), error, self._session)


def sweep(config: DictConfig, loader: ConfigLoader, launcher: Launcher, batch_size: int | None) -> None:
    """Runs the jobs of a grid in batches; without a size one at a time in this process, else all at once."""
    grid_state = GridState(app.current, Composer(config, loader))
    folder = Path(config.hydra.sweep.dir)
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_text(folder / "multirun.yaml", OmegaConf.to_yaml(config))  # as Hydra's own sweeper does
    is_local = str(config.hydra.launcher.get("_target_")).endswith(".BasicLauncher")
    points = grid.points(grid.axes_of(config, loader))
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

    If the launcher raises, every point without a finished result has its error.
    """
    try:
        returns = launcher.launch([list(point) for point in points], initial_job_idx=first_index)
    except Exception as error:  # the libraries' errors have no common base
        lost = LostJob(one_line(f"the launcher failed: {type(error).__name__}: {error}"))
        return [None if is_finished(point) else lost for point in points]
    return [_error_of(each) for each in returns]


def _error_of(job_return: JobReturn) -> BaseException | None:
    if job_return.status is JobStatus.COMPLETED:
        return None
    error = job_return._return_value  # the property return_value would print and raise it
    return error if isinstance(error, BaseException) else LostJob(f"the job returned no result: {error}")
