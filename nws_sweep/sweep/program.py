"""What nws_sweep does in another Hydra program: callbacks that replace the iterators of its DataLoaders.

The answer of a job is written in the job, which may run in any process, and the report of a multirun at its end. Hydra
turns an exception in a callback into a warning, so a wrong option raises SystemExit.

- ``+nws_sweep=search``: the program runs until its training begins; that loader is searched, and the job ends by
  SystemExit, which few programs catch, and which Hydra is made to take for the return of the job.
- ``+nws_sweep=autotune``: the program runs as it is, and the loader of its training tunes itself. All loaders are
  timed; only the one that has given most batches so far changes its settings, which soon is the training's.
"""

import atexit
import logging
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hydra.core import utils
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from nws_sweep.analysis.summary import summarise
from nws_sweep.config.embedding import GROUP
from nws_sweep.config.project_keys import keys_of
from nws_sweep.config.schema import RANGES, column_value, folder_name, require
from nws_sweep.errors import ConfigurationError, NwsSweepError, one_line
from nws_sweep.online.tuner import require_options
from nws_sweep.report import snippets
from nws_sweep.results import ProjectFacts, SearchRecord, atomic, storage
from nws_sweep.sweep.grid import without_hydra
from nws_sweep.system import platforms, processes, torch_internals

if TYPE_CHECKING:
    from nws_sweep.dataloading.hook import LoaderHook
    from nws_sweep.online.tuner import Tuner

logger = logging.getLogger(__name__)

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


class SearchEnded(SystemExit):
    """Ends the job of a program; the code is 0, or 1 if the search failed."""


def _is_about_a_failure(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], SearchEnded))


class _EndingIterator:
    """Ends the job at the first batch: an error in ``iter`` would hit frameworks where they can't clean up."""

    def __init__(self, callback: "SearchCallback", loader: Any) -> None:
        self._callback = callback
        self._loader = loader

    def __iter__(self) -> "_EndingIterator":
        return self

    def __next__(self) -> NoReturn:
        torch_internals.forget_iterator(self._loader)  # one with persistent workers keeps it
        self._callback.end(self._loader)

    def _reset(self, loader: Any) -> None:
        """DataLoader calls it if ``iter`` is called again."""


class SearchCallback(ProgramCallback):
    """Searches one DataLoader of each job.

    Args:
        loader: The number of the DataLoader, in the order in which the program first iterates over them, from 1; None
            for the first one that is iterated over with gradients enabled, if its order is random or its dataset is
            iterable.
        options: Keywords of ``nws_sweep.search``.
    """

    def __init__(self, loader: int | None = None, **options: Any) -> None:
        super().__init__()
        self._number = loader
        self._options = options
        self._seen: list[weakref.ref[Any]] = []
        self._ending: SearchEnded | None = None

    def check_options(self) -> None:
        """Checks the ranges of values; the training step is checked by the search."""
        platforms.require("searching")
        if self._number is not None and not (isinstance(self._number, int) and self._number >= 1):
            raise ConfigurationError(f"loader={self._number!r}: allowed is null or an integer of at least 1")
        for name in self._options.keys() & RANGES.keys():
            require(name, self._options[name])

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Wraps DataLoader, and makes Hydra catch the end of the job, as it catches Exception."""
        self._seen, self._ending = [], None
        super().on_job_start(config, **kwargs)
        setattr(utils, "Exception", (Exception, SearchEnded))  # noqa: B010
        for handler in logging.getLogger().handlers:  # Hydra 1.4 would write into the job's log that it has failed
            handler.addFilter(_is_about_a_failure)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Makes the job one that has returned, unless the search failed."""
        super().on_job_end(config, job_return, **kwargs)
        vars(utils).pop("Exception", None)
        if self._ending is not None:  # also if the program has made another error of it
            job_return.status = JobStatus.FAILED if self._ending.code else JobStatus.COMPLETED
            job_return.return_value = self._ending if self._ending.code else None
        elif job_return.status is JobStatus.COMPLETED:
            what = "the DataLoader to search" if self._seen else "a DataLoader"
            logger.warning("%s ended without iterating over %s; nothing was searched", config.hydra.job.name, what)

    def get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """The loader's own iterator, or one that ends the job."""
        if self._ending is None and not self._is_wanted(loader):
            return original(loader)
        return _EndingIterator(self, loader)

    def end(self, loader: Any) -> NoReturn:
        """Searches the loader unless one has been searched, and ends the job."""
        if self._ending is None:
            self._ending = SearchEnded(self._search(loader))
        raise self._ending

    def _is_wanted(self, loader: Any) -> bool:
        from nws_sweep.dataloading.loaders import reason_not_training

        is_new = all(seen() is not loader for seen in self._seen)
        if is_new:
            self._seen.append(weakref.ref(loader))
        number = next(number for number, seen in enumerate(self._seen, 1) if seen() is loader)
        if self._number is not None:
            return number == self._number
        reason = reason_not_training(loader)
        if reason and is_new:
            what = f"DataLoader {number} ({type(loader.dataset).__name__}) is not searched: {reason}"
            logger.info("%s; hydra.callbacks.nws_sweep.loader=%d searches it", what, number)
        return not reason

    def _search(self, loader: Any) -> int:
        """Searches the loader and writes the answer; returns the exit status, 1 if the search failed."""
        from nws_sweep import api

        processes.drop_foreign_start_method()  # of a launcher's worker process
        try:
            folder = self.save(api.search(loader, progress=False, **self._options).record)
        except Exception as error:  # the program must not handle it
            logger.error("the search failed: %s", one_line(str(error) or repr(error), 1000))
            return 1
        if folder is not None:
            report(folder, prints=self._grid is None)
        return 0


class AutotuneCallback(ProgramCallback):
    """Gives each DataLoader a tuner; loaders that are made for one epoch each share one.

    The arguments are those of ``nws_sweep.autotune``.
    """

    def __init__(
        self, max_workers: int | None = None, settings: Sequence[str] | None = None, reuse: str = "fresh"
    ) -> None:
        super().__init__()
        chosen = None if settings is None else tuple(settings)
        self._options: dict[str, Any] = {"max_workers": max_workers, "settings": chosen, "reuse": reuse}
        self._tuners: list[tuple[str, Callable[[], Any], Tuner]] = []  # with the loader's kind and dataset

    def check_options(self) -> None:
        """Checks those of ``autotune``."""
        require_options(**self._options)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Wraps DataLoader."""
        self._tuners = []
        if reason := platforms.reason_not_autotuning():
            logger.warning("%s: the program runs as it is", reason)
            return
        self._by_loader: weakref.WeakKeyDictionary[Any, Tuner] = weakref.WeakKeyDictionary()  # cannot be pickled
        super().on_job_start(config, **kwargs)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Writes the answer for the training's loader."""
        super().on_job_end(config, job_return, **kwargs)
        tuner = self._training
        if tuner is None:
            if self._hook is not None:
                logger.info("no DataLoader has given a batch")
            return
        from nws_sweep.online.loader import record

        tuner.end()
        if folder := self.save(record(tuner)):
            for configuration in summarise(storage.find(folder)).configurations:
                atomic.write_text(folder / storage.BEST, snippets.best_file(configuration).file)
            logger.info("`python -m nws_sweep report %s` shows more", folder)

    @property
    def _training(self) -> "Tuner | None":
        """The tuner of the loader that has given most batches; None if no loader has given any."""
        return max((tuner for *_, tuner in self._tuners if tuner.batches), key=lambda one: one.batches, default=None)

    def get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """An iterator that tunes the loader."""
        from nws_sweep.online.loader import iterator_of
        from nws_sweep.online.pool import OF_POOL

        if OF_POOL in vars(loader):  # a pool takes torch's own iterator
            return original(loader)
        return iterator_of(loader, type(loader), lambda: self._tuner_of(loader), original)

    def _tuner_of(self, loader: Any) -> "Tuner":
        if loader not in self._by_loader:
            self._by_loader[loader] = self._known_tuner(loader)
        return self._by_loader[loader]

    def _known_tuner(self, loader: Any) -> "Tuner":
        """That of a loader of this kind which has the same dataset, or had one that is gone; else a new one."""
        from nws_sweep.online.agreement import kind_of
        from nws_sweep.online.loader import tuner_of

        kind, dataset = kind_of(loader), loader.dataset
        found = [one for one in self._tuners if one[0] == kind and any(one[1]() is each for each in (dataset, None))]
        if found:
            self._tuners.remove(found[0])
            tuner = found[0][2]
        else:
            tuner = tuner_of(loader, **self._options, progress=False)
            tuner.may_change = lambda one: one is self._training
        self._tuners.append((kind, _weakly(dataset), tuner))
        return tuner


def _weakly(value: Any) -> Callable[[], Any]:
    """A weak reference, or a strong one to what cannot be referenced weakly, such as a list."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
