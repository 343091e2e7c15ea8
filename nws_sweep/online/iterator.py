"""Iterates over one DataLoader, and passes its waits and batches to the tuner."""

import contextlib
import functools
import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from nws_sweep.dataloading import device_clock, loaders
from nws_sweep.dataloading.clocks import run_delay_clock
from nws_sweep.dataloading.orders import SamplerClock
from nws_sweep.dataloading.windows import Device, Moment
from nws_sweep.errors import one_line
from nws_sweep.online.loader_clock import LoaderTime, loader_clock_of_thread
from nws_sweep.online.observation import TrainingTrial
from nws_sweep.online.pool import Pool
from nws_sweep.online.pool_sequence import PoolSequence
from nws_sweep.online.tuner import Tuner
from nws_sweep.online.waiting import Waiting


class LoaderIterator:
    """What programs expect of the iterator of a DataLoader, besides its batches;
    subclasses have these.

    Args:
        loader: A plain copy of the DataLoader.
        pools: The pools that make the batches.
    """

    def __init__(self, loader: DataLoader[Any], pools: PoolSequence) -> None:
        self._loader, self._pools = loader, pools

    def __iter__(self) -> "LoaderIterator":
        return self

    def __len__(self) -> int:
        return len(loaders.index_sampler(self._loader))

    def __getattr__(self, name: str) -> Any:
        """Attributes of the iterators of a DataLoader's class, such as
        ``state_dict``."""
        if name.startswith("__") or "_pools" not in vars(self):
            raise AttributeError(name)
        return getattr(self._pools.current.iterator, name)


class _Clocks:
    """The clocks of a training run, beside the time of one DataLoader.

    Args:
        loader_time: Of the DataLoader.
        sampler_clock: Of its sampler.
    """

    def __init__(self, loader_time: LoaderTime, sampler_clock: SamplerClock) -> None:
        self._loader_time, self._sampler_clock = loader_time, sampler_clock
        self._delay_s = run_delay_clock()

    def now(self) -> Moment:
        """Reads the clocks."""
        return Moment(
            time.perf_counter(),
            time.process_time(),
            self._delay_s(),
            *self._sampler_clock.read(),
            *loader_clock_of_thread().others_and_calls_s(self._loader_time),
        )

    def received(self) -> Moment:
        """Reads the clocks once a batch is there: the call of the iterator counts until
        now."""
        now = self.now()
        this_call_s = now.clock_s - loader_clock_of_thread().latest_s
        return now._replace(calls_s=now.calls_s + this_call_s)


class TunedIterator(LoaderIterator):
    """What ``iter`` of a tuned loader returns; with persistent workers it serves all
    epochs, as torch's own does.

    If a part of the tuning fails, training continues without it.

    Args:
        loader: A plain copy of the DataLoader.
        tuner: Of the DataLoader.
    """

    def __init__(self, loader: DataLoader[Any], tuner: Tuner) -> None:
        super().__init__(loader, PoolSequence(loader, tuner))
        self._tuner = tuner
        self._clocks = _Clocks(tuner.time, self._pools.stream.sampler_clock)
        self._observation: TrainingTrial | None = None
        with loader_clock_of_thread().entered(tuner.time):
            self._begin_epoch()

    def __del__(self) -> None:
        """The interpreter may be ending, and has no ``contextlib`` then."""
        try:
            _drop_pools(vars(self), self._tuner)
        except Exception:
            return

    def _reset(self, loader: DataLoader[Any]) -> None:
        """Begins another epoch of persistent workers, and draws no seed, as torch's."""
        restore = loaders.order_restorer(self._loader)
        with loader_clock_of_thread().entered(self._tuner.time):
            try:
                self._pools.abandon()
                self._begin_epoch()
            except Exception as error:
                # the epoch begins with the program's own settings
                with contextlib.suppress(Exception):
                    why = f"an epoch could not begin: {type(error).__name__}: {error}"
                    self._tuner.give_up(one_line(why))
                self._pools.current.end()
                restore()
                self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._try(self._pools.stream.leave)
        self._try(self._leave_epoch)
        self._try(self._pools.change_between_epochs)
        self._tuner.loader_clock = loader_clock_of_thread()
        start_s, drawn_s = self._pools.start()
        self._tuner.epoch += 1
        self._epoch, self._returned = self._tuner.epoch, 0
        self._pool_began = 0  # batches of the epoch that earlier pools have given
        self._device = self._try(device_clock.of_training) or Device()
        if self._tuner.waiting is not None:
            self._tuner.waiting.begin_epoch()
        self._try(self._observe, start_s, drawn_s)

    def _leave_epoch(self) -> None:
        """Ends the observation of the epoch before, whose end was not requested."""
        latest = self._tuner.observation
        if latest is not None and latest.leave_epoch(self._clocks.now()):
            self._tuner.end_epoch(self._tuner.batches_per_epoch or 0)

    def _try(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Does a part of the tuning. If it fails, training continues without it, unless
        index lists are lost."""
        try:
            return step(*arguments)
        except Exception as error:
            change, self._observation = self._pools.change, None
            if change is not None and not change.draws:
                if change.pool.feed.has_drawn:
                    raise
                # without threads a pool cannot even end
                with contextlib.suppress(Exception):
                    self._pools.abandon()
            with contextlib.suppress(Exception):
                why = f"tuning failed: {type(error).__name__}: {error}"
                self._tuner.decide(one_line(why))
            # else the part that failed would be repeated at each batch
            self._tuner.waiting = None
            return None

    def _observe(self, start_s: float = 0.0, drawn_s: float = 0.0) -> None:
        """Observes the settings in use: ``start_s`` with ``drawn_s`` in the sampler."""
        pool, earlier_batches = self._pools.current, self._returned - self._pool_began
        self._tuner.worker_pids = pool.pids
        self._observation = self._tuner.observe()
        if self._observation is not None:
            self._observation.begin(
                self._returned,
                start_s,
                pool.start_cpu_s,
                earlier_batches=earlier_batches,
                drawn_s=drawn_s,
                log=pool.log,
            )

    def __next__(self) -> Any:
        """The next batch, in the order of the sampler."""
        loader_clock, has_ended = loader_clock_of_thread(), True
        self._tuner.loader_clock = loader_clock
        loader_clock.enter(self._tuner.time)
        try:
            batch = self._followed_batch()
            has_ended = False
            return batch
        finally:
            loader_clock.leave(self._tuner.time, has_ended=has_ended)

    def _followed_batch(self) -> Any:
        # else another iterator is
        is_followed, waiting = self._epoch == self._tuner.epoch, self._tuner.waiting
        self._pools.expect(self._returned)
        if self._observation is None and self._pools.change is None:
            if is_followed and waiting:
                return self._watched_batch(waiting)
            return self._next_batch()
        if not is_followed:
            self._observation = None
        self._try(self._advance)
        batch = self._next_batch()
        self._try(self._note, batch)
        return batch

    def _watched_batch(self, waiting: Waiting) -> Any:
        """The next batch, of settings that are decided; they are reconsidered if they
        no longer fit."""
        asked_s = time.perf_counter()
        self._try(self._device.ask)
        batch = self._next_batch()
        given_s = time.perf_counter()
        busy = functools.partial(_busy_share, self._pools.current, given_s)
        if why := self._try(
            lambda: waiting.note(asked_s, given_s, busy, self._device.waited_s())
        ):
            self._try(self._tuner.look_again, why)
            self._try(self._observe)
        return batch

    def _note(self, batch: Any) -> None:
        """A batch has been returned."""
        waited_s = self._device.waited_s() if self._observation is not None else 0.0
        received, change = self._clocks.received(), self._pools.change
        self._pools.note_batch()
        if self._tuner.tuning.is_decided:
            self._observation = None
        if self._observation is not None:
            is_last = self._returned == self._tuner.batches_per_epoch
            self._observation.given(received, batch, waited_s, is_last=is_last)
        if change is not None and self._pools.current is change.pool:  # its first batch
            self._pools.change, self._pool_began = None, self._returned - 1
            self._tuner.switched(change.plan, self._pool_began)
            self._observe()

    def _next_batch(self) -> Any:
        if self._returned == self._tuner.too_many_batches:
            self._try(self._tuner.end_epoch, self._returned)
            self._pools.current.end()
            raise StopIteration
        try:
            batch = self._pools.next_batch()
        except StopIteration:
            self._try(self._end_epoch)
            raise
        self._returned += 1
        self._tuner.batches += 1
        return batch

    def _end_epoch(self) -> None:
        """The end of the workers is a part of the epoch: the clock is read after it."""
        self._pools.end_epoch()
        if self._observation is not None:
            busy_until_s = time.perf_counter() - self._device.waited_s()
            self._observation.batches.idle(busy_until_s)
            self._observation.cut(time.perf_counter())
            self._observation = None
        self._tuner.end_epoch(self._returned)

    def _advance(self) -> None:
        """Between two batches: ends windows of the observation, begins a change and
        continues it."""
        self._pools.safeguards.before_batch(is_first=not self._returned)
        latest, has_worked = self._observation, self._pools.change is not None
        if latest is not None:
            self._device.pace()
            self._device.ask()
            latest.batches.asked(self._clocks.now())
            if latest.ends_window:
                has_worked = True
                latest.cut()
                self._pools.change_within_epoch(self._returned)
                if self._tuner.held:
                    self._observe()
                    return
                if latest.is_full or self._tuner.tuning.is_decided:  # observing costs
                    self._observation = None
        if self._pools.hand_over(self._returned):
            self._observation = None
        if self._observation is not None and has_worked:
            self._observation.batches.asked(self._clocks.now())


def _drop_pools(attributes: dict[str, Any], tuner: Tuner) -> None:
    """Workers of an epoch that was left, as by ``break``, end with their pools: this
    takes time of the program."""
    loader_clock, loader_time = loader_clock_of_thread(), tuner.time
    # the garbage collector runs within an iterator, which has this time
    if loader_clock.is_inside:
        return
    has_workers, began_s = bool(attributes["_pools"].current.pids), time.perf_counter()
    attributes["_pools"].stream.leave()
    loader_clock.enter(loader_time)
    del attributes["_pools"]
    loader_clock.leave(loader_time, has_ended=True)
    if has_workers:
        dropping_s = time.perf_counter() - began_s
        loader_time.starting_s += dropping_s
        loader_time.dropped_s += dropping_s


def _busy_share(pool: Pool, now_s: float) -> float:
    """Share of their time in which the workers made batches, from the last call until
    now.

    The log may have lost the records of the beginning of a long part.
    """
    records = pool.log.new() if pool.log else ()
    if not records:
        return 1.0
    busy_s = sum(record.ended_s - record.began_s for record in records)
    since_s = now_s - min(record.began_s for record in records)
    return busy_s / (len(pool.pids) * since_s)
