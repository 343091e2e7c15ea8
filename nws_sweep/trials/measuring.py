"""Measures the DataLoader of a trial process: windows, with records of what each batch
cost."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch.utils.data import DataLoader

from nws_sweep.dataloading import device_clock, loaders
from nws_sweep.dataloading.clocks import run_delay_clock
from nws_sweep.dataloading.digests import SampleLog
from nws_sweep.dataloading.orders import SamplerClock
from nws_sweep.dataloading.recording import BatchLog, BatchTimer, WorkerStart
from nws_sweep.dataloading.windows import LoaderSession, Moment, made_without_workers
from nws_sweep.records import (
    LoaderSettings,
    SampleMade,
    Window,
    WindowKind,
    WindowRequest,
)

logger = logging.getLogger(__name__)

_IDLE_SOON_S = 0.2  # the end of workers that take longer is estimated
_POLL_S = 0.005


def report_progress() -> None:
    """Tells the program that batches arrive."""
    logger.info("")


class MeasuredLoader:
    """A DataLoader that is iterated in windows.

    Args:
        loader: Of ``Source.loader``. Its sampler and its ``worker_init_fn`` are
            replaced.
        settings: Of the loader.
        place: Share of the epoch at which the epochs begin, from 0 to 1.
        training_step: Called with each batch.
        sample_log: Receives some samples of the workers; None for none.
        folder: The temporary folder of the trial process.

    Attributes:
        settings: Of the loader.
        batches: Of an epoch; None if unknown.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        settings: LoaderSettings,
        place: float,
        training_step: Callable[[Any], object],
        sample_log: SampleLog | None,
        folder: str,
    ) -> None:
        self.settings, self._sample_log = settings, sample_log
        self.batches = loaders.length(loader)
        self._runs = loaders.in_runs(loader, settings.queued_batches, place)
        self._order = (
            self._runs.order if self._runs else loaders.begin_at(loader, place)
        )
        sampler_clock = loaders.time_sampler(loader)
        self._batch_log: BatchLog | None = None
        if settings.num_workers:
            self._batch_log = BatchLog(settings.num_workers)
            timer = BatchTimer(self._batch_log)
            loader.worker_init_fn = WorkerStart(
                timer, loader.worker_init_fn, sample_log, folder, loader.collate_fn
            )
        # A kept iterator makes batches before their epoch begins. A DataLoader that
        # does not make the batches has an unknown number of samples in each.
        is_counted = (
            not loaders.renew_iterators(loader) and settings.batch_size is not None
        )
        self._session = self._start_session(
            loader, training_step, sampler_clock, is_counted
        )

    def _start_session(
        self,
        loader: DataLoader[Any],
        training_step: Callable[[Any], object],
        sampler_clock: SamplerClock,
        is_counted: bool,
    ) -> LoaderSession:
        delay_clock = run_delay_clock()

        def read_clocks() -> Moment:
            return Moment(
                time.perf_counter(),
                time.process_time(),
                delay_clock(),
                *sampler_clock.read(),
            )

        session = LoaderSession(
            loader,
            training_step,
            read_clocks,
            default_batch_length=self.settings.batch_size or 1,
            gives_samples=loaders.gives_samples(loader),
            drain=self.settings.persistent_workers,
            queued_batches=self.settings.queued_batches,
            batches_per_epoch=self.batches,
            on_progress=report_progress,
            find_device=device_clock.of_training,
        )
        if self._batch_log is not None:
            session.on_epoch = self._batch_log.begin_epoch
            if is_counted:
                session.produced = self._batch_log.produced
        return session

    def window(self, request: WindowRequest) -> Window:
        """Takes a window of batches, with records of what they cost."""
        log = self._batch_log
        if self._runs is not None:
            self._runs.is_whole = request.kind is WindowKind.EPOCH
        if log is not None:
            log.stages.open(request.kind is WindowKind.WARM_UP)
        if request.fresh and self._session.stop_s is None:
            self.wait_until_idle(_IDLE_SOON_S)
        window = self._session.window(request)
        if log is None:
            first = self._session.taken - window.batches
            return replace(
                window,
                records=tuple(made_without_workers(window, first, self._position)),
            )
        records = log.new(self._position, has_ended=window.ended_epoch)
        return replace(
            window,
            records=records,
            worker_start=log.times.start,
            unfed_workers=log.unfed(),
        )

    def _position(self, number: int) -> float | None:
        """Returns the place of a batch of the epoch in the order of the sampler, from 0
        to 1; None if it is unknown."""
        if not self.batches or number >= len(self._order):
            return None
        return self._order[number] / self.batches

    def wait_until_idle(self, within_s: float) -> None:
        """Waits until the queue is full and all workers are idle, or for so many
        seconds."""
        deadline_s = time.monotonic() + within_s
        while not self._session.is_idle and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)

    def logged_samples(self) -> tuple[SampleMade, ...]:
        """Returns some of the samples that the workers have made."""
        return () if self._sample_log is None else self._sample_log.read()
