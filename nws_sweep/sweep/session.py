"""One call of the command line: the values that were checked before the first job, and resources of all jobs."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.errors import HydraException

from nws_sweep.config.hydra_versions import instantiate
from nws_sweep.errors import ConfigurationError, NwsSweepError, one_line
from nws_sweep.executor.dataset_server import DatasetServer, spec_of
from nws_sweep.executor.trial_process import Supervision
from nws_sweep.results import Configuration, DatasetFacts, SearchRecord
from nws_sweep.sweep.grid import Plan
from nws_sweep.system.processes import Interrupts

if TYPE_CHECKING:
    from nws_sweep.sweep.terminal import View

# Earlier results that are kept: in a grid of thousands of points the neighbours of a point are among the latest.
_RESULTS_KEPT = 1000


@dataclass(kw_only=True, eq=False)
class Session:
    """One call of the command line. A process that a launcher started has a session of its own, without a plan.

    The first three are set when all values, datasets and the folder have been checked.
    """

    configuration: Configuration | None = None  # of a single run
    plan: Plan | None = None
    folder: Path | None = None
    # Searches of this process, without windows, from which later searches learn.
    results: deque[SearchRecord] = field(default_factory=lambda: deque(maxlen=_RESULTS_KEPT))
    search_started: bool = False
    interrupts: Interrupts = field(default_factory=Interrupts)
    dataset_server: DatasetServer = field(default_factory=DatasetServer)
    resources: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _facts: dict[str, DatasetFacts] = field(default_factory=dict)  # by what makes the dataset

    @functools.cached_property
    def view(self) -> View:
        """The terminal, made when it is first needed: ``--help`` must not import rich."""
        from nws_sweep.sweep.terminal import View

        view = View()
        self.resources.callback(view.stop)
        return view

    def facts(self, configuration: Configuration, working_folder: str) -> DatasetFacts:
        """The facts of a dataset, which is made at the first call; NwsSweepError if it cannot be made."""
        key = parts_of(configuration)
        if key not in self._facts:
            spec, supervision = spec_of(configuration, working_folder), Supervision(on_progress=self.view.status)
            with services(configuration), self.dataset_server.start(spec, supervision) as process:
                self._facts[key] = process.facts
        return self._facts[key]

    def remember(self, result: SearchRecord) -> None:
        """Makes a result available to later searches, without windows to save memory."""
        self.results.append(replace(result, trials=tuple(replace(trial, windows=()) for trial in result.trials)))

    def close(self) -> None:
        """Ends the processes, releases the folder and restores the terminal."""
        self.dataset_server.close()
        self.resources.close()


def parts_of(configuration: Configuration) -> str:
    """Identifies all that must be made before a configuration is measured; many points of a grid share it."""
    parts = (configuration.dataset, configuration.training_step, configuration.collate_fn, configuration.services)
    return repr((*parts, configuration.ranks))


@contextlib.contextmanager
def services(configuration: Configuration) -> Iterator[None]:
    """Runs the services of a configuration, such as a server of its data; ConfigurationError if one fails to start."""
    with contextlib.ExitStack() as stack:
        for name, node in configuration.services.items():
            try:
                stack.enter_context(instantiate(dict(node), _convert_="all"))
            except NwsSweepError:
                raise
            except (Exception, SystemExit) as error:  # code of the user
                cause = error.__cause__ if isinstance(error, HydraException) and error.__cause__ else error
                raise ConfigurationError(one_line(f"services.{name}: {type(cause).__name__}: {cause}")) from error
        yield
