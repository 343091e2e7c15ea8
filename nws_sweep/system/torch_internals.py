"""The private names of torch: no other module of the package reads, sets or calls one. Torch is imported on use.

Other modules define two that torch calls: ``_get_iterator`` of a DataLoader and ``_reset`` of an iterator.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Mapping, MutableMapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

GET_ITERATOR = "_get_iterator"  # the method by which a DataLoader makes an iterator over an epoch
# What autotune needs: the owner, as for ``pkgutil.resolve_name``, and names of it or of its instances.
NAMES: Mapping[str, Sequence[str]] = {
    "torch.utils.data:DataLoader": (GET_ITERATOR, "_index_sampler", "_iterator", "_IterableDataset_len_called"),
    "torch.utils.data.dataloader:_MultiProcessingDataLoaderIter": (
        "_base_seed", "_reset", "_shutdown_workers", "_worker_pids_set", "_workers",
    ),
    "torch.utils.data._utils.fetch": ("_IterableDatasetFetcher", "_MapDatasetFetcher"),
    "torch.utils.data._utils.signal_handling": ("_remove_worker_pids", "_set_worker_pids"),
    "torch.distributed.distributed_c10d": ("_get_default_store",),
}  # fmt: skip


@functools.cache
def missing_names() -> tuple[str, ...]:
    """Those of ``NAMES`` that this torch does not have; without them, autotune leaves a loader as it is."""
    from torch import distributed

    needed = {owner: set(names) for owner, names in NAMES.items()}
    if not distributed.is_available():
        del needed["torch.distributed.distributed_c10d"]
    missing = ((owner, name) for owner, names in needed.items() for name in sorted(names - _names_of(owner)))
    return tuple(f"{owner.replace(':', '.')}.{name}" for owner, name in missing)


def _names_of(owner: str) -> set[str]:
    """Names of a module; of a class, and those that its methods use, as instances get their attributes there."""
    try:
        found: Any = pkgutil.resolve_name(owner)
    except (ImportError, AttributeError):
        return set()
    if isinstance(found, ModuleType):
        return set(vars(found))
    members = [member for kind in found.__mro__ for member in vars(kind).items()]
    codes = [member.__code__ for _, member in members if isinstance(member, FunctionType)]
    return {name for name, _ in members}.union(*(code.co_names for code in codes))


@functools.cache
def iterator_class() -> Any:
    """For ``isinstance``: the class of all iterators of DataLoaders; no class if this torch does not have it."""
    from torch.utils.data import dataloader

    return getattr(dataloader, "_BaseDataLoaderIter", ())


def new_iterator(loader: Any) -> Any:
    """An iterator over one epoch of a DataLoader, or over all epochs with persistent workers; draws a seed."""
    return getattr(loader, GET_ITERATOR)()


def forget_iterator(loader: Any) -> None:
    """Makes a DataLoader, or a copy, start new workers for its next epoch, though they are persistent."""
    vars(loader)["_iterator"] = vars(loader)["_IterableDataset_len_called"] = None


def index_sampler(loader: Any) -> Any:
    """The sampler of a DataLoader that its iterators use: of batches, or of samples if it does not make batches."""
    return getattr(loader, "_index_sampler", None)


def begin_epoch(iterator: Any, loader: Any) -> None:
    """Makes an iterator begin another epoch, as persistent workers do; ``iter`` of the sampler is called."""
    iterator._reset(loader)


def base_seed(iterator: Any) -> int:
    """The number from which the workers of an iterator are seeded."""
    return int(iterator._base_seed)


def workers(iterator: Any) -> Sequence[Any]:
    """The worker processes of an iterator; none with ``num_workers=0``."""
    found: Sequence[Any] = getattr(iterator, "_workers", ())
    return found


def end_workers(iterator: Any) -> None:
    """Ends the workers of an iterator that has some."""
    iterator._shutdown_workers()


def raise_at_exit(iterator: Any, *, is_wanted: bool) -> None:
    """Says whether the exit of a worker of this iterator raises an error in this process, as it does at first."""
    from torch.utils.data import _utils

    handling: Any = _utils.signal_handling
    if is_wanted == iterator._worker_pids_set:
        return
    if is_wanted:
        handling._set_worker_pids(id(iterator), tuple(worker.pid for worker in workers(iterator)))
    else:
        handling._remove_worker_pids(id(iterator))
    iterator._worker_pids_set = is_wanted


def fetchers() -> tuple[Any, Any]:
    """The classes whose ``fetch`` makes a batch: of a map-style dataset, of an iterable one."""
    from torch.utils.data._utils import fetch

    return fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher


def default_store() -> Any:
    """The key-value store of the process group of torch.distributed."""
    from torch.distributed import distributed_c10d

    return distributed_c10d._get_default_store()


def collate_functions() -> MutableMapping[Any, Any]:
    """The functions of ``default_collate`` for classes; its documentation names this table for extensions."""
    from torch.utils.data._utils import collate

    return collate.default_collate_fn_map
