"""``+nws_sweep=online``: another Hydra program runs once, and the loader of its training tunes itself.

A callback replaces the iterators of the program's DataLoaders while a job runs. All loaders are timed; only the one
that has given most batches so far changes its settings, which is the training's soon after it has begun. Hydra turns
an exception in a callback into a warning, so a wrong command line raises SystemExit.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from nws_sweep.analysis.summary import summarise
from nws_sweep.dataloading.watching import LoaderHook
from nws_sweep.errors import NwsSweepError, one_line
from nws_sweep.online.tuner import require_options
from nws_sweep.report import snippets
from nws_sweep.results import atomic, storage

if TYPE_CHECKING:
    from nws_sweep.online.tuner import Tuner

logger = logging.getLogger(__name__)
_FOLDER = "nws_sweep"


class OnlineTuning(Callback):
    """Tunes the training's loader of another program; the arguments are those of ``nws_sweep.autotune``."""

    def __init__(
        self, max_workers: int | None = None, settings: Sequence[str] = ("prefetch_factor",), reuse: str = "fresh"
    ) -> None:
        self._options: dict[str, Any] = {"max_workers": max_workers, "settings": tuple(settings), "reuse": reuse}
        self._hook: TuningHook | None = None

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Wraps DataLoader."""
        try:
            require_options(**self._options)
        except NwsSweepError as error:
            raise SystemExit(f"nws_sweep: {error}") from error
        self._hook = TuningHook(self._options)
        self._hook.start()

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Writes the answer for the training's loader into the folder of the run."""
        hook, self._hook = self._hook, None
        if hook is None:
            return
        hook.restore()
        tuner = hook.training
        if tuner is None:
            logger.info("no DataLoader has given a batch")
            return
        from nws_sweep.online.loader import record

        tuner.end()
        folder = Path(config.hydra.runtime.output_dir) / _FOLDER
        storage.save(folder, record(tuner))
        for configuration in summarise(storage.find(folder)).configurations:
            atomic.write_text(folder / storage.BEST, snippets.best_file(configuration).file)
        logger.info("`python -m nws_sweep report %s` shows more", folder)


class TuningHook(LoaderHook):
    """Gives each DataLoader a tuner; loaders that are made for one epoch each share one."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        self._options = options
        self._tuners: list[tuple[Any, Tuner]] = []  # with the dataset
        self._by_loader: weakref.WeakKeyDictionary[Any, Tuner] = weakref.WeakKeyDictionary()

    @property
    def training(self) -> Tuner | None:
        """The tuner of the loader that has given most batches; None if no loader has given any."""
        return max((tuner for _, tuner in self._tuners if tuner.batches), key=lambda one: one.batches, default=None)

    def wrap(self, module: ModuleType) -> None:
        """Wraps the method that makes an iterator."""
        self.replace(module.DataLoader, "_get_iterator", self._tuned)

    def _tuned(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def get_iterator(loader: Any) -> Any:
            from nws_sweep.online.index_stream import Feed
            from nws_sweep.online.loader import iterator_of, plain

            if isinstance(loader._index_sampler, Feed):  # of a pool, which takes torch's own iterator
                return original(loader)
            try:
                tuner = self._tuner_of(loader)
            except Exception as error:  # the training goes on without
                logger.warning("the DataLoader is not tuned: %s", one_line(f"{type(error).__name__}: {error}"))
                return original(loader)
            return iterator_of(plain(loader, type(loader)), tuner)

        return get_iterator

    def _tuner_of(self, loader: Any) -> Tuner:
        from nws_sweep.dataloading.loaders import settings_of
        from nws_sweep.online.loader import tuner_of

        if loader not in self._by_loader:
            settings = settings_of(loader, in_effect=True).canonical()
            known = (tuner for dataset, tuner in self._tuners if dataset is loader.dataset and tuner.base == settings)
            tuner = next(known, None)
            if tuner is None:
                tuner = tuner_of(loader, **self._options, progress=False)
                tuner.may_change = lambda one: one is self.training
                self._tuners.append((loader.dataset, tuner))
            self._by_loader[loader] = tuner
        return self._by_loader[loader]
