"""Times the DataLoaders of an unchanged program: when each batch is requested, and when it is received.

Methods of DataLoader's classes are wrapped from ``start`` to ``stop``, so that every object keeps its type. A wrapped
method takes 1 to 3 us longer, and its own errors do not reach the program. If the program has not imported torch yet,
the module is wrapped when the program imports it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from nws_sweep.measurement.timeline import Epoch, Timeline
from nws_sweep.measurement.timing import batch_length
from nws_sweep.results import DatasetFacts

_MODULE = "torch.utils.data.dataloader"
_MOST_BATCHES = 100_000  # recorded of each loader

_clock = time.perf_counter


class LoaderHook:
    """Wraps methods of DataLoader's classes from ``start`` to ``stop``, now or when the program imports torch."""

    def __init__(self) -> None:
        self._wrapped: list[tuple[type, str, Any, Any]] = []

    def wrap(self, module: ModuleType) -> None:
        """Wraps methods of the module ``torch.utils.data.dataloader`` by ``replace``."""
        raise NotImplementedError

    def start(self) -> None:
        """Wraps the methods."""
        if _MODULE in sys.modules:
            self.wrap(sys.modules[_MODULE])
        else:
            sys.meta_path.insert(0, self)

    def restore(self) -> None:
        """Restores the methods."""
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        for owner, name, original, wrapper in self._wrapped:
            if getattr(owner, name) is wrapper:  # else the program has wrapped it too
                setattr(owner, name, original)
        self._wrapped.clear()

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Part of Python's import system: wraps the methods after their module has been executed."""
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: ModuleType) -> None:
                execute(module)
                self.wrap(module)

            setattr(spec.loader, "exec_module", executed)  # noqa: B010
        return spec

    def replace(self, owner: type, name: str, wrap: Callable[[Any], Any]) -> None:
        """Replaces a method by what ``wrap`` makes of it."""
        original = getattr(owner, name)
        wrapper = functools.wraps(original)(wrap(original))
        setattr(owner, name, wrapper)
        self._wrapped.append((owner, name, original, wrapper))


class LoaderWatch(LoaderHook):
    """Records the times of all DataLoaders of this process from ``start`` to ``stop``."""

    def __init__(self) -> None:
        super().__init__()
        self._timelines: list[Timeline] = []
        # Weak references: loaders end their workers when they are collected.
        self._by_loader: WeakKeyDictionary[Any, Timeline] = WeakKeyDictionary()
        # With the number of batches that may still be recorded.
        self._by_iterator: WeakKeyDictionary[Any, tuple[Epoch, int]] = WeakKeyDictionary()

    def stop(self) -> list[Timeline]:
        """Restores DataLoader and returns a timeline per loader."""
        self.restore()
        return [_with_batch_size(timeline) for timeline in self._timelines]

    def wrap(self, module: ModuleType) -> None:
        """Wraps the methods that begin an epoch and return a batch."""
        self.replace(module.DataLoader, "__iter__", self._watched_iter)
        self.replace(module._BaseDataLoaderIter, "__next__", self._watched_next)

    def _watched_iter(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def watched(loader: Any) -> Any:
            began = _clock()
            iterator = original(loader)
            if self._wrapped:
                with contextlib.suppress(Exception):  # an unusual loader is not recorded
                    self._start_epoch(loader, iterator, Epoch(began_s=began, iter_s=_clock() - began))
            return iterator

        return watched

    def _start_epoch(self, loader: Any, iterator: Any, epoch: Epoch) -> None:
        timeline = self._by_loader.get(loader)
        if timeline is None:
            timeline = self._by_loader[loader] = _new_timeline(loader)
            self._timelines.append(timeline)
        self._by_iterator[iterator] = epoch, _MOST_BATCHES - timeline.batches
        timeline.epochs.append(epoch)

    def _watched_next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        by_iterator = self._by_iterator

        def watched(iterator: Any) -> Any:
            epoch, most = by_iterator.get(iterator, (None, 0))
            if epoch is None or epoch.batches >= most:
                return original(iterator)
            asked = _clock()
            try:
                batch = original(iterator)
            except StopIteration:
                epoch.over_s = epoch.over_s or (asked, _clock())
                raise
            given = _clock()
            if not epoch.batches:
                with contextlib.suppress(Exception):  # a batch of an unknown type
                    epoch.batch_length = batch_length(batch, 0) or None
            epoch.asked_s.append(asked)
            epoch.given_s.append(given)
            return batch

        return watched


def _with_batch_size(timeline: Timeline) -> Timeline:
    """Sets the batch size of a loader that does not know it to the length of its first batch."""
    length = next((epoch.batch_length for epoch in timeline.epochs if epoch.batch_length), 1)
    size = timeline.settings.batch_size
    return replace(timeline, settings=replace(timeline.settings, batch_size=length if size is None else size))


def _new_timeline(loader: Any) -> Timeline:
    """Reads only attributes that neither draw random numbers nor change the loader."""
    from torch.utils.data import BatchSampler, IterableDataset

    from nws_sweep.dataloading.loaders import length, settings_of
    from nws_sweep.system import accelerator

    kind, sampler = type(loader.dataset), loader.batch_sampler
    iterable = isinstance(loader.dataset, IterableDataset)
    return Timeline(
        settings=settings_of(loader, in_effect=True).canonical(),
        facts=DatasetFacts(
            type=f"{kind.__module__}.{kind.__qualname__}",
            iterable=iterable,
            samples=None if iterable else length(loader.dataset),
            accelerator=accelerator.available() if loader.pin_memory else None,
        ),
        length=length(sampler) if type(sampler) is BatchSampler else None,  # len() of others may draw batches
    )
