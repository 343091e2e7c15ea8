"""The sweeper of nws_sweep's own grids, which Hydra finds only here; imports its
implementation when it runs."""

from collections.abc import Mapping
from typing import Any

from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class GridSweeper(Sweeper):
    """Accepts the same overrides as Hydra's own sweeper; see
    nws_sweep/hydra_app/app.py.

    Args:
        params: Axes, which those of the command line replace.
        max_batch_size: Jobs passed to the launcher at once; None for one in this
            process, else all.
    """

    def __init__(
        self, params: Mapping[str, str] | None = None, max_batch_size: int | None = None
    ) -> None:
        self._batch_size = max_batch_size

    def setup(
        self,
        *,
        hydra_context: HydraContext,
        task_function: TaskFunction,
        config: DictConfig,
    ) -> None:
        """Creates the launcher."""
        from hydra.core.plugins import Plugins

        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self._grid = config, hydra_context.config_loader, launcher

    def sweep(self, arguments: list[str]) -> Any:
        """Runs the grid; the configuration has the overrides too."""
        from nws_sweep.hydra_app import app

        app.sweep(*self._grid, self._batch_size)
