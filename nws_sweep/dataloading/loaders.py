"""DataLoaders of trial processes: LoaderSettings and a dataset make one, and so do LoaderSettings and a DataLoader that is there.

Of several ranks each gets the samples that DistributedSampler gives it, as in training programs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter
from torch.utils.data.distributed import DistributedSampler

from nws_sweep.errors import ConfigurationError
from nws_sweep.results import LoaderSettings, ProjectFacts, Rank

if TYPE_CHECKING:
    from nws_sweep.dataloading.counting import WorkerStart

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


def with_settings(loader: AnyLoader, settings: LoaderSettings) -> AnyLoader:
    """Another loader like this one, a subclass too, but with these settings.

    It has the same dataset, sampler, generator, collate_fn and worker_init_fn, the very same objects; whatever a
    subclass keeps in attributes comes along. Iterators that it keeps (some subclasses do, so that workers stay) are
    restarted.

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
        value, changed = vars(loader)[name], with_settings(inside, settings)
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


def without_workers(loader: Loader) -> Loader:
    """Another loader like this one that is only meant to be with_settings: without workers, and nothing in it has begun.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What a project loads: its dataset or its DataLoader, and where in its config that stands."""

    made: Any
    facts: ProjectFacts


class Source:
    """Makes DataLoaders with given settings over one dataset.

    Args:
        made: A dataset; or a DataLoader, whose sampler, generator, functions and class are kept and which is never
            iterated itself; or a project with either.
        seed: Decides the order of the samples where no sampler does: the same for all candidates, and for all ranks.
        rank: Which of several shares the samples; None for one alone.

    Attributes:
        settings: Those of the DataLoader that it came in; None if it came by itself.
        project: Where it stands in a project's config; None if it comes from none.
    """

    def __init__(self, made: Any, seed: int, rank: Rank | None = None) -> None:
        self.project = made.facts if isinstance(made, Project) else None
        made = made.made if isinstance(made, Project) else made
        self._template: DataLoader[Any] | None = made if isinstance(made, DataLoader) else None
        self.settings = settings_of(made) if isinstance(made, DataLoader) else None
        self.dataset: Any = made.dataset if isinstance(made, DataLoader) else made
        self._seed = seed
        self._rank = rank

    @property
    def samples(self) -> int | None:
        """Samples that an epoch takes, of all ranks where a sampler shares them out; None if that cannot be told."""
        if self._template is None or (self._rank and isinstance(self._template.sampler, DistributedSampler)):
            return length(self.dataset)
        return samples_per_epoch(self._template)

    def loader(
        self, settings: LoaderSettings, collate_fn: Callable[[list[Any]], Any] | None, init: WorkerStart | None
    ) -> DataLoader[Any]:
        """A DataLoader with exactly these settings, and of several ranks with this one's samples.

        ``shuffle`` is ignored for an iterable dataset, and where there is a sampler.
        """
        loader = self._plain(settings) if self._template is None else with_settings(self._template, settings)
        if collate_fn is not None:
            loader.collate_fn = collate_fn
        if init is not None:
            init.user_function = loader.worker_init_fn
            loader.worker_init_fn = init
        return loader if self._rank is None else _shared_out(loader, self._rank, self._seed)

    def _plain(self, settings: LoaderSettings) -> DataLoader[Any]:
        keywords = asdict(settings)
        del keywords["threads_per_worker"]
        if settings.in_order:  # unknown to older versions
            del keywords["in_order"]
        if isinstance(self.dataset, IterableDataset):
            del keywords["shuffle"]
        return DataLoader(self.dataset, generator=torch.Generator().manual_seed(self._seed), **keywords)


class EpochSampler(DistributedSampler[Any]):
    """Another order each epoch by itself, as by the ``set_epoch`` that a training loop calls."""

    def __iter__(self) -> Iterator[Any]:
        order = super().__iter__()
        self.set_epoch(self.epoch + 1)
        return order


def _shared_out(loader: DataLoader[Any], rank: Rank, seed: int) -> DataLoader[Any]:
    """The loader with the samples of this rank alone, unless its own sampler or dataset decides what a rank gets."""
    whole: Any = loader.sampler
    of_others = type(whole) is DistributedSampler and (whole.num_replicas, whole.rank) != (rank.ranks, rank.number)
    knows_no_ranks = type(whole) in {RandomSampler, SequentialSampler}
    if isinstance(loader.dataset, IterableDataset) or not (of_others or knows_no_ranks):
        return loader
    share = EpochSampler(
        loader.dataset,
        num_replicas=rank.ranks,
        rank=rank.number,
        shuffle=whole.shuffle if of_others else isinstance(whole, RandomSampler),
        seed=seed,
        drop_last=loader.drop_last,
    )
    own = vars(loader)  # DataLoader lets its sampler be set in __init__ only
    if loader.batch_sampler is None:
        own["sampler"] = share
    elif type(loader.batch_sampler) is BatchSampler and loader.batch_size is not None:
        own.update(sampler=share, batch_sampler=BatchSampler(share, loader.batch_size, loader.drop_last))
    return loader
