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
    def _training(self) -> Tuner | None:
        """The tuner of the loader that has given most batches; None if no loader has given any."""
        return max((tuner for *_, tuner in self._tuners if tuner.batches), key=lambda one: one.batches, default=None)

    def get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """An iterator that tunes the loader."""
        from nws_sweep.online.loader import iterator_of
        from nws_sweep.online.pool import OF_POOL

        if OF_POOL in vars(loader):  # a pool takes torch's own iterator
            return original(loader)
        return iterator_of(loader, type(loader), lambda: self._tuner_of(loader), original)

    def _tuner_of(self, loader: Any) -> Tuner:
        if loader not in self._by_loader:
            self._by_loader[loader] = self._known_tuner(loader)
        return self._by_loader[loader]

    def _known_tuner(self, loader: Any) -> Tuner:
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
