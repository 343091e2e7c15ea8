"""One call of the command line, and what its configurations share."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import filelock
from hydra.errors import HydraException
from hydra.utils import instantiate

from nws_sweep.errors import ConfigurationError, NwsSweepError, one_line
from nws_sweep.executor import ranks
from nws_sweep.executor.dataset_server import DatasetServer, spec_of
from nws_sweep.executor.trial_process import Supervision
from nws_sweep.results import Configuration, DatasetFacts, SearchRecord
from nws_sweep.sweep.grid import Composer, Plan
from nws_sweep.system.termination import Interrupts
from nws_sweep.tuning import learning

if TYPE_CHECKING:
    from nws_sweep.sweep.terminal import View


# In a grid of thousands each configuration learns from those that are near to it in the grid.
_REMEMBERED = 1000


class Invocation:
    """One call of the command line: its terminal, its plan and the folder of its results once they are known."""

    plan: Plan | None = None
    composer: Composer | None = None  # of a grid
    folder: Path | None = None
    folder_lock: filelock.BaseFileLock | None = None
    forced: str = ""  # what a resumption by force mixes
    has_started: bool = False  # whether any search has begun in this process

    def __init__(self) -> None:
        # What its searches have found, without single batches; a launcher's worker processes have one each.
        self.results: deque[SearchRecord] = deque(maxlen=_REMEMBERED)
        self.interrupts = Interrupts()
        self.dataset_server = DatasetServer()
        self._facts: dict[str, DatasetFacts] = {}  # of each dataset that was made, by its node

    def facts(self, configuration: Configuration, working_folder: str) -> DatasetFacts:
        """What a configuration's dataset says of itself; it is made unless known; NwsSweepError if it cannot be."""
        key = parts_of(configuration)
        if key not in self._facts:
            spec, supervision = spec_of(configuration, working_folder), Supervision(on_progress=self.view.status)
            # One rank alone, so that what is missing is downloaded once.
            is_ranked = configuration.ranks > 1
            starting = ranks.start(spec, 1, supervision) if is_ranked else self.dataset_server.start(spec, supervision)
            with services(configuration), starting as process:
                self._facts[key] = process.facts
        return self._facts[key]

    @functools.cached_property
    def view(self) -> View:
        """The terminal, made when it is first needed: --help does not wait for rich."""
        from nws_sweep.sweep.terminal import View

        return View()

    def remember(self, result: SearchRecord) -> None:
        """Lets later searches learn from it."""
        self.results.extend(learning.without_windows([result]))

    def close(self) -> None:
        """Ends its processes, and gives back the folder and the terminal, cursor and all."""
        self.dataset_server.close()
        if self.folder_lock is not None:
            self.folder_lock.release(force=True)
        if "view" in self.__dict__:
            self.view.stop()


def parts_of(configuration: Configuration) -> str:
    """All that must be made before a configuration can be measured; the same for many of a grid."""
    named = (configuration.dataset, configuration.consumer, configuration.collate_fn, configuration.services)
    return repr((*named, configuration.ranks > 1))


@contextlib.contextmanager
def services(configuration: Configuration) -> Iterator[None]:
    """Runs beside a search what it needs, such as a server of its data; ConfigurationError if that fails."""
    with contextlib.ExitStack() as stack:
        for name, node in configuration.services.items():
            try:
                stack.enter_context(instantiate(dict(node), _convert_="all"))
            except NwsSweepError:
                raise
            except (Exception, SystemExit) as error:  # whatever is wrong with it
                cause = error.__cause__ if isinstance(error, HydraException) and error.__cause__ else error
                raise ConfigurationError(one_line(f"services.{name}: {type(cause).__name__}: {cause}")) from error
        yield
