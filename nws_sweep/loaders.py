"""LoaderSettings and a DataLoader make another DataLoader like it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, TypeVar, cast

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from nws_sweep.errors import ConfigurationError
from nws_sweep.records import LoaderSettings

AnyLoader = TypeVar("AnyLoader")
Loader = TypeVar("Loader", bound="DataLoader[Any]")
_USUAL_PREFETCH = 2  # what DataLoader takes for None where there are workers


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
    if held := _held(loader):
        name, inside = held
        value, changed = vars(loader)[name], retuned(inside, settings)
        wrapper = object.__new__(type(loader))  # copy.copy would ask some for what is inside, before it is there
        vars(wrapper).update(vars(loader))
        is_list = isinstance(value, list)
        vars(wrapper)[name] = [changed if one is inside else one for one in value] if is_list else changed
        return wrapper
    other = _alike(unwrapped(loader), settings)
    for name in _kept_iterators(other):
        vars(other)[name] = other._get_iterator()
    return cast("AnyLoader", other)


def unwrapped(loader: Any) -> DataLoader[Any]:
    """The DataLoader itself, or the one that is inside.

    Raises:
        ConfigurationError: If there is none, or there are several.
    """
    if held := _held(loader):
        return unwrapped(held[1])
    if not isinstance(loader, DataLoader):
        raise ConfigurationError(f"{type(loader).__name__}: allowed is a DataLoader, or what wraps one")
    return loader


def is_loader(value: object) -> bool:
    """Whether it is a DataLoader, or there is one in one of its attributes."""
    return isinstance(value, DataLoader) or _held(value) is not None


def _held(wrapper: Any) -> tuple[str, DataLoader[Any]] | None:
    """The DataLoader that is iterated, and the attribute that it is in, maybe in a list; None for none."""
    if isinstance(wrapper, DataLoader) and type(wrapper).__iter__ is DataLoader.__iter__:
        return None  # whatever it keeps beside
    found = [
        (name, inner)
        for name, value in getattr(wrapper, "__dict__", {}).items()
        for inner in (value if isinstance(value, list) else [value])
        if isinstance(inner, DataLoader)
    ]
    if len(found) > 1:
        names = ", ".join(dict.fromkeys(name for name, _ in found))
        raise ConfigurationError(f"{type(wrapper).__name__} has {len(found)} DataLoaders ({names}): tune each of them")
    return found[0] if found else None


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
    for name in ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "timeout", "in_order"):
        if name in own:
            own[name] = getattr(settings, name)
    if settings.num_workers and settings.prefetch_factor is None:
        own["prefetch_factor"] = _USUAL_PREFETCH
    own["_iterator"] = own["_IterableDataset_len_called"] = None
    own["_DataLoader__multiprocessing_context"] = None
    if settings.multiprocessing_context is not None:
        other.multiprocessing_context = cast("Any", settings.multiprocessing_context)
    if (settings.batch_size, settings.drop_last) != (loader.batch_size, loader.drop_last):
        size = settings.batch_size
        if size is None or type(loader.batch_sampler) is not BatchSampler:
            who = "the dataset" if loader.batch_sampler is None else type(loader.batch_sampler).__name__
            raise ConfigurationError(
                f"batch_size={size}: {who} decides the batches of this DataLoader; allowed is null"
            )
        batches = BatchSampler(loader.sampler, size, settings.drop_last)
        own.update(batch_size=size, drop_last=settings.drop_last, batch_sampler=batches)
    return other


class KeptIterator:
    """Stands for an iterator that a loader keeps in an attribute, where the loader is not meant to be iterated."""


def _kept_iterators(loader: DataLoader[Any]) -> list[str]:
    return [name for name, value in vars(loader).items() if isinstance(value, _BaseDataLoaderIter | KeptIterator)]


def samples_per_epoch(loader: DataLoader[Any]) -> int | None:
    """Samples that an epoch takes; None if that cannot be told."""
    if isinstance(loader.dataset, IterableDataset):
        return length(loader.dataset)
    is_by_sampler = loader.batch_sampler is None or type(loader.batch_sampler) is BatchSampler
    return length(loader.sampler) if is_by_sampler else None


def length(sized: Any) -> int | None:
    """``len`` of a dataset or a loader, None if it has none."""
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return None
