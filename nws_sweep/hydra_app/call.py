"""A call of the command line: what its jobs share, such as trial processes, facts of
datasets and results."""

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.errors import HydraException

from nws_sweep.config.hydra_versions import instantiate
from nws_sweep.errors import ConfigurationError, DatasetError, TrialError, one_line
from nws_sweep.hydra_app import resuming
from nws_sweep.hydra_app.grid import Plan
from nws_sweep.records import Configuration, DatasetFacts, SearchRecord, storage
from nws_sweep.system.processes import Interrupts
from nws_sweep.trials.dataset_server import DatasetServer, spec_of
from nws_sweep.trials.trial_process import Supervision

if TYPE_CHECKING:
    from nws_sweep.hydra_app.terminal import View


@dataclass(kw_only=True, eq=False)
class Call:
    """A call of the command line. A process that a launcher started has a separate
    call, without a plan.

    Plan and folder are set when all values, datasets and the folder have been checked.
    """

    plan: Plan | None = None
    folder: Path | None = None
    # Searches of this process by their folders, without windows, from which later
    # searches learn.
    results: dict[Path, SearchRecord] = field(default_factory=dict)
    interrupts: Interrupts = field(default_factory=Interrupts)
    dataset_server: DatasetServer = field(default_factory=DatasetServer)
    resources: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    # by what makes the dataset
    _facts: dict[str, DatasetFacts] = field(default_factory=dict)

    @functools.cached_property
    def view(self) -> "View":
        """The terminal, made when it is first needed: ``--help`` must not import
        rich."""
        from nws_sweep.hydra_app.terminal import View

        view = View()
        self.resources.callback(view.stop)
        return view

    def facts(self, configuration: Configuration, working_folder: str) -> DatasetFacts:
        """Finds the facts of a dataset, which is made at the first call; NwsSweepError
        if it cannot be made."""
        # All that must be made before a configuration is measured; many points of a
        # grid share it.
        parts = (
            configuration.dataset,
            configuration.training_step,
            configuration.collate_fn,
            configuration.services,
        )
        key = repr((*parts, configuration.ranks))
        if key not in self._facts:
            self._facts[key] = self._made_facts(configuration, working_folder)
        return self._facts[key]

    def _made_facts(
        self, configuration: Configuration, working_folder: str
    ) -> DatasetFacts:
        name = configuration.columns["dataset"]
        self.view.status(f"preparing dataset {name}")
        spec = spec_of(configuration, working_folder)
        supervision = Supervision(on_progress=self.view.status)
        try:
            with (
                services(configuration),
                self.dataset_server.start(spec, supervision) as process,
            ):
                facts: DatasetFacts = process.facts
                return facts
        except TrialError as error:
            raise DatasetError(f"dataset {name} cannot be made: {error}") from error

    def lock(self, folder: Path) -> None:
        """Locks the folder of the results until the call ends."""
        self.resources.callback(resuming.folder_lock(folder).release, force=True)

    def remember(self, result: SearchRecord, folder: Path) -> None:
        """Makes a result available to later searches, without windows to save
        memory."""
        trials = tuple(replace(trial, windows=()) for trial in result.trials)
        self.results[folder] = replace(result, trials=trials)

    def restore(self) -> None:
        """Writes the results again whose folders something has removed meanwhile."""
        for folder, result in self.results.items():
            if (folder / storage.RESULT).exists():
                continue
            try:
                storage.save(folder, result)
                self.view.note(
                    f"{folder} was removed: its result is written again, without the times of batches"
                )
            except OSError as error:
                self.view.note(
                    f"{folder} was removed, and its result cannot be written again: {error}"
                )

    def close(self) -> None:
        """Ends the processes, releases the folder and restores the terminal."""
        self.dataset_server.close()
        self.resources.close()


@contextlib.contextmanager
def services(configuration: Configuration) -> Iterator[None]:
    """Runs the services of a configuration, such as a server of its data.
    ConfigurationError if a start fails."""
    with contextlib.ExitStack() as stack:
        for name, node in configuration.services.items():
            try:
                stack.enter_context(instantiate(dict(node), _convert_="all"))
            except (Exception, SystemExit) as error:  # code of the user
                # Hydra's own error names only the target.
                cause = (
                    error.__cause__
                    if isinstance(error, HydraException) and error.__cause__
                    else error
                )
                raise ConfigurationError(
                    one_line(f"services.{name}: {type(cause).__name__}: {cause}")
                ) from error
        yield
