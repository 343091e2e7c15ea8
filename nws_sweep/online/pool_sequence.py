"""The pool that makes the batches of a DataLoader, and the next one while a change of
settings is under way."""

import contextlib
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader

from nws_sweep.dataloading import loaders
from nws_sweep.errors import one_line
from nws_sweep.online.index_stream import IndexStream
from nws_sweep.online.plan import Plan
from nws_sweep.online.pool import Pool
from nws_sweep.online.safeguards import Safeguards, loaded_workers
from nws_sweep.online.texts import REPEATED
from nws_sweep.online.tuner import Tuner, is_at_its_best
from nws_sweep.records import LoaderSettings
from nws_sweep.system import torch_internals

_WAITS_FOR_LOOP = "its sampler gives the next indices only after the training loop has used the batch before"


@dataclass(eq=False)
class Change:
    """A change of settings under way, and the next pool."""

    plan: Plan
    pool: Pool
    # the pool has taken over the index lists; the one before has only what it has drawn
    draws: bool = False


class PoolSequence:
    """One pool after another over the same index lists.

    Args:
        loader: A plain copy of the DataLoader.
        tuner: Of the DataLoader.

    Attributes:
        stream: Index lists of the epoch.
        current: The pool that makes the batches; there is none before ``start``.
        change: Under way; None if there is none.
        safeguards: Of the DataLoader.
    """

    current: Pool

    def __init__(self, loader: DataLoader[Any], tuner: Tuner) -> None:
        self._loader, self._tuner = loader, tuner
        pause_every = 0 if tuner.base.num_workers else tuner.endless_batches
        self.stream = IndexStream(loaders.index_sampler(loader), pause_every)
        self.change: Change | None = None
        self._start_s: float | None = None  # of workers whose first batch is awaited
        self.safeguards = Safeguards(loader, tuner)

    def make(self, settings: LoaderSettings, *, is_first: bool = False) -> Pool:
        """Another pool; the first one begins an epoch."""
        with contextlib.suppress(Exception):  # the pool may be the only one that works
            self.safeguards.note_start(settings)
        return Pool(
            self._loader,
            settings,
            self.stream,
            is_first=is_first,
            times_stages=not self._tuner.tuning.is_decided,
            rehearsal=self._tuner.made_without_workers,
        )

    def expect(self, batch: int) -> None:
        """The training loop requests this batch of the epoch, from 0: lists that a
        plain loader would have drawn before, and once it has returned the batch."""
        queued = self._tuner.base.queued_batches
        self.stream.due, self.stream.due_after = (
            batch + max(1, queued),
            batch + 1 + queued,
        )

    def end_epoch(self) -> None:
        """All batches of the epoch have been returned."""
        if self.change is not None:
            self._tuner.postpone(self.change.plan)
        self.abandon()
        self.safeguards.note_end()

    def change_between_epochs(self) -> None:
        """Changes the settings if there is a plan; no second pool is needed."""
        self.stream.due = self._tuner.base.queued_batches
        if plan := self.safeguards.plan(0):
            self._tuner.switched(plan, 0)

    def change_within_epoch(self, batch: int) -> None:
        """Starts another pool if there is a plan, which takes over when it is ready."""
        if self.change is None and (plan := self.safeguards.plan(batch)):
            self.change = Change(plan, self.make(plan.settings))

    def start(self) -> tuple[float, float]:
        """Begins an epoch; with fewer workers or earlier settings if not all can start.

        Returns:
            The seconds that it took, and those of them in the sampler.
        """
        before = vars(self).get("current")
        restore = loaders.order_restorer(self._loader)
        began_s, drawn_before_s = time.perf_counter(), self.stream.sampler_clock.spent_s
        self.current = self._next(before)
        while not self._has_started():
            self.current.end()
            restore()
            self.current = self._next(before)
        start_s = time.perf_counter() - began_s
        drawn_s = self.stream.sampler_clock.spent_s - drawn_before_s
        workers = self.current.settings.num_workers
        is_start = workers > 0 and self.current is not before
        # a sampler of the program may raise anything when it is looked at
        with contextlib.suppress(Exception):
            reason = loaders.reason_not_training(self._loader)
            self._tuner.time.begin_epoch(reason, workers, is_start=is_start)
            self._start_s = start_s - drawn_s if is_start else None
        return start_s, drawn_s

    def _next(self, before: Pool | None) -> Pool:
        """The first pool; in later epochs the same, or another one if it has ended or
        the settings have changed."""
        if before is None:
            return self.make(self._tuner.current, is_first=True)
        settings = self.current.settings
        # Without workers, an iterator of torch does not begin a stream again.
        is_usable = settings.num_workers and not self.current.has_ended
        if settings != self._tuner.current or not is_usable:
            self.current.end()
            self.current = self.make(self._tuner.current)
        self.current.begin_epoch()
        return self.current

    def _has_started(self) -> bool:
        """Whether the workers can make batches. If not, keeps those that can, or
        restores the settings before."""
        pool, base = self.current, self._tuner.base
        # a state fits no other number
        if pool.settings == base or loaded_workers(self._loader) is not None:
            return True
        started, among = pool.started_workers(), pool.distributes_among
        if among is not None and started > max(among, base.num_workers):
            self._tuner.reject(max(among, base.num_workers), REPEATED)
        elif started < pool.settings.num_workers:
            self._tuner.reject(started, pool.failure)
        return pool.settings == self._tuner.current

    def next_batch(self) -> Any:
        """The next batch; StopIteration at the end of the epoch."""
        while True:
            asked_s, repeat = time.perf_counter(), None
            try:
                batch = self.current.next_batch()
            except StopIteration:
                if not self._continues(asked_s):
                    raise
                continue
            except Exception as error:
                _give_up_after(self.current.settings, self._tuner, error)
                repeat = _repetition(self._loader, self.current)
                if repeat is None:
                    raise
            if repeat is not None:  # not during the other error
                return repeat()
            if self._start_s is not None:
                waited_s = max(0.0, self.current.first_began_s - asked_s)
                self._tuner.time.starting_s += self._start_s + waited_s
                self._start_s = None
            return batch

    def _continues(self, asked_s: float) -> bool:
        """Whether the epoch continues where the current pool has ended, since
        ``asked_s``: with another pool, or after a pause."""
        change, stream = self.change, self.stream
        if self.current.settings.num_workers:  # they have been ended
            self._tuner.time.starting_s += time.perf_counter() - asked_s
        if change is not None and change.draws and self.current is not change.pool:
            self.current.end()
            self.current = change.pool
        elif stream.was_given_up:
            stream.was_given_up = False
            self._tuner.give_up(_WAITS_FOR_LOOP)
            follower = self.make(self._tuner.current)
            follower.take_over()
            self.current.end()
            self.current = follower
        elif stream.was_paused:
            stream.was_paused = False
            self.current.take_over()
        else:
            return False
        return True

    def note_batch(self) -> None:
        """A batch has been made."""
        self.safeguards.after_batch()
        self._tuner.distributes_among = self.current.distributes_among
        if not self._tuner.base.num_workers and not self.current.settings.num_workers:
            self._tuner.made_without_workers = self.stream.latest

    def hand_over(self, batch: int) -> bool:
        """Whether the pool of a change takes over the index lists before a batch: all
        its workers are ready."""
        change = self.change
        if change is None or change.draws or batch < change.plan.batch:
            return False
        if failure := change.pool.failure:
            self.abandon()
            workers = change.plan.settings.num_workers
            reason = f"num_workers={workers} could not be started: {failure}"
            # other ranks may have the settings of the plan
            if self._tuner.others is None and is_at_its_best(self._tuner):
                self._tuner.decide(reason)
            else:
                self._tuner.give_up(reason)
        elif change.pool.is_ready:
            self.current.feed.is_open = False
            change.pool.take_over()
            change.draws = True
        return change.draws

    def abandon(self) -> None:
        """Ends a pool that has not returned a batch; one that draws index lists already
        has become the current one."""
        change, self.change = self.change, None
        if change is not None and change.pool is not self.current:
            self.current.feed.is_open = True
            change.pool.end()


def _repetition(loader: DataLoader[Any], pool: Pool) -> Callable[[], Any] | None:
    """How a batch that failed in a worker is made again in this process: a program
    without workers has its own error then, or none.

    None if the program has workers, too, or if the index list of the batch is unknown.
    """
    is_known = pool.settings.in_order and pool.feed.taken is not None
    if loader.num_workers or not pool.pids or pool.failure or not is_known:
        return None
    return functools.partial(torch_internals.fetch_of(loader), pool.feed.taken)


def _give_up_after(settings: LoaderSettings, tuner: Tuner, error: Exception) -> None:
    """After an error with other settings than the program's, it has its own from the
    next epoch on; they may be its own after an earlier error of the epoch."""
    if tuner.base in {settings, tuner.current}:
        return
    # the program gets the error, whatever happens here
    with contextlib.suppress(Exception):
        text = (
            f"{type(error).__name__} with num_workers={settings.num_workers}: {error}"
        )
        tuner.give_up(one_line(text))
