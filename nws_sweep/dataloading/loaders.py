"""Makes DataLoaders with chosen settings from a dataset, or copies a DataLoader that
exists.

Only this module reads the settings of a DataLoader (``settings_of``) and sets them
(``with_settings``), for DataLoaders of the user, made by a function, and watched in a
program.
"""

import copy
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, TypeVar, cast

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from nws_sweep.dataloading import generators
from nws_sweep.dataloading.fingerprints import fingerprint
from nws_sweep.dataloading.generators import SeededGenerators
from nws_sweep.dataloading.orders import (
    BatchesInRuns,
    RotatedBatches,
    SamplerClock,
    TimedBatches,
)
from nws_sweep.errors import ConfigurationError, DatasetError, one_line
from nws_sweep.records import DEFAULT_PREFETCH, LoaderSettings
from nws_sweep.system import processes, torch_internals

AnyLoader = TypeVar("AnyLoader")
Loader = TypeVar("Loader", bound="DataLoader[Any]")
# batches held in memory, and their samples: 150 MB within a second
_MOST_LISTED, _MOST_INDICES = 100_000, 4_000_000
# A sampler that is listed takes less than this: once, and for each index, as many
# samplers written in Python do.
_LISTING_S, _LISTED_INDEX_S = 0.1, 2e-6


def settings_of(loader: DataLoader[Any], in_effect: bool = False) -> LoaderSettings:
    """Returns the settings of a DataLoader.

    DataLoader's default ``prefetch_factor`` is returned as None, so that the settings
    of a loader do not depend on whether it has workers; with ``in_effect``, as the
    number that the workers use. ConfigurationError if its workers are not processes.
    """
    context = loader.multiprocessing_context
    method = None if context is None else context.get_start_method()
    if method is not None and method not in multiprocessing.get_all_start_methods():
        raise ConfigurationError(
            f"the workers of this {type(loader).__name__} are not processes (multiprocessing_context={method!r}); "
            "must be fork, spawn or forkserver"
        )
    prefetch_factor = loader.prefetch_factor
    if prefetch_factor == DEFAULT_PREFETCH and not in_effect:
        prefetch_factor = None
    return LoaderSettings(
        batch_size=loader.batch_size,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        persistent_workers=loader.persistent_workers,
        drop_last=loader.drop_last,
        prefetch_factor=prefetch_factor,
        shuffle=isinstance(loader.sampler, RandomSampler),
        multiprocessing_context=method,
        timeout=float(loader.timeout),
        in_order=getattr(loader, "in_order", True),  # since torch 2.6
    )


# Why a DataLoader that is about to be iterated is probably not the training
# DataLoader, the strongest reason first.
NOT_TRAINING = ("gradients are disabled", "its order is fixed", "")


def reason_not_training(loader: DataLoader[Any]) -> str:
    """Returns one of ``NOT_TRAINING``, the last one if it may be the training
    DataLoader."""
    gradients_disabled, order_fixed, may_be_training = NOT_TRAINING
    if not torch.is_grad_enabled():
        return gradients_disabled
    sampler = _innermost_sampler(loader)
    draws_no_order = isinstance(sampler, SequentialSampler) or not getattr(
        sampler, "shuffle", True
    )
    if draws_no_order and not isinstance(loader.dataset, IterableDataset):
        return order_fixed
    return may_be_training


def is_shuffled(loader: DataLoader[Any]) -> bool:
    """Whether a sampler of torch draws a random order; custom samplers may give batches
    in any order."""
    sampler = _innermost_sampler(loader)
    if isinstance(sampler, DistributedSampler):
        return sampler.shuffle
    return isinstance(
        sampler, RandomSampler | SubsetRandomSampler | WeightedRandomSampler
    )


def shuffles_by_default_generator(loader: DataLoader[Any]) -> bool:
    """Whether the order of an epoch depends on what has been drawn from torch's default
    generator."""
    sampler = _innermost_sampler(loader)
    if isinstance(sampler, SequentialSampler | DistributedSampler) or isinstance(
        loader.dataset, IterableDataset
    ):
        return False
    return getattr(sampler, "generator", None) is None


def order_restorer(loader: DataLoader[Any]) -> Callable[[], None]:
    """Returns a function that restores the generators of the order of an epoch, to
    begin the epoch once more."""
    of_sampler = getattr(_innermost_sampler(loader), "generator", None)
    states: dict[torch.Generator, torch.Tensor] = {}
    for generator in (torch.default_generator, loader.generator, of_sampler):
        if isinstance(generator, torch.Generator):
            states[generator] = generator.get_state()

    def restore() -> None:
        for generator, state in states.items():
            generator.set_state(state)

    return restore


def _innermost_sampler(sampler: Any) -> Any:
    for name in ("batch_sampler", "sampler"):
        inner = getattr(sampler, name, None)
        if inner is not None:
            return _innermost_sampler(inner)
    return sampler


def with_settings(loader: AnyLoader, settings: LoaderSettings) -> AnyLoader:
    """Returns a copy of a DataLoader, of the same class, with other settings.

    An object that wraps a DataLoader, such as the loaders of accelerate and webdataset,
    is copied too. The copy shares dataset, sampler, generator, collate_fn,
    worker_init_fn and the attributes of a subclass with the loader. Iterators in
    attributes (some subclasses keep one, to keep its workers) are made again. The
    settings are canonical; ``shuffle`` is ignored, since the sampler decides. If the
    number of workers changes, they seed the dataset's own random number generators.
    ConfigurationError if another object makes batches of another size.
    """
    copied = copy_with(unwrapped(loader), settings)
    renew_iterators(copied)
    return with_inner(loader, copied)


def renew_iterators(loader: DataLoader[Any]) -> bool:
    """Makes the iterators in attributes of a copy again, without drawing from the
    program's random numbers.

    Their workers start at once, with the loader as it is now. Returns whether there are
    any.
    """
    names = _kept_iterators(loader)
    for name in names:
        restore = order_restorer(loader)
        vars(loader)[name] = torch_internals.new_iterator(loader)
        restore()
    return bool(names)


def with_inner(loader: AnyLoader, inner: DataLoader[Any]) -> AnyLoader:
    """Returns ``inner`` for a DataLoader; for an object that wraps a DataLoader, a copy
    that wraps ``inner``."""
    wrapped = _wrapped(loader)
    if wrapped is None:
        return cast("AnyLoader", inner)
    name, before = wrapped
    changed = with_inner(before, inner)
    value: Any = changed
    if isinstance(vars(loader)[name], list):
        value = [
            changed if element is before else element for element in vars(loader)[name]
        ]
    # copy.copy would call __getattr__, which may need the DataLoader
    wrapper = object.__new__(type(loader))
    vars(wrapper).update(vars(loader))
    vars(wrapper)[name] = value
    return wrapper


def unwrapped(loader: Any) -> DataLoader[Any]:
    """Returns the DataLoader itself, or the DataLoader in a wrapper; ConfigurationError
    if there is none or several."""
    wrapped = _wrapped(loader)
    if wrapped is not None:
        return unwrapped(wrapped[1])
    if not isinstance(loader, DataLoader):
        raise ConfigurationError(
            f"{type(loader).__name__}: must be a DataLoader, or an object that wraps one; "
            "search() takes a dataset or a LightningDataModule"
        )
    return loader


def untuned(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Returns the loader itself, or what it was before ``autotune`` or ``watch``."""
    if not hasattr(type(loader), "tuning"):
        return loader
    plain: DataLoader[Any] = cast("Any", loader).plain()
    return plain


def is_loader(value: object) -> bool:
    """Whether the object is a DataLoader, or has a DataLoader in an attribute and is no
    map-style dataset."""
    is_map_style = (
        getattr(type(value), "__getitem__", Dataset.__getitem__)
        is not Dataset.__getitem__
    )
    return isinstance(value, DataLoader) or (
        not is_map_style and _wrapped(value) is not None
    )


def _wrapped(wrapper: Any) -> tuple[str, DataLoader[Any]] | None:
    """Returns the DataLoader in an attribute, or in a list in an attribute, with the
    name of the attribute."""
    if (
        isinstance(wrapper, DataLoader)
        and type(wrapper).__iter__ is DataLoader.__iter__
    ):
        return None  # it is the loader, even if its attributes hold DataLoaders
    inner: list[tuple[str, DataLoader[Any]]] = []
    for name, value in getattr(wrapper, "__dict__", {}).items():
        for element in value if isinstance(value, list) else [value]:
            if isinstance(element, DataLoader):
                inner.append((name, element))
    if len(inner) > 1:
        names = ", ".join(dict(inner))
        raise ConfigurationError(
            f"{type(wrapper).__name__} has {len(inner)} DataLoaders ({names}): tune each of them"
        )
    return inner[0] if inner else None


def without_workers(loader: Loader) -> Loader:
    """Returns a copy without workers, to be pickled or passed to ``with_settings``, not
    to be iterated.

    No iterator is made for it, since that would draw from the random numbers of the
    program.
    """
    copied = copy_with(loader, settings_of(loader).with_workers(0))
    leave_out_iterators(copied)
    return copied


def leave_out_iterators(loader: DataLoader[Any]) -> None:
    """Replaces the iterators in attributes of a loader that is not iterated, so that
    they end with the original."""
    vars(loader).update(dict.fromkeys(_kept_iterators(loader), KeptIterator()))


def copy_with(loader: Loader, settings: LoaderSettings) -> Loader:
    """Returns a copy of a DataLoader as by ``with_settings``, with the loader's
    iterators in attributes.

    ``renew_iterators`` or ``leave_out_iterators`` must follow.
    """
    copied = copy.copy(loader)
    # DataLoader.__setattr__ refuses some attributes after __init__
    attributes = vars(copied)
    for name in (
        "num_workers",
        "pin_memory",
        "prefetch_factor",
        "persistent_workers",
        "timeout",
        "in_order",
    ):
        if name in attributes:
            attributes[name] = getattr(settings, name)
    if settings.num_workers:
        attributes["prefetch_factor"] = settings.prefetched
    torch_internals.forget_iterator(copied)
    # may be an object of the user's class
    context: Any = loader.multiprocessing_context
    if (
        context is None
        or context.get_start_method() != settings.multiprocessing_context
    ):
        context = settings.multiprocessing_context
    copied.multiprocessing_context = context
    if (settings.batch_size, settings.drop_last) != (
        loader.batch_size,
        loader.drop_last,
    ):
        _set_batch_size(copied, settings.batch_size, settings.drop_last)
    if settings.num_workers not in (0, loader.num_workers) and generators.of_loader(
        loader
    ):
        copied.worker_init_fn = SeededGenerators(
            loader.worker_init_fn, loader.collate_fn
        )
    return copied


def _set_batch_size(
    loader: DataLoader[Any], batch_size: int | None, drop_last: bool
) -> None:
    sampler = loader.batch_sampler
    if batch_size is None or type(sampler) is not BatchSampler:
        maker = "the dataset" if sampler is None else type(sampler).__name__
        raise ConfigurationError(
            f"batch_size={batch_size}: {maker} makes the batches of this DataLoader; must be null"
        )
    batches = BatchSampler(sampler.sampler, batch_size, drop_last)
    vars(loader).update(
        batch_size=batch_size, drop_last=drop_last, batch_sampler=batches
    )


class KeptIterator:
    """Placeholder for an iterator in an attribute of a loader that is not iterated, and
    in a pickled dataset."""

    def __next__(self) -> Any:
        """Says why a dataset that takes its samples from an inner DataLoader cannot
        make one."""
        why = "the dataset holds an iterator of a DataLoader, of which no other process can have a copy"
        raise TypeError(
            f"{why}; pass a function that makes both, such as lambda: DataLoader(...)"
        )


def batches_of_endless(loader: DataLoader[Any]) -> int:
    """Returns the batches of an epoch if the class of a plain loader takes epochs from
    one iterator, as ultralytics'.

    0 for other loaders, and if the length is unknown.
    """
    return 0 if type(loader).__iter__ is DataLoader.__iter__ else length(loader) or 0


def _kept_iterators(loader: DataLoader[Any]) -> list[str]:
    """Returns the names of the attributes that hold iterators."""
    names = []
    for name, value in vars(loader).items():
        if isinstance(value, KeptIterator) or torch_internals.is_iterator(value):
            names.append(name)
    return names


def start_method(loader: DataLoader[Any]) -> str:
    """Returns how a DataLoader starts its workers."""
    context = loader.multiprocessing_context
    return context.get_start_method() if context else processes.start_method()


def index_sampler(loader: DataLoader[Any]) -> Any:
    """Returns what a DataLoader iterates over: its batch sampler, or its sampler if it
    does not make batches."""
    return loader.sampler if loader.batch_sampler is None else loader.batch_sampler


def gives_samples(loader: DataLoader[Any]) -> bool:
    """Whether it gives single samples: of a map-style dataset, without a batch size, by
    a sampler of single keys.

    Reads one key of the sampler, without drawing from torch's random numbers.
    """
    if loader.batch_sampler is not None or isinstance(loader.dataset, IterableDataset):
        return False
    restore = order_restorer(loader)
    key = next(iter(loader.sampler), None)
    restore()
    return isinstance(key, Integral | str)


def samples_per_epoch(loader: DataLoader[Any]) -> int | None:
    """Returns the samples per epoch; None if unknown."""
    if isinstance(loader.dataset, IterableDataset):
        return length(loader.dataset)
    batches: Any = loader.batch_sampler
    if batches is None:
        return length(loader.sampler)
    return length(batches.sampler) if type(batches) is BatchSampler else None


def length(sized: Any) -> int | None:
    """Returns ``len`` of a dataset, sampler or loader; None if it has none, or returns
    a number that Python refuses."""
    try:
        return len(sized)
    except (TypeError, NotImplementedError, ValueError, OverflowError):
        return None


def check_length(dataset: Any) -> None:
    """Raises DatasetError if the length of a dataset is negative or too large for
    Python."""
    try:
        len(dataset)
    except (ValueError, OverflowError) as error:
        name = f"{type(dataset).__name__}.__len__()"
        raise DatasetError(
            one_line(f"{name}: {error}; must return an integer from 0 to {sys.maxsize}")
        ) from error
    except (TypeError, NotImplementedError):  # it has no length
        return


class Source:
    """Makes DataLoaders with chosen settings over one dataset.

    Args:
        dataset_or_loader: A dataset; or a DataLoader or its wrapper, which is copied
            and not iterated itself.
        seed: Seed of the order of the samples where no sampler of the user decides it;
            equal for all ranks.
        rank: The rank whose share of the samples is loaded.
        ranks: Number of ranks.

    Attributes:
        dataset: The dataset.
        settings: Of the DataLoader; None for a dataset.
    """

    def __init__(
        self, dataset_or_loader: Any, seed: int, rank: int = 0, ranks: int = 1
    ) -> None:
        self.dataset: Any = dataset_or_loader
        self.settings: LoaderSettings | None = None
        self._template: DataLoader[Any] | None = None
        if is_loader(dataset_or_loader):
            self._template = unwrapped(dataset_or_loader)
            self.settings = settings_of(self._template)
            self.dataset = self._template.dataset
        self._seed = seed
        self.rank, self._ranks = rank, ranks

    def fingerprint(self) -> str:
        """Returns the fingerprint of the dataset and the functions of the
        DataLoader."""
        template = self._template
        functions = (
            ()
            if template is None
            else (template.collate_fn, template.worker_init_fn, index_sampler(template))
        )
        return fingerprint(self.dataset, *functions)

    def unseeded_generators(self) -> tuple[str, ...]:
        """Returns places of random number generators of the dataset, unless a
        ``worker_init_fn`` may seed them."""
        loader: DataLoader[Any] = (
            DataLoader(self.dataset) if self._template is None else self._template
        )
        return () if loader.worker_init_fn else generators.of_loader(loader)

    @property
    def is_iterable(self) -> bool:
        """Whether it is an iterable dataset."""
        return isinstance(self.dataset, IterableDataset)

    def is_shuffled(self, settings: LoaderSettings) -> bool:
        """Whether a DataLoader with these settings has batches in a random order, as
        far as is known."""
        if self.is_iterable:
            return False
        return (
            settings.shuffle if self._template is None else is_shuffled(self._template)
        )

    @property
    def samples(self) -> int | None:
        """Samples per epoch, of all ranks if a sampler shares them among ranks; None if
        unknown."""
        if self._template is None or (
            self._ranks > 1 and isinstance(self._template.sampler, DistributedSampler)
        ):
            return length(self.dataset)
        return samples_per_epoch(self._template)

    def loader(
        self, settings: LoaderSettings, collate_fn: Callable[[list[Any]], Any] | None
    ) -> DataLoader[Any]:
        """Makes a DataLoader with these settings and the samples of this rank;
        ``renew_iterators`` must follow.

        ``shuffle`` is ignored for an iterable dataset and for a DataLoader of the user.
        """
        loader = (
            self._of_dataset(settings)
            if self._template is None
            else copy_with(self._template, settings)
        )
        if collate_fn is not None:
            loader.collate_fn = collate_fn
        if self._ranks > 1:
            _share_among_ranks(loader, self.rank, self._ranks, self._seed)
        return loader

    def _of_dataset(self, settings: LoaderSettings) -> DataLoader[Any]:
        keywords = settings.keywords
        if settings.in_order:  # since torch 2.6
            del keywords["in_order"]
        if self.is_iterable:
            del keywords["shuffle"]
        return DataLoader(
            self.dataset,
            generator=torch.Generator().manual_seed(self._seed),
            **keywords,
        )


def in_runs(
    loader: DataLoader[Any], queued_batches: int, place: float = 0.0
) -> BatchesInRuns | None:
    """Makes a DataLoader take batches from the whole epoch instead of its beginning;
    None if it already does.

    A random sampler does; an iterable dataset has one order, and so does a sampler that
    is not listed.
    """
    if loader.batch_sampler is None or isinstance(loader.dataset, IterableDataset):
        return None
    if isinstance(loader.sampler, RandomSampler):
        return None
    batches = _listed(loader.batch_sampler)
    if batches is None or len(batches) < 2:
        return None
    runs = BatchesInRuns(batches, queued_batches, place)
    replace_index_sampler(loader, runs)
    return runs


def _listed(sampler: Any) -> list[Any] | None:
    """Lists the batches of a sampler; None for too many, and for a sampler whose own
    time would be missing then.

    Such a sampler reads data, for example: the training loop waits for it, whatever the
    number of workers.
    """
    batches, indices = [], 0
    began_s = time.perf_counter()
    for batch in sampler:
        batches.append(batch)
        indices += length(batch) or 1
        if len(batches) > _MOST_LISTED or indices > _MOST_INDICES:
            return None
        if time.perf_counter() - began_s > _LISTING_S + indices * _LISTED_INDEX_S:
            return None
    return batches


def begin_at(loader: DataLoader[Any], place: float) -> Sequence[int]:
    """Makes the epochs of a DataLoader begin at a place, a share of the epoch; returns
    the order of its batches.

    An iterable dataset begins at its beginning. Its order is empty, and so is an order
    of unknown length.
    """
    batches = 0 if isinstance(loader.dataset, IterableDataset) else length(loader) or 0
    first = int(place * batches)
    if first == 0:
        return range(batches)
    replace_index_sampler(loader, RotatedBatches(index_sampler(loader), first))
    return [*range(first, batches), *range(first)]


def time_sampler(loader: DataLoader[Any]) -> SamplerClock:
    """Times the sampler of a DataLoader; an iterable dataset has none that takes
    time."""
    clock = SamplerClock()
    if not isinstance(loader.dataset, IterableDataset):
        replace_index_sampler(loader, TimedBatches(index_sampler(loader), clock))
    return clock


def replace_index_sampler(loader: DataLoader[Any], batches: Any) -> None:
    """Replaces what a DataLoader iterates over; DataLoader.__setattr__ refuses a
    sampler after __init__."""
    vars(loader)["sampler" if loader.batch_sampler is None else "batch_sampler"] = (
        batches
    )


def _share_among_ranks(
    loader: DataLoader[Any], rank: int, ranks: int, seed: int
) -> None:
    """Sets a DistributedSampler, unless the sampler or the dataset of the user shares
    the samples among ranks."""
    sampler: Any = loader.sampler
    if isinstance(loader.dataset, IterableDataset):
        return
    if type(sampler) is DistributedSampler and (sampler.num_replicas, sampler.rank) != (
        ranks,
        rank,
    ):
        shuffle = sampler.shuffle
    elif type(sampler) in {RandomSampler, SequentialSampler}:
        shuffle = isinstance(sampler, RandomSampler)
    else:
        return
    share: DistributedSampler[Any] = DistributedSampler(
        loader.dataset, ranks, rank, shuffle, seed, loader.drop_last
    )
    attributes = vars(loader)  # DataLoader.__setattr__ refuses a sampler after __init__
    if loader.batch_sampler is None:
        attributes["sampler"] = share
    elif type(loader.batch_sampler) is BatchSampler and loader.batch_size is not None:
        attributes["sampler"] = share
        attributes["batch_sampler"] = BatchSampler(
            share, loader.batch_size, loader.drop_last
        )
