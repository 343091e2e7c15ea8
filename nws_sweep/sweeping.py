"""Runs the points of a grid: one by one out of its axes, those that are finished left out, a job that is lost a row."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf

from nws_sweep import app, disk, grid, host, resuming, storage
from nws_sweep.errors import ConfigurationError, LostJob
from nws_sweep.invocation import Invocation
from nws_sweep.job import pass_by, record_loss
from nws_sweep.launching import Point, launch_surviving

logger = logging.getLogger(__name__)


class Ledger:
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
        if not storage.result_file(folder).exists():
            return None
        return resuming.finished(folder, self._composer.configuration(point), self._host)

    def passes(self, point: Point) -> bool:
        """Whether a point needs no job; then the user is told, and later searches learn from it."""
        run = self.finished(point)
        if run is not None:
            pass_by(run, self._current)
        return run is not None

    def lose(self, point: Point, error: BaseException) -> None:
        """Keeps as a failure that a job came to no end of its own.

        Raises:
            BaseException: The error, if nothing has come to anything yet and it may be no matter of this job alone.
        """
        if not isinstance(error, LostJob) and not self._current.has_begun:
            raise error
        logger.debug("a job was lost", exc_info=error)
        folder = self._folder / storage.folder_name(point)
        record_loss(folder, self._composer.configuration(point), error, self._current)


def sweep(config: DictConfig, loader: ConfigLoader, launcher: Launcher, batch_size: int | None) -> None:
    """Runs the jobs of a grid, so many at once; None for one if they run in this process, else for all."""
    ledger = Ledger(app.invocation.get())
    folder = Path(config.hydra.sweep.dir)
    folder.mkdir(parents=True, exist_ok=True)
    disk.write_text(folder / "multirun.yaml", OmegaConf.to_yaml(config))  # as Hydra's own sweeper does
    one_by_one = str(config.hydra.launcher.get("_target_")).endswith(".BasicLauncher")
    points = grid.points(grid.axes_of(config, loader), config.order)
    run(points, ledger, launcher, batch_size or (1 if one_by_one else None))


def run(points: Iterable[Point], ledger: Ledger, launcher: Launcher, batch_size: int | None) -> None:
    """Launches the points that are not finished, taken one by one, so many at once; None for all."""
    unfinished = (numbered for numbered in enumerate(points) if not ledger.passes(numbered[1]))
    while batch := list(itertools.islice(unfinished, batch_size)):
        chosen = [point for _, point in batch]
        ends = launch_surviving(launcher, chosen, batch[0][0], ledger.finished)
        for point, error in zip(chosen, ends, strict=True):
            if error is not None:
                ledger.lose(point, error)
