"""What new workers would do to the samples of a program: a change is given up,
postponed, or reported.

A loader with a ``state_dict`` resumes training in the middle of an epoch. The state of
torchdata's StatefulDataLoader fits the number of workers that has made it, and
torchdata's own iterators save and load it. ``next_iter_state`` holds the state that the
next iterator begins with.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from nws_sweep.dataloading import loaders, objects, sharing
from nws_sweep.dataloading.fingerprints import fingerprint
from nws_sweep.online.plan import Plan
from nws_sweep.online.tuner import Tuner
from nws_sweep.records import LoaderSettings

_LOADED = "next_iter_state"
_HAS_OLD_DATASET = (
    "the dataset has been changed since its persistent workers were started"
)
_IS_CHANGED = "the dataset is changed within an epoch, which workers would not share"
_IS_LOCKED = "another thread of the program uses a lock of the dataset"
_LOCKED_S = 0.5  # for which it may
_IS_CUT = "with drop_last=True each worker leaves out the last samples of its shard"
_WHOLE = "dataset"  # place of a hash of the dataset among the lengths


class Safeguards:
    """Compares the dataset of one DataLoader, and the random numbers of the program,
    with what they were.

    Args:
        loader: A plain DataLoader.
        tuner: Of the DataLoader.
    """

    def __init__(self, loader: DataLoader[Any], tuner: Tuner) -> None:
        self._loader, self._tuner = loader, tuner
        self._may_draw = (
            not tuner.base.num_workers and loaders.shuffles_by_default_generator(loader)
        )
        self._copied = ""
        # a hash of the dataset that new workers have, of a program without workers
        self._started = ""
        # of the dataset of a program without workers, by their places
        self._containers: dict[str, Any] = {}
        # of the generator that shuffles, before a batch that may draw from it
        self._state: torch.Tensor | None = None
        # the tuner outlives the dataset of an epoch
        tuner.shared = _weakly(self._shared)

    def note_start(self, settings: LoaderSettings) -> None:
        """A pool with these settings is about to be made, with the dataset as it is."""
        self._copied = self._dataset_now()
        has_new_workers = settings.num_workers and not self._tuner.base.num_workers
        self._started = self._hash() if has_new_workers else ""
        if not self._tuner.batches:
            self._tuner.handles_at_start = sharing.places(self._loader)
        if not self._tuner.lengths:
            self._tuner.lengths = self._lengths_now()

    def note_end(self) -> None:
        """An epoch has ended: plain batches of a program without workers would have had
        what it changed meanwhile."""
        if self._started and self._started != self._hash():
            self._tuner.give_up(_IS_CHANGED)

    def plan(self, batch: int) -> Plan | None:
        """What ``Tuner.plan`` plans, if new workers may use the dataset, and would have
        the same as those in use; else the change waits, or is given up."""
        if self._waits_for_dataset():
            return None
        plan = self._tuner.plan(batch)
        if plan is None:
            return None
        if self._copied and self._copied != self._dataset_now():
            if batch:
                self._tuner.postpone(plan)
            else:
                self._tuner.decide(_HAS_OLD_DATASET)
            return None
        if reason := self._shared() or self._locked():
            self._tuner.decide(reason)
            return None
        return plan

    def _dataset_now(self) -> str:
        """A hash of the dataset; empty if its changes need not be noticed.

        Without workers a sample may change the dataset, and plain batches have each
        change of the program at once.
        """
        is_copied = self._tuner.base.num_workers and self._may_change
        return self._hash() if is_copied else ""

    def _hash(self) -> str:
        """A hash of what makes batches."""
        return fingerprint(self._loader.dataset, self._loader.collate_fn)

    @property
    def _may_change(self) -> bool:
        """Whether the settings may; those of a loader that does not train, which is
        known after an epoch, do not."""
        tuner = self._tuner
        if not tuner.changes_settings or tuner.tuning.is_decided:
            return False
        return tuner.epoch < 1 or tuner.may_change()

    def _locked(self) -> str:
        """Why workers, whose locks stay as they are when they are forked, might wait
        for ever."""
        with sharing.locks_held(self._loader, _LOCKED_S) as are_free:
            return "" if are_free else _IS_LOCKED

    def _shared(self) -> str:
        is_stream = isinstance(self._loader.dataset, IterableDataset)
        if is_stream and self._loader.drop_last:
            return _IS_CUT
        return sharing.reason_against_workers(
            self._loader, self._tuner.handles_at_start
        )

    def _waits_for_dataset(self) -> bool:
        """Whether the settings stay for now, since samples that this process makes, or
        the program meanwhile, change the dataset.

        Workers would not have what is added to a cache or a buffer later. A change is
        possible once the dataset stays as it is, by what is observed from then on.
        """
        if self._tuner.batches == self._tuner.looked_after:
            return bool(self._tuner.held)  # no sample has been made since
        before, self._tuner.lengths = self._tuner.lengths, self._lengths_now()
        self._tuner.looked_after = self._tuner.batches
        why = ""
        for place, length in self._tuner.lengths.items():
            if not why and before.get(place, length) != length:
                what = "" if place == _WHOLE else f" ({place})"
                why = f"making samples changes the dataset{what}, which workers would not share"
        self._tuner.hold(why)
        return bool(why)

    def _lengths_now(self) -> dict[str, int]:
        """The lengths of the containers by their places, and a hash of the dataset;
        none if the program has workers, or nothing may change."""
        if self._tuner.base.num_workers or not self._may_change:
            return {}
        if not self._containers:
            self._containers = dict(objects.containers(self._loader.dataset))
        lengths = {place: len(values) for place, values in self._containers.items()}
        return {**lengths, _WHOLE: int(self._hash(), 16)}

    def before_batch(self, *, is_first: bool) -> None:
        """A batch is about to be made; the first one of an epoch draws for the
        order."""
        tuner, self._state = self._tuner, None
        is_without = not tuner.current.num_workers and not is_first
        if self._may_draw and is_without and not tuner.draws_shuffle:
            self._state = torch.default_generator.get_state()

    def after_batch(self) -> None:
        """The batch has been made."""
        if self._state is not None:
            state = torch.default_generator.get_state()
            self._tuner.draws_shuffle = not torch.equal(self._state, state)


def _weakly(method: Callable[[], str]) -> Callable[[], str]:
    """The method of an object that may be gone; it gives an empty text then."""
    reference = weakref.WeakMethod(method)

    def call() -> str:
        alive = reference()
        return alive() if alive else ""

    return call


def saves_by_iterators(loader: DataLoader[Any]) -> bool:
    """Whether the iterators of the loader save its state and load it."""
    return _LOADED in vars(loader)


def reason_of_state(loader: DataLoader[Any]) -> str:
    """Why the number of workers must stay because of the loader's state; empty if it
    may change."""
    if not hasattr(type(loader), "state_dict") or saves_by_iterators(loader):
        return ""
    return f"the state_dict() of {type(loader).__name__} needs the same num_workers; tune() and search() find another"


def loaded_workers(loader: DataLoader[Any]) -> int | None:
    """The number of workers for which the loaded state was saved; None without a loaded
    state."""
    state = vars(loader).get(_LOADED)
    if not state:
        return None
    snapshot = state.get("_snapshot")
    return int(snapshot["_main_snapshot"]["_num_workers"]) if snapshot else 0


def forget_loaded(loader: DataLoader[Any]) -> None:
    """An iterator has begun with the loaded state: the next one begins an epoch."""
    if saves_by_iterators(loader):
        vars(loader)[_LOADED] = None
