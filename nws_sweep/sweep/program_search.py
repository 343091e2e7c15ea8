"""``+nws_sweep=search``: another Hydra program runs until its training begins; that loader is searched, the job ends.

The job ends by SystemExit, which few programs catch, and which Hydra is made to take for the return of the job.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from hydra.core import utils
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig

from nws_sweep.config.schema import RANGES, require
from nws_sweep.errors import ConfigurationError, one_line
from nws_sweep.sweep.program import ProgramCallback, report
from nws_sweep.system import platforms, processes, torch_internals

logger = logging.getLogger(__name__)


class SearchEnded(SystemExit):
    """Ends the job of a program; the code is 0, or 1 if the search failed."""


def _is_about_a_failure(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], SearchEnded))


class _EndingIterator:
    """Ends the job at the first batch: an error in ``iter`` would hit frameworks where they can't clean up."""

    def __init__(self, callback: SearchCallback, loader: Any) -> None:
        self._callback = callback
        self._loader = loader

    def __iter__(self) -> _EndingIterator:
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
