"""Runs the points of a grid: one by one out of its axes, those that are finished left out, a job that is lost a row."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from hydra.core.config_loader import ConfigLoader
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf

from nws_sweep import app, disk, grid
from nws_sweep.launching import Point, launch_surviving


class Ledger(Protocol):
    """Knows what is there of each point, and keeps what is lost."""

    def is_finished(self, point: Point) -> bool:
        """Whether there is a finished result of a point."""
        ...

    def passes(self, point: Point) -> bool:
        """Whether a point needs no job; the user is told."""
        ...

    def lose(self, point: Point, error: BaseException) -> None:
        """A job came to no end of its own; raises the error if that is no matter of this job alone."""


def sweep(config: DictConfig, loader: ConfigLoader, launcher: Launcher, batch_size: int | None) -> None:
    """Runs the jobs of a grid.

    Args:
        config: What Hydra composed for the grid as a whole.
        loader: Expands its axes.
        launcher: Runs jobs.
        batch_size: Jobs that the launcher gets at once; None for one if it runs them one after the other in this
            process, else for all.
    """
    folder = Path(config.hydra.sweep.dir)
    folder.mkdir(parents=True, exist_ok=True)
    disk.write_text(folder / "multirun.yaml", OmegaConf.to_yaml(config))  # as Hydra's own sweeper does
    points = grid.points(grid.axes_of(config, loader), config.order)
    one_by_one = str(config.hydra.launcher.get("_target_")).endswith(".BasicLauncher")
    run(points, app.ledger(config), launcher, batch_size or (1 if one_by_one else None))


def run(points: Iterable[Point], ledger: Ledger, launcher: Launcher, batch_size: int | None) -> None:
    """Launches the points that are not finished.

    Args:
        points: All points in their order; taken one by one.
        ledger: Knows what is finished.
        launcher: Runs jobs.
        batch_size: Jobs that the launcher gets at once; None for all.
    """
    unfinished = (numbered for numbered in enumerate(points) if not ledger.passes(numbered[1]))
    while batch := list(itertools.islice(unfinished, batch_size)):
        chosen = [point for _, point in batch]
        ends = launch_surviving(launcher, chosen, batch[0][0], ledger.is_finished)
        for point, error in zip(chosen, ends, strict=True):
            if error is not None:
                ledger.lose(point, error)
