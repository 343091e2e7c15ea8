"""The private names of torch: no other module of the package reads, sets or calls one.
Torch is imported on use.

Other modules define two that torch calls: ``_get_iterator`` of a DataLoader and
``_reset`` of an iterator.
"""

import functools
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

# the method by which a DataLoader makes an iterator over an epoch
GET_ITERATOR = "_get_iterator"
# torchdata's: whether ``state_dict`` has made the next iterator already
_OF_STATE = "_initial_iter_for_state_dict"
# What autotune needs: the owner, as for ``pkgutil.resolve_name``, and names of it or
# of its instances.
NAMES: Mapping[str, Sequence[str]] = {
    "torch.utils.data:DataLoader": (
        GET_ITERATOR,
        "_iterator",
        "_IterableDataset_len_called",
    ),
    "torch.utils.data.dataloader:_MultiProcessingDataLoaderIter": (
        "_reset",
        "_shutdown_workers",
        "_worker_pids_set",
        "_workers",
    ),
    "torch.utils.data._utils.fetch": ("_IterableDatasetFetcher", "_MapDatasetFetcher"),
    "torch.utils.data._utils.signal_handling": (
        "_remove_worker_pids",
        "_set_worker_pids",
    ),
    "torch.distributed.distributed_c10d": ("_get_default_store",),
}


@functools.cache
def missing_names() -> tuple[str, ...]:
    """Those of ``NAMES`` that this torch does not have; without them, autotune does not
    change a loader."""
    from torch import distributed

    owners = [
        owner
        for owner in NAMES
        if distributed.is_available() or "distributed" not in owner
    ]
    missing = (
        (owner, name)
        for owner in owners
        for name in sorted({*NAMES[owner]} - _names_of(owner))
    )
    return tuple(f"{owner.replace(':', '.')}.{name}" for owner, name in missing)


def _names_of(owner: str) -> set[str]:
    """Names of a module or class, and those that its functions use: methods set the
    attributes of instances."""
    try:
        module_or_class: Any = pkgutil.resolve_name(owner)
    except (ImportError, AttributeError):
        return set()
    names: set[str] = set()
    for namespace in getattr(module_or_class, "__mro__", [module_or_class]):
        for name, member in vars(namespace).items():
            names.add(name)
            # ``isinstance`` would read attributes, of which some warn
            if type(member) is FunctionType:
                names.update(member.__code__.co_names)
    return names


@functools.cache
def iterator_class() -> Any:
    """For ``isinstance``: the class of all iterators of DataLoaders; no class if this
    torch does not have it."""
    from torch.utils.data import dataloader

    return getattr(dataloader, "_BaseDataLoaderIter", ())


def is_iterator(value: Any) -> bool:
    """Whether the object can begin an epoch, as all iterators of DataLoaders, and is
    neither dataset nor sampler."""
    from torch.utils.data import Dataset, Sampler

    begins_epochs = hasattr(type(value), "_reset") and hasattr(type(value), "__next__")
    return begins_epochs and not isinstance(value, Dataset | Sampler)


def new_iterator(loader: Any) -> Any:
    """An iterator over one epoch of a DataLoader, or over all epochs with persistent
    workers; draws a seed."""
    return getattr(loader, GET_ITERATOR)()


def makes_own_iterators(loader: Any) -> bool:
    """Whether the class of a DataLoader makes custom iterators, such as torchdata's
    StatefulDataLoader."""
    from torch.utils.data import DataLoader

    return getattr(type(loader), GET_ITERATOR) is not getattr(DataLoader, GET_ITERATOR)


def forget_iterator(loader: Any) -> None:
    """Makes a DataLoader, or a copy, start new workers for its next epoch, though they
    are persistent."""
    vars(loader)["_iterator"] = vars(loader)["_IterableDataset_len_called"] = None
    if _OF_STATE in vars(loader):
        vars(loader)[_OF_STATE] = False


def begin_epoch(iterator: Any, loader: Any) -> None:
    """Makes an iterator begin another epoch, as persistent workers do; ``iter`` of the
    sampler is called."""
    iterator._reset(loader)


def _with_workers(iterator: Any) -> Any:
    """The iterator that has the workers, which one of another class may wrap, as
    PyTorch Geometric's does; or None."""
    while iterator is not None and not hasattr(iterator, "_workers"):
        iterator = getattr(iterator, "iterator", None)
    return iterator


def workers(iterator: Any) -> Any:
    """The worker processes of an iterator, a sequence; none with ``num_workers=0``."""
    return getattr(_with_workers(iterator), "_workers", ())


def end_workers(iterator: Any) -> None:
    """Ends the workers of an iterator, if it has some."""
    with_workers = _with_workers(iterator)
    if with_workers is not None:
        with_workers._shutdown_workers()


def raise_at_exit(iterator: Any, *, is_wanted: bool) -> None:
    """Says whether the exit of a worker of this iterator raises an error in this
    process, as it does at first."""
    from torch.utils.data import _utils

    handling: Any = _utils.signal_handling
    if is_wanted and not iterator._worker_pids_set:
        handling._set_worker_pids(
            id(iterator), tuple(worker.pid for worker in workers(iterator))
        )
    elif not is_wanted:
        handling._remove_worker_pids(id(iterator))
    iterator._worker_pids_set = is_wanted


def fetchers() -> tuple[Any, Any]:
    """The classes whose ``fetch`` makes a batch: of a map-style dataset, of an iterable
    one."""
    from torch.utils.data._utils import fetch

    return fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher


def fetch_of(loader: Any) -> Callable[[Any], Any]:
    """The function that makes a batch of a map-style dataset in this process, of its
    index list."""
    fetcher, _ = fetchers()
    makes_batches = loader.batch_sampler is not None
    fetch: Callable[[Any], Any] = fetcher(
        loader.dataset, makes_batches, loader.collate_fn, drop_last=False
    ).fetch
    return fetch


def default_store() -> Any:
    """The key-value store of the process group of torch.distributed."""
    from torch.distributed import distributed_c10d

    return distributed_c10d._get_default_store()


def collate_functions() -> Any:
    """The functions of ``default_collate`` for classes; its documentation names this
    table for extensions."""
    from torch.utils.data._utils import collate

    return collate.default_collate_fn_map
