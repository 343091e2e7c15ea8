"""Times the DataLoaders of a program that knows nothing of it: when each batch was asked for, and when it was there.

DataLoader's own methods are wrapped for the time being, in their classes, so that every object keeps its type. The
wrapped ones note two moments a batch, in one to three microseconds; whatever else they might do wrong is
kept from the program. torch is not imported for this: where the program has not imported it yet, its module is wrapped
as soon as it does.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from nws_sweep.measure import batch_length
from nws_sweep.records import LoaderSettings
from nws_sweep.timeline import Epoch, Loader, Timeline

_MODULE = "torch.utils.data.dataloader"
# By then everything is known that a loader's times can tell; what comes later is not noted.
_MOST_BATCHES = 100_000

_clock = time.perf_counter


class LoaderWatch:
    """Notes the times of all DataLoaders of this process from ``start`` to ``stop``."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        # Nothing of the program is kept alive: loaders end their workers when they go.
        self._by_loader: WeakKeyDictionary[Any, _Line] = WeakKeyDictionary()
        self._by_iterator: WeakKeyDictionary[Any, _Notes] = WeakKeyDictionary()
        self._wrapped: list[tuple[type, str, Any, Any]] = []
        self._finder = _Finder(self._wrap)

    def start(self) -> None:
        """Begins to watch."""
        module = sys.modules.get(_MODULE)
        if module is None:
            sys.meta_path.insert(0, self._finder)
        else:
            self._wrap(module)

    def stop(self) -> list[Timeline]:
        """Leaves DataLoader as it was, and tells what was noted."""
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self._finder)
        for owner, name, original, ours in self._wrapped:
            if getattr(owner, name) is ours:  # else the program has wrapped it once more, and keeps ours inside
                setattr(owner, name, original)
        self._wrapped.clear()
        return [line.timeline for line in self._lines]

    def _wrap(self, module: ModuleType) -> None:
        self._replace(module.DataLoader, "__iter__", self._watched_iter)
        self._replace(module._BaseDataLoaderIter, "__next__", self._watched_next)

    def _replace(self, owner: type, name: str, wrap: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        ours = functools.wraps(original)(wrap(original))
        setattr(owner, name, ours)
        self._wrapped.append((owner, name, original, ours))

    def _watched_iter(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def watched(loader: Any) -> Any:
            began = _clock()
            iterator = original(loader)
            if self._wrapped:
                with contextlib.suppress(Exception):  # an unusual loader goes unnoted
                    self._begun(loader, iterator, began, _clock() - began)
            return iterator

        return watched

    def _begun(self, loader: Any, iterator: Any, began: float, iter_s: float) -> None:
        line = self._by_loader.get(loader)
        if line is None:
            line = self._by_loader[loader] = _Line(_described(loader))
            self._lines.append(line)
        self._by_iterator[iterator] = line.begun(began, iter_s)

    def _watched_next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        notes_of = self._by_iterator

        def watched(iterator: Any) -> Any:
            notes = notes_of.get(iterator)
            if notes is None:
                return original(iterator)
            asked = _clock()
            try:
                batch = original(iterator)
            except StopIteration:
                notes.over = notes.over or (asked, _clock())
                raise
            notes.took(batch, asked, _clock())
            return batch

        return watched


class _Notes:
    """What is noted of one epoch."""

    def __init__(self, began: float, iter_s: float, room: int) -> None:
        self.began, self.iter_s, self.room = began, iter_s, room
        self.asked, self.given = array("d"), array("d")
        self.over: tuple[float, float] | None = None
        self.length: int | None = None

    def took(self, batch: Any, asked: float, given: float) -> None:
        if not self.given:
            with contextlib.suppress(Exception):  # whatever it is made of
                self.length = batch_length(batch, 0) or None
        if len(self.given) < self.room:
            self.asked.append(asked)
            self.given.append(given)

    @property
    def epoch(self) -> Epoch:
        is_whole = len(self.given) < self.room
        return Epoch(
            began_s=self.began,
            iter_s=self.iter_s,
            asked_s=tuple(self.asked),
            given_s=tuple(self.given),
            over_s=self.over if is_whole else None,
            batch_length=self.length,
        )


class _Line:
    """What is noted of one loader."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._epochs: list[_Notes] = []

    def begun(self, began: float, iter_s: float) -> _Notes:
        room = _MOST_BATCHES - sum(len(notes.given) for notes in self._epochs)
        self._epochs.append(_Notes(began, iter_s, room))
        return self._epochs[-1]

    @property
    def timeline(self) -> Timeline:
        loader = self._loader
        if not loader.settings.batch_size:  # a sampler of whole batches, or a dataset of them: as the first one was
            length = next((notes.length for notes in self._epochs if notes.length), 1)
            loader = replace(loader, settings=replace(loader.settings, batch_size=length))
        return Timeline(loader=loader, epochs=tuple(notes.epoch for notes in self._epochs))


def _described(loader: Any) -> Loader:
    """What a DataLoader says of itself; nothing is asked that might draw random numbers or change how it behaves."""
    from torch.utils.data import IterableDataset

    iterable = isinstance(loader.dataset, IterableDataset)
    kind = type(loader.dataset)
    samples = None if iterable else _length(loader.dataset)
    return Loader(
        settings=_settings(loader),
        dataset=f"{kind.__module__}.{kind.__qualname__}",
        iterable=iterable,
        samples=samples,
        batches=_batches(loader),
        accelerator=_accelerator() if loader.pin_memory else None,
    )


def _settings(loader: Any) -> LoaderSettings:
    from torch.utils.data import RandomSampler

    context = loader.multiprocessing_context
    return LoaderSettings(
        batch_size=loader.batch_size or 0,
        num_workers=loader.num_workers,
        pin_memory=bool(loader.pin_memory),
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
        shuffle=isinstance(loader.sampler, RandomSampler),
        drop_last=bool(loader.drop_last),
        multiprocessing_context=context.get_start_method() if context is not None else None,
        timeout=float(loader.timeout),
        in_order=getattr(loader, "in_order", True),
    ).canonical()


def _batches(loader: Any) -> int | None:
    """Its length, where torch's own batch sampler counts it; others may draw their batches to count them."""
    from torch.utils.data import BatchSampler

    return _length(loader.batch_sampler) if type(loader.batch_sampler) is BatchSampler else None


def _length(sized: Any) -> int | None:
    with contextlib.suppress(Exception):  # TypeError and NotImplementedError, mostly
        return len(sized)
    return None


def _accelerator() -> str | None:
    from nws_sweep import accelerator

    return accelerator.available()


class _Finder(MetaPathFinder):
    """Calls back when the module of DataLoader has been imported."""

    def __init__(self, then: Callable[[ModuleType], None]) -> None:
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            setattr(spec.loader, "exec_module", functools.partial(_execute, spec.loader.exec_module, self._then))  # noqa: B010
        return spec


def _execute(execute: Callable[[ModuleType], None], then: Callable[[ModuleType], None], module: ModuleType) -> None:
    execute(module)
    then(module)
