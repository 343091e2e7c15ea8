"""Iterates over one DataLoader, with one pool of workers after another."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from nws_sweep.dataloading import loaders, objects
from nws_sweep.dataloading.fingerprints import fingerprint
from nws_sweep.dataloading.recording import run_delay_clock
from nws_sweep.errors import one_line
from nws_sweep.measurement.timing import tensor_sizes
from nws_sweep.online.index_stream import IndexStream
from nws_sweep.online.observation import Moment, Observation
from nws_sweep.online.plan import Plan
from nws_sweep.online.pool import Pool
from nws_sweep.online.tuner import REPEATED, Tuner
from nws_sweep.results import LoaderSettings


@dataclass(eq=False)
class _Change:
    """A change of settings under way: the next pool, and the longest time that the training has waited meanwhile."""

    plan: Plan
    pool: Pool
    draws: bool = False  # the pool has taken over the index lists; the one before has only what it has drawn
    longest_wait_s: float = 0.0


class TunedIterator:
    """What ``iter`` of a tuned loader returns; with persistent workers it serves all epochs, as torch's own does.

    Args:
        loader: A plain copy of the DataLoader.
        tuner: Of the DataLoader.
        batches: Length of an epoch; None if it is unknown.
    """

    def __init__(self, loader: DataLoader[Any], tuner: Tuner, batches: int | None) -> None:
        self._tuner, self._batches, self._delay_s = tuner, batches, run_delay_clock()
        self._loader, self._stream = loader, IndexStream(loaders.index_sampler(loader))
        self._change: _Change | None = None
        self._observation: Observation | None = None
        self._is_iterable = isinstance(loader.dataset, IterableDataset)
        self._may_draw = not tuner.base.num_workers and loaders.shuffles_by_default_generator(loader)
        self._made_of = ""
        self._pool: Pool
        self._begin_epoch(lambda: self._new_pool(tuner.current, is_first=True))

    def __getattr__(self, name: str) -> Any:
        """Attributes of the iterators of a DataLoader's class, such as ``state_dict``."""
        if name == "_pool":  # not yet set
            raise AttributeError(name)
        return getattr(self._pool.iterator, name)

    def _new_pool(self, settings: LoaderSettings, *, is_first: bool = False) -> Pool:
        self._made_of = self._dataset_now()
        return Pool(self._loader, settings, self._stream, is_first=is_first, seeds=bool(self._tuner.own_generators))

    def _reset(self, loader: DataLoader[Any]) -> None:
        """Called by DataLoader before another epoch with persistent workers, and draws no seed, as torch's own."""
        restore = loaders.order_restorer(self._loader)
        try:
            self._abandon()
            self._begin_epoch(self._next_pool)
        except Exception as error:  # the epoch begins with the program's own settings
            with contextlib.suppress(Exception):
                self._tuner.give_up(one_line(f"an epoch could not begin: {type(error).__name__}: {error}"))
            self._pool.end()
            self._observation = None
            restore()
            self._pool = self._new_pool(self._tuner.base)
            self._pool.begin_epoch()
            self._start_counting(None)

    def _begin_epoch(self, make: Callable[[], Pool]) -> None:
        self._try(self._change_between_epochs)
        began_s, restore = time.perf_counter(), loaders.order_restorer(self._loader)
        self._pool = make()
        while not self._has_started():
            self._pool.end()
            restore()
            self._pool = make()
        self._start_counting(self._tuner.most_batches)
        self._tuner.epoch += 1
        self._epoch = self._tuner.epoch
        self._try(self._observe, time.perf_counter() - began_s)

    def _start_counting(self, most_batches: int | None) -> None:
        self._returned, self._most_batches = 0, most_batches

    def _change_between_epochs(self) -> None:
        plan = self._tuner.plan(0, self._batches)
        if plan is not None and self._has_dataset_changed():
            self._tuner.decide("the dataset has been changed since its persistent workers were started")
        elif plan is not None and self._is_safe(plan):  # no second pool is needed
            self._tuner.switched(plan, 0, 0.0)

    def _is_safe(self, plan: Plan) -> bool:
        """Whether workers can be forked from a program that had none; decides if they can't."""
        is_first = not self._tuner.base.num_workers and plan.settings.num_workers
        is_shared = is_first and loaders.start_method(self._loader) == "fork"
        found = ", ".join(objects.handles((), self._loader.dataset)) if is_shared else ""
        if found:
            self._tuner.decide(f"forked workers would share {found}; with num_workers=1 a worker opens it")
        return not found

    def _dataset_now(self) -> str:
        """A hash of the dataset that workers of the program have copied; empty if changes of it need not be noticed.

        Without workers a sample may change the dataset, and plain batches have each change of the program at once.
        """
        is_copied = self._tuner.base.num_workers and not self._tuner.tuning.is_decided
        return fingerprint(self._loader.dataset) if is_copied else ""

    def _has_dataset_changed(self) -> bool:
        """Whether new workers would have another dataset than those in use."""
        return bool(self._made_of) and self._made_of != self._dataset_now()

    def _next_pool(self) -> Pool:
        """The same pool, or another one if it has ended or the settings have changed; it begins an epoch."""
        if self._pool.has_ended or self._pool.settings != self._tuner.current:
            self._pool.end()
            self._pool = self._new_pool(self._tuner.current)
        self._pool.begin_epoch()
        return self._pool

    def _has_started(self) -> bool:
        """Whether the workers can make batches. If not, changes the settings: as many as can, or those before."""
        if self._pool.settings == self._tuner.base:
            return True
        started, base, among = self._pool.started_workers(), self._tuner.base.num_workers, self._pool.distributes_among
        if among is not None and started > max(among, base):
            self._tuner.reject(max(among, base), REPEATED)
        elif started < self._pool.settings.num_workers:
            self._tuner.reject(started, self._pool.failure)
        return self._pool.settings == self._tuner.current

    def _try(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Does a part of the tuning. If it fails, the training goes on as it was, unless index lists are lost."""
        try:
            return step(*arguments)
        except Exception as error:
            change, self._observation = self._change, None
            if change is not None and not change.draws:
                if change.pool.feed.has_drawn:
                    raise
                self._abandon()
            with contextlib.suppress(Exception):
                self._tuner.fail(error)
            return None

    def _observe(self, start_s: float) -> None:
        self._tuner.worker_pids = self._pool.pids
        self._observation = self._tuner.observe(self._batches)
        if self._observation is not None:
            self._observation.begin(self._returned, start_s, self._pool.start_cpu_s)

    def __iter__(self) -> TunedIterator:
        return self

    def __len__(self) -> int:
        return len(self._stream.sampler)

    def __next__(self) -> Any:
        """The next batch, in the order of the sampler."""
        if self._observation is None and self._change is None:
            return self._next_batch()
        entered_s = time.perf_counter()
        if self._epoch != self._tuner.epoch:  # another iterator is followed
            self._observation = None
        self._try(self._advance)
        asked = self._try(lambda: (_moment(self._delay_s), self._random_state()))
        batch = self._next_batch()
        if asked is not None:
            self._try(self._note, entered_s, *asked, batch)
        return batch

    def _note(self, entered_s: float, asked: Moment, random_state: torch.Tensor | None, batch: Any) -> None:
        """A batch has been returned, which was asked for when torch's generator had this state."""
        given = _moment(self._delay_s)
        if random_state is not None:
            self._tuner.draws_shuffle = not torch.equal(random_state, torch.default_generator.get_state())
        if self._observation is not None:
            self._observation.given(asked, given, batch, tensor_sizes)
        if self._change is not None:
            self._change.longest_wait_s = max(self._change.longest_wait_s, given.clock_s - entered_s)
            self._complete()

    def _random_state(self) -> torch.Tensor | None:
        """The state of the generator that shuffles, if a batch may draw from it; its first one is for the order."""
        may_draw = self._may_draw and self._returned and not self._pool.settings.num_workers
        return torch.default_generator.get_state() if may_draw and not self._tuner.draws_shuffle else None

    def _next_batch(self) -> Any:
        if self._returned == self._most_batches:
            self._try(self._tuner.notice_epoch, self._returned)
            self._pool.end()
            raise StopIteration
        while True:
            try:
                batch = self._pool.next_batch()
            except StopIteration:
                if self._change is None or not self._change.draws or self._pool is self._change.pool:
                    self._try(self._end_epoch)
                    raise
                self._pool.end()
                self._pool = self._change.pool
            else:
                self._returned += 1
                self._tuner.batches += 1
                return batch

    def _end_epoch(self) -> None:
        """The end of the workers is a part of the epoch: the clock is read after it."""
        if self._change is not None:
            self._tuner.postpone(self._change.plan)
        self._abandon()
        if self._observation is not None:
            self._cut(has_ended=True)
            self._observation = None
        if self._is_iterable:
            self._tuner.notice_epoch(self._returned)

    def _cut(self, *, has_ended: bool = False) -> None:
        self._tuner.distributes_among = self._pool.distributes_among
        if self._observation is not None:
            log = self._pool.log
            records, start_s = (log.new(), log.start_s) if log else ((), None)
            self._observation.cut(records, start_s, time.perf_counter() if has_ended else None)

    def _advance(self) -> None:
        """Between two batches: ends windows of the observation, begins a change and goes on with it."""
        seen = self._observation
        if seen is not None:
            seen.asked(_moment(self._delay_s))
            if seen.ends_warm_up or seen.ends_window:
                self._cut()
                self._plan()
        change = self._change
        if change is None or change.draws or self._returned < change.plan.batch:
            return
        if failure := change.pool.failure:
            self._abandon()
            self._tuner.decide(f"num_workers={change.plan.settings.num_workers} could not be started: {failure}")
        elif change.pool.is_ready:
            self._observation = None
            self._pool.feed.is_open = False
            change.pool.take_over()
            change.draws = True

    def _plan(self) -> None:
        """Begins a change if there is a plan."""
        plan = self._tuner.plan(self._returned, self._batches) if self._change is None else None
        if plan is not None and self._has_dataset_changed():
            self._tuner.postpone(plan)
        elif plan is not None and self._is_safe(plan):
            self._change = _Change(plan, self._new_pool(plan.settings))
        if self._tuner.tuning.is_decided or self._tuner.planned is not None:  # to observe takes time
            self._observation = None

    def _complete(self) -> None:
        """The first batch of the new pool has been returned."""
        change = self._change
        if change is not None and self._pool is change.pool:
            self._change = None
            self._tuner.switched(change.plan, self._returned - 1, change.longest_wait_s)
            self._observe(0.0)

    def _abandon(self) -> None:
        """Ends a pool that has not returned a batch; one that draws index lists already has become the current one."""
        change, self._change = self._change, None
        if change is not None and change.pool is not self._pool:
            change.pool.end()
            self._pool.feed.is_open = True


def _moment(delay_s: Callable[[], float]) -> Moment:
    return Moment(time.perf_counter(), time.process_time(), delay_s())
