"""What nws_sweep does in another Hydra program: a callback that replaces the iterators of its DataLoaders.

The answer of a job is written in the job, which may run in any process, and the report of a multirun at its end. Hydra
turns an exception in a callback into a warning, so a wrong option raises SystemExit.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from nws_sweep.config.embedding import GROUP
from nws_sweep.config.project_keys import keys_of
from nws_sweep.config.schema import column_value, folder_name
from nws_sweep.errors import NwsSweepError
from nws_sweep.results import ProjectFacts, SearchRecord, storage
from nws_sweep.sweep.grid import without_hydra

if TYPE_CHECKING:
    from nws_sweep.dataloading.hook import LoaderHook

FOLDER = "nws_sweep"  # of a run, or of a multirun with one folder per job
_RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID")  # of the processes that torchrun, Lightning or srun start


class ProgramCallback(Callback):
    """Wraps DataLoader during each job; subclasses say what its iterators are."""

    def __init__(self) -> None:
        # Set before the first job, since launchers pickle the callback.
        self._grid: Path | None = None  # folder of the multirun; None for a single run
        self._hook: LoaderHook | None = None
        self._config: DictConfig | None = None  # of the job

    def check_options(self) -> None:
        """Raises NwsSweepError if an option is wrong."""
        raise NotImplementedError

    def get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """The iterator of a DataLoader, in place of that of DataLoader's ``original`` method."""
        raise NotImplementedError

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Prepares the report."""
        if is_first_rank():
            self._grid = Path(config.hydra.sweep.dir).absolute() / FOLDER
            # After a failed job, Hydra 1.3 does not call on_multirun_end.
            atexit.register(_report_grid, self._grid, os.getpid())

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes and prints the report."""
        atexit.unregister(_report_grid)
        if self._grid is not None:
            _report_grid(self._grid, os.getpid())

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Wraps DataLoader."""
        try:
            self.check_options()
        except NwsSweepError as error:
            raise SystemExit(f"nws_sweep: {error}") from error
        from nws_sweep.dataloading.hook import LoaderHook  # imports torch

        self._config, self._hook = config, LoaderHook(self.get_iterator)
        self._hook.start()

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Restores DataLoader."""
        if self._hook is not None:
            self._hook.restore()

    def save(self, record: SearchRecord) -> Path | None:
        """Writes the files of the job's answer; returns their folder, None in ranks other than 0."""
        config = self._config
        if config is None or not is_first_rank():
            return None
        overrides = [one for one in config.hydra.overrides.task if one.partition("=")[0].lstrip("+") != GROUP]
        folder = Path(config.hydra.runtime.output_dir) / FOLDER
        if self._grid is not None:
            folder = self._grid / folder_name(overrides)
        storage.save(folder, of_program(record, without_hydra(config), overrides))
        return folder


def of_program(record: SearchRecord, config: DictConfig, overrides: Sequence[str]) -> SearchRecord:
    """The record with a column for each override, and the keys of the DataLoader's settings in the program's config.

    An override that sets a column, such as ``data.batch_size=64`` that of batch_size, needs no column of its own.
    """
    columns = dict(record.configuration.columns)
    for override in overrides:
        key = override.partition("=")[0].lstrip("+")
        value = column_value(config, key, override)
        if columns.get(key.rpartition(".")[2]) != value:
            columns[key] = value
    keys, unclear = keys_of(config, "")
    facts = record.facts and replace(record.facts, project=ProjectFacts(keys=keys, unclear=unclear))
    return replace(record, configuration=replace(record.configuration, columns=columns), facts=facts)


def is_first_rank() -> bool:
    """Whether this process writes files: of several ranks, only the first one does."""
    return all(os.environ.get(name, "0") == "0" for name in _RANKS)


def report(folder: Path, *, prints: bool = True) -> None:
    """Writes the report of a run or a grid, and prints its table.

    In a process of its own: threads can't start at the exit of this one, and its matplotlib is the program's.
    """
    sys.stdout.flush()
    command = [sys.executable, "-m", "nws_sweep", "report", str(folder)]
    subprocess.run(command, check=False, stdout=None if prints else subprocess.DEVNULL)


def _report_grid(folder: Path, process: int) -> None:
    if os.getpid() == process and storage.holds_results(folder):  # not in a forked process
        report(folder)
