"""States by which a training resumes in the middle of an epoch, of loaders that have ``state_dict``.

The state of torchdata's StatefulDataLoader fits the number of workers that has made it, and torchdata's own iterators
save and load it. ``next_iter_state`` holds the state that the next iterator begins with.
"""

from typing import Any

from torch.utils.data import DataLoader

_LOADED = "next_iter_state"


def is_of_iterators(loader: DataLoader[Any]) -> bool:
    """Whether the iterators of the loader save its state and load it."""
    return _LOADED in vars(loader)


def reason_to_stay(loader: DataLoader[Any]) -> str:
    """Why the number of workers must stay because of the loader's state; empty if it may change."""
    if not hasattr(type(loader), "state_dict") or is_of_iterators(loader):
        return ""
    return f"the state_dict() of {type(loader).__name__} is for its number of workers; tune() and search() find another"


def loaded_workers(loader: DataLoader[Any]) -> int | None:
    """The number of workers for which the loaded state was saved; None without a loaded state."""
    state = vars(loader).get(_LOADED)
    if not state:
        return None
    snapshot = state.get("_snapshot")
    return int(snapshot["_main_snapshot"]["_num_workers"]) if snapshot else 0


def forget_loaded(loader: DataLoader[Any]) -> None:
    """An iterator has begun with the loaded state: the next one begins an epoch."""
    if is_of_iterators(loader):
        vars(loader)[_LOADED] = None
