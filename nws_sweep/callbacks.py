"""The Hydra callback that checks and announces a run or a grid before its first configuration starts."""

from __future__ import annotations

from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from nws_sweep import app, extras


class GridCallback(Callback):
    """Stops everything before anything is written if a value of the grid is wrong.

    Hydra turns an exception in a callback into a warning, but lets SystemExit through: its code is the error, which the
    command line prints (``python -m nws_sweep``) or Python itself does (a host program).
    """

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """A single configuration is about to run."""
        _prepare(config, is_grid=False)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """A grid is about to run."""
        _prepare(config, is_grid=True)


def _prepare(config: DictConfig, *, is_grid: bool) -> None:
    try:
        extras.require_launcher(str(config.hydra.launcher.get("_target_")))
        app.prepare(config, is_grid=is_grid)
    except Exception as error:
        raise SystemExit(error) from error
