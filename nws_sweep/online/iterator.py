"""Iterates over one DataLoader, with one pool of workers after another."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader

from nws_sweep.dataloading import loaders
from nws_sweep.dataloading.recording import run_delay_clock
from nws_sweep.errors import one_line
from nws_sweep.measurement.timing import tensor_sizes
from nws_sweep.online.index_stream import IndexStream
from nws_sweep.online.observation import Moment, Observation
from nws_sweep.online.plan import Plan
from nws_sweep.online.pool import Pool
from nws_sweep.online.tuner import Tuner


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
        self._stream = IndexStream(loaders.index_sampler(loader))
        self._new_pool = functools.partial(Pool, loader, stream=self._stream)
        self._change: _Change | None = None
        self._observation: Observation | None = None
        self._begin_epoch(lambda: self._new_pool(tuner.current, is_first=True))

    def _reset(self, loader: DataLoader[Any]) -> None:
        """Called by DataLoader before another epoch with persistent workers, and draws no seed, as torch's own."""
        self._abandon()
        self._begin_epoch(self._next_pool)

    def _begin_epoch(self, make: Callable[[], Pool]) -> None:
        if plan := self._tuner.plan(0, self._batches):  # between epochs, no second pool is needed
            self._tuner.switched(plan, 0, 0.0)
        began_s = time.perf_counter()
        self._pool = make()
        self._require_start()
        self._returned = 0
        self._tuner.epoch += 1
        self._epoch = self._tuner.epoch
        self._observe(time.perf_counter() - began_s)

    def _next_pool(self) -> Pool:
        """The same pool, or another one if the settings have changed; it begins an epoch."""
        if self._pool.settings != self._tuner.current:
            self._pool.end()
            self._pool = self._new_pool(self._tuner.current)
        self._pool.take_over(begins_epoch=True)
        return self._pool

    def _require_start(self) -> None:
        """Where not all workers of changed settings can make batches: takes as many as can, or the settings before."""
        while self._pool.settings != self._tuner.base:
            if (started := self._pool.started_workers()) == self._pool.settings.num_workers:
                return
            self._tuner.reject(started)
            self._pool = self._next_pool()

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
        try:
            self._advance()
        except Exception as error:  # the training goes on as it was, unless index lists are lost
            if self._change is not None and self._change.draws:
                raise
            self._abandon()
            self._observation = None
            self._tuner.decide(one_line(f"tuning failed: {type(error).__name__}: {error}"))
        asked = _moment(self._delay_s)
        batch = self._next_batch()
        given = _moment(self._delay_s)
        if self._observation is not None:
            self._observation.given(asked, given, batch, tensor_sizes)
        if self._change is not None:
            self._change.longest_wait_s = max(self._change.longest_wait_s, given.clock_s - entered_s)
            self._complete()
        return batch

    def _next_batch(self) -> Any:
        while True:
            try:
                batch = self._pool.next_batch()
            except StopIteration:
                if self._change is None or not self._change.draws or self._pool is self._change.pool:
                    self._end_epoch()
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
                plan = self._tuner.plan(self._returned, self._batches) if self._change is None else None
                if plan is not None:
                    self._change = _Change(plan, self._new_pool(plan.settings))
                elif self._tuner.tuning.is_decided or self._tuner.planned is not None:  # to observe takes time
                    self._observation = None
        change = self._change
        if change is None or change.draws or self._returned < change.plan.batch:
            return
        if failure := change.pool.failure:
            self._abandon()
            self._tuner.decide(f"num_workers={change.plan.settings.num_workers} could not be started: {failure}")
        elif change.pool.is_ready:
            self._observation = None
            self._pool.feed.is_open = False
            change.draws = True
            change.pool.take_over()

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


def _moment(delay_s: Callable[[], float]) -> Moment:
    return Moment(time.perf_counter(), time.process_time(), delay_s())
