"""``+nws_sweep=autotune``: another Hydra program runs as it is, and the loader of its training tunes itself.

All loaders are timed; only the one that has given most batches so far changes its settings, which is the training's
soon after it has begun.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.utils import JobReturn
from omegaconf import DictConfig

from nws_sweep.analysis.summary import summarise
from nws_sweep.errors import one_line
from nws_sweep.online.tuner import require_options
from nws_sweep.report import snippets
from nws_sweep.results import atomic, storage
from nws_sweep.sweep.program import ProgramCallback
from nws_sweep.system import platforms

if TYPE_CHECKING:
    from nws_sweep.online.tuner import Tuner

logger = logging.getLogger(__name__)


class AutotuneCallback(ProgramCallback):
    """Gives each DataLoader a tuner; loaders that are made for one epoch each share one.

    The arguments are those of ``nws_sweep.autotune``.
    """

    def __init__(
        self, max_workers: int | None = None, settings: Sequence[str] = ("prefetch_factor",), reuse: str = "fresh"
    ) -> None:
        super().__init__()
        self._options: dict[str, Any] = {"max_workers": max_workers, "settings": tuple(settings), "reuse": reuse}
        self._tuners: list[tuple[Any, Tuner]] = []  # with the dataset

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
    def _training(self) -> Tuner | None:
        """The tuner of the loader that has given most batches; None if no loader has given any."""
        return max((tuner for _, tuner in self._tuners if tuner.batches), key=lambda one: one.batches, default=None)

    def get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """An iterator that tunes the loader."""
        from nws_sweep.dataloading.loaders import index_sampler
        from nws_sweep.online.index_stream import Feed
        from nws_sweep.online.loader import iterator_of, plain

        if isinstance(index_sampler(loader), Feed):  # of a pool, which takes torch's own iterator
            return original(loader)
        try:
            tuner = self._tuner_of(loader)
        except Exception as error:  # the training goes on without
            logger.warning("the DataLoader is not tuned: %s", one_line(f"{type(error).__name__}: {error}"))
            return original(loader)
        return iterator_of(plain(loader, type(loader)), tuner, original)

    def _tuner_of(self, loader: Any) -> Tuner:
        from nws_sweep.dataloading.loaders import settings_of
        from nws_sweep.online.loader import tuner_of

        if loader not in self._by_loader:
            settings = settings_of(loader, in_effect=True).canonical()
            known = (tuner for dataset, tuner in self._tuners if dataset is loader.dataset and tuner.base == settings)
            tuner = next(known, None)
            if tuner is None:
                tuner = tuner_of(loader, **self._options, progress=False)
                tuner.may_change = lambda one: one is self._training
                self._tuners.append((loader.dataset, tuner))
            self._by_loader[loader] = tuner
        return self._by_loader[loader]
