"""One call of the command line, and what its configurations share."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from nws_sweep import services, storage
from nws_sweep.arms import Supervision
from nws_sweep.grid import Plan
from nws_sweep.nursery import Nursery, spec_of
from nws_sweep.records import Configuration, DatasetFacts, SearchRecord

if TYPE_CHECKING:
    from nws_sweep.terminal import View


class Invocation:
    """One call of the command line: its terminal, its plan and the folder of its results once they are known."""

    plan: Plan | None = None
    folder: Path | None = None

    def __init__(self) -> None:
        # What its searches have found, without single batches; a launcher's worker processes have one each.
        self.results: list[SearchRecord] = []
        self.nursery = Nursery()
        self._facts: dict[str, DatasetFacts] = {}  # of each dataset that was made, by its node

    def facts(self, configuration: Configuration, working_folder: str) -> DatasetFacts:
        """What a configuration's dataset says of itself; it is made unless that is known.

        Raises:
            NwsSweepError: If it cannot be made.
        """
        key = repr((configuration.dataset, configuration.consumer, configuration.collate_fn, configuration.services))
        if key not in self._facts:
            spec, supervision = spec_of(configuration, working_folder), Supervision(on_progress=self.view.status)
            with services.running(configuration), self.nursery.start(spec, supervision) as arm:
                self._facts[key] = arm.facts
        return self._facts[key]

    @functools.cached_property
    def view(self) -> View:
        """The terminal, made when it is first needed: --help does not wait for rich."""
        from nws_sweep.terminal import View

        return View()

    def has_results(self) -> bool:
        """Whether any job has begun to write its result."""
        return self.folder is not None and storage.holds_results(self.folder)

    def close(self) -> None:
        """Ends what it has started, and gives the terminal back if it was taken: cursor and all."""
        self.nursery.close()
        if "view" in self.__dict__:
            self.view.stop()
