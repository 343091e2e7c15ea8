"""LoaderSettings and a dataset make a DataLoader; LoaderSettings and a DataLoader make another one like it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from nws_sweep.errors import ConfigurationError
from nws_sweep.records import LoaderSettings

AnyLoader = TypeVar("AnyLoader")
Loader = TypeVar("Loader", bound="DataLoader[Any]")
_USUAL_PREFETCH = 2  # what DataLoader takes for None where there are workers


def build(
    dataset: Dataset[Any],
    settings: LoaderSettings,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    worker_init_fn: Callable[[int], Any] | None = None,
    generator: torch.Generator | None = None,
) -> DataLoader[Any]:
    """A DataLoader over the dataset with exactly these settings.

    Args:
        dataset: Map-style or iterable, with or without a length.
        settings: Canonical settings (``LoaderSettings.canonical``). ``shuffle`` is ignored for an iterable dataset,
            which has its own order.
        collate_fn: Makes a batch of a list of samples; None for the DataLoader's own.
        worker_init_fn: Called in each worker with its number before its first sample.
        generator: Draws the order of the samples; None for torch's own.
    """
    extra: dict[str, Any] = {} if settings.in_order else {"in_order": False}  # unknown to older versions
    return DataLoader(
        dataset,
        batch_size=settings.batch_size,
        collate_fn=collate_fn,
        shuffle=None if isinstance(dataset, IterableDataset) else settings.shuffle,
        num_workers=settings.num_workers,
        pin_memory=settings.pin_memory,
        drop_last=settings.drop_last,
        timeout=settings.timeout,
        multiprocessing_context=settings.multiprocessing_context,
        prefetch_factor=settings.prefetch_factor,
        persistent_workers=settings.persistent_workers,
        worker_init_fn=worker_init_fn,
        generator=generator,
        **extra,
    )


def settings_of(loader: DataLoader[Any]) -> LoaderSettings:
    """What a DataLoader was given; its own prefetch_factor is None again, as if it had not been asked for workers."""
    context = loader.multiprocessing_context
    return LoaderSettings(
        batch_size=loader.batch_size,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        prefetch_factor=None if loader.prefetch_factor == _USUAL_PREFETCH else loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
        shuffle=isinstance(loader.sampler, RandomSampler),
        drop_last=loader.drop_last,
        multiprocessing_context=None if context is None else context.get_start_method(),
        timeout=float(loader.timeout),
        in_order=getattr(loader, "in_order", True),  # unknown to older versions
    )


def retuned(loader: AnyLoader, settings: LoaderSettings) -> AnyLoader:
    """Another loader like this one, a subclass too, but with these settings.

    It has the same dataset, sampler, generator, collate_fn and worker_init_fn, the very same objects; whatever a
    subclass keeps in attributes comes along. Iterators that it keeps (some subclasses do, so that workers stay) are
    begun anew.

    Args:
        loader: Is left as it is. Of what wraps one DataLoader, such as accelerate's and webdataset's loaders, the
            DataLoader inside is the one that gets the settings.
        settings: Canonical settings (``LoaderSettings.canonical``). ``shuffle`` is not looked at: the sampler decides.

    Raises:
        ConfigurationError: If the batch size should change, but is not this loader's to decide; or if there is not
            exactly one DataLoader in what wraps it.
    """
    if place := _place_of_inner(loader):
        return _with_inner(loader, place, retuned(_inner(loader, place), settings))
    if not isinstance(loader, DataLoader):
        raise ConfigurationError(f"{type(loader).__name__}: allowed is a DataLoader, or what wraps one")
    other = _alike(loader, settings)
    for name in _kept_iterators(other):
        vars(other)[name] = other._get_iterator()
    return other


def unwrapped(loader: Any) -> DataLoader[Any]:
    """The DataLoader itself, or the one that is inside.

    Raises:
        ConfigurationError: If there is none, or there are several.
    """
    if place := _place_of_inner(loader):
        return unwrapped(_inner(loader, place))
    if not isinstance(loader, DataLoader):
        raise ConfigurationError(f"{type(loader).__name__}: allowed is a DataLoader, or what wraps one")
    return loader


def wraps(value: object) -> bool:
    """Whether there is a DataLoader in one of its attributes."""
    return _place_of_inner(value) is not None


def _place_of_inner(wrapper: Any) -> tuple[str, int | None] | None:
    """The attribute that holds the DataLoader that is iterated, and the number in it if it is a list; None for none."""
    if isinstance(wrapper, DataLoader) and type(wrapper).__iter__ is DataLoader.__iter__:
        return None  # whatever it keeps beside
    attributes = getattr(wrapper, "__dict__", {}).items()
    places: list[tuple[str, int | None]] = [(name, None) for name, value in attributes if isinstance(value, DataLoader)]
    places += [
        (name, number)
        for name, value in attributes
        if isinstance(value, list)
        for number, inner in enumerate(value)
        if isinstance(inner, DataLoader)
    ]
    if len(places) > 1:
        names = ", ".join(dict.fromkeys(name for name, _ in places))
        raise ConfigurationError(f"{type(wrapper).__name__} has {len(places)} DataLoaders ({names}): tune each of them")
    return places[0] if places else None


def _inner(wrapper: Any, place: tuple[str, int | None]) -> Any:
    name, number = place
    held = vars(wrapper)[name]
    return held if number is None else held[number]


def _with_inner(wrapper: AnyLoader, place: tuple[str, int | None], inner: Any) -> AnyLoader:
    """A shallow copy of the wrapper around another DataLoader."""
    name, number = place
    other = object.__new__(type(wrapper))  # copy.copy would ask some wrappers for what is inside, before it is there
    vars(other).update(vars(wrapper))
    held = vars(wrapper)[name]
    vars(other)[name] = inner if number is None else [*held[:number], inner, *held[number + 1 :]]
    return other


def dormant(loader: Loader) -> Loader:
    """Another loader like this one that is only meant to be retuned: without workers, and nothing in it has begun.

    To begin an iterator would draw from the caller's random numbers.
    """
    other = _alike(loader, replace(settings_of(loader), num_workers=0).canonical())
    vars(other).update(dict.fromkeys(_kept_iterators(other), KeptIterator()))
    return other


def _alike(loader: Loader, settings: LoaderSettings) -> Loader:
    other = copy.copy(loader)
    own = vars(other)  # DataLoader lets some of its attributes be set in __init__ only
    own.update(_plain_attributes(loader, settings))
    own["_iterator"] = own["_IterableDataset_len_called"] = None
    own["_DataLoader__multiprocessing_context"] = None
    if settings.multiprocessing_context is not None:
        other.multiprocessing_context = cast("Any", settings.multiprocessing_context)
    if settings.batch_size != loader.batch_size or settings.drop_last != loader.drop_last:
        own.update(_batches(loader, settings))
    return other


def with_sampler(loader: Loader, sampler: Sampler[Any]) -> Loader:
    """The same loader with another sampler of single samples; one whose batches somebody else makes stays as it is.

    Args:
        loader: Is changed, and has not been iterated.
        sampler: Gives indices of its dataset.
    """
    own = vars(loader)  # DataLoader lets its sampler be set in __init__ only
    if loader.batch_sampler is None:
        own["sampler"] = sampler
    elif type(loader.batch_sampler) is BatchSampler and loader.batch_size is not None:
        own["sampler"] = sampler
        own["batch_sampler"] = BatchSampler(sampler, loader.batch_size, loader.drop_last)
    return loader


def _kept_iterators(loader: DataLoader[Any]) -> list[str]:
    return [name for name, value in vars(loader).items() if isinstance(value, _BaseDataLoaderIter | KeptIterator)]


class KeptIterator:
    """Stands for an iterator that a loader keeps in an attribute, where the loader is not meant to be iterated."""


def _plain_attributes(loader: DataLoader[Any], settings: LoaderSettings) -> dict[str, Any]:
    prefetch_factor = settings.prefetch_factor
    if settings.num_workers and prefetch_factor is None:
        prefetch_factor = _USUAL_PREFETCH
    attributes = {
        "num_workers": settings.num_workers,
        "pin_memory": settings.pin_memory,
        "prefetch_factor": prefetch_factor,
        "persistent_workers": settings.persistent_workers,
        "timeout": settings.timeout,
    }
    return {**attributes, **({"in_order": settings.in_order} if hasattr(loader, "in_order") else {})}


def _batches(loader: DataLoader[Any], settings: LoaderSettings) -> dict[str, Any]:
    """The attributes of a loader with another batch size."""
    size = settings.batch_size
    if size is None or type(loader.batch_sampler) is not BatchSampler:
        who = "the dataset" if loader.batch_sampler is None else type(loader.batch_sampler).__name__
        raise ConfigurationError(f"batch_size={size}: {who} decides the batches of this DataLoader; allowed is null")
    sampler = BatchSampler(loader.sampler, size, settings.drop_last)
    return {"batch_size": size, "drop_last": settings.drop_last, "batch_sampler": sampler}


def samples_per_epoch(loader: DataLoader[Any]) -> int | None:
    """Samples that an epoch takes; None if that cannot be told."""
    if isinstance(loader.dataset, IterableDataset):
        return length(loader.dataset)
    return length(loader.sampler) if _takes_each_by_itself(loader) else None


def _takes_each_by_itself(loader: DataLoader[Any]) -> bool:
    """Whether the sampler decides about the samples, and no batch_sampler of another kind."""
    return loader.batch_sampler is None or type(loader.batch_sampler) is BatchSampler


def length(sized: Any) -> int | None:
    """``len`` of a dataset or a loader, None if it has none."""
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return None
