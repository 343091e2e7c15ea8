"""Hydra's own sweeper, with points that survive others, and a row for each that does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser

from nws_sweep import grid, host, launching, storage
from nws_sweep.records import SearchRecord


class SurvivingSweeper(BasicSweeper):
    def sweep(self, arguments: list[str]) -> Any:
        assert self.config is not None
        assert self.hydra_context is not None
        assert self.launcher is not None
        loader = self.hydra_context.config_loader
        overrides = OverridesParser.create(config_loader=loader).parse_overrides(arguments)
        (points,) = self.split_arguments(overrides, None)
        errors = launching.launch_surviving(self.launcher, points, 0, self._is_finished)
        for point, error in zip(points, errors, strict=True):
            if error is not None:
                self._lose(point, error)

    def _is_finished(self, point: Sequence[str]) -> bool:
        folder = self._folder(point)
        if _complete(folder):
            return True
        (folder / storage.RESULT).unlink(missing_ok=True)  # nothing here goes on with it
        return False

    def _folder(self, point: Sequence[str]) -> Path:
        assert self.config is not None
        return Path(self.config.hydra.sweep.dir) / storage.folder_name(point)

    def _lose(self, point: Sequence[str], error: BaseException) -> None:
        assert self.config is not None
        assert self.hydra_context is not None
        composed = self.hydra_context.config_loader.load_sweep_config(self.config, list(point))
        configuration = grid.configuration_of(grid._without_hydra(composed), composed.hydra)
        folder = self._folder(point)
        folder.mkdir(parents=True, exist_ok=True)
        storage.save(folder, SearchRecord(configuration=configuration, host=host.describe(), error=str(error)))


def _complete(folder: Path) -> bool:
    return (folder / storage.RESULT).exists() and storage.find(folder).runs[0].result.complete
