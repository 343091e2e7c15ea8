"""Answers the commands of a program in its trial process: each public method of
``TrialCommands`` is a command."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch.utils.data import DataLoader

from nws_sweep.dataloading import loaders, sharing
from nws_sweep.dataloading.digests import SampleLog, load_in_process, load_one_by_one
from nws_sweep.dataloading.fingerprints import fingerprint
from nws_sweep.dataloading.recording import WorkerStart
from nws_sweep.dataloading.thread_times import thread_times
from nws_sweep.dataloading.whole_batches import MOST_SAMPLES, try_whole_batches
from nws_sweep.dataloading.windows import PROGRESS_EVERY_S
from nws_sweep.errors import ConfigurationError, one_line
from nws_sweep.records import (
    DatasetFacts,
    LoaderSettings,
    ProcessSpec,
    SampleMade,
    SamplesLogged,
    SamplesSeen,
    WholeBatches,
    Window,
    WindowKind,
    WindowRequest,
)
from nws_sweep.system import accelerator
from nws_sweep.trials import forking, recipes
from nws_sweep.trials.measuring import MeasuredLoader, report_progress
from nws_sweep.trials.trial_dataset import TrialDataset, hint, make_dataset

_MAX_WARNINGS = 5
_SHORT = WindowRequest(kind=WindowKind.WARM_UP, min_batches=1, min_seconds=0.005)
_IDLE_WITHIN_S = 5.0


class DatasetCommands:
    """Answers the commands about a dataset: it is made, its samples are loaded or
    counted.

    Attributes:
        is_template: Whether the process forks trial processes on request, which have
            its dataset.
    """

    def __init__(self, spec: ProcessSpec, folder: str) -> None:
        self._spec, self._folder = spec, folder
        self._warnings: dict[str, None] = {}
        self.is_template = False

    @cached_property
    def _data(self) -> TrialDataset:
        return make_dataset(self._spec)

    def make_template(self) -> str:
        """Returns the obstacle to forking from this process; without one, "", and it
        becomes a template process."""
        before = forking.footprint()
        _ = self._data
        obstacle = forking.obstacle_since(before)
        self.is_template = not obstacle
        return obstacle

    def prepare(self) -> DatasetFacts:
        """Makes the dataset, the training step and the collate_fn."""
        data, configuration = self._data, self._spec.configuration
        # samplers of the user draw another order in each rank
        torch.manual_seed(configuration.seed + self._spec.rank)
        self._training_step = recipes.make_training_step(configuration.training_step)
        self._collate_fn = recipes.make(
            "collate_fn", configuration.collate_fn, ConfigurationError
        )
        return replace(
            data.facts,
            accelerator=accelerator.available(),
            is_shuffled=data.source.is_shuffled(configuration.loader),
            code=fingerprint(data.facts.code, self._collate_fn),
        )

    def load(
        self, keys: Sequence[Any], limit_s: float | None
    ) -> tuple[SampleMade, ...]:
        """Loads samples of a map-style dataset without workers."""
        return load_in_process(self._data.source.dataset, keys, limit_s)

    def load_one_by_one(
        self, samples: Sequence[SampleMade], settings: LoaderSettings
    ) -> tuple[SampleMade, ...]:
        """Loads samples in the workers that made them before, one sample at a time."""
        return load_one_by_one(self._separate_loader(settings, None), samples)

    def _separate_loader(
        self, settings: LoaderSettings, collate_fn: Any
    ) -> DataLoader[Any]:
        loader = self._data.source.loader(settings, collate_fn)
        loader.worker_init_fn = WorkerStart(
            user_function=loader.worker_init_fn, folder=self._folder
        )
        return loader

    def samples(
        self, settings: LoaderSettings, most: int, limit_s: float = math.inf
    ) -> SamplesSeen:
        """Counts the samples of an epoch of a separate DataLoader, up to ``most``, for
        at most ``limit_s`` seconds."""
        began_s = reported_s = time.monotonic()
        loader = self._separate_loader(
            settings, _count_sample if settings.batch_size is None else len
        )
        loaders.renew_iterators(loader)
        count = 0
        for samples in loader:
            count += samples
            now_s = time.monotonic()
            if count >= most or now_s - began_s > limit_s:
                return SamplesSeen(count=count, complete=False)
            if now_s - reported_s >= PROGRESS_EVERY_S:
                report_progress()
                reported_s = now_s
        return SamplesSeen(count=count, complete=True)

    def thread_times(
        self, counts: Sequence[int], limit_s: float
    ) -> Mapping[int, float]:
        """Returns seconds per sample by number of torch's threads; empty if the number
        makes no difference."""
        source = self._data.source
        most = loaders.length(source.dataset)
        if source.is_iterable or not most:
            return {}

        def look(dataset: Any) -> tuple[Any, ...]:
            return tuple(
                thread_times(dataset.__getitem__, most, counts, limit_s).items()
            )

        # the keys of samples may not be numbers
        return dict(hint(look, source.dataset))

    def warned(self) -> tuple[str, ...]:
        """Returns the distinct warnings issued so far."""
        return tuple(self._warnings)

    def record_warning(self, message: Warning | str, *_: Any) -> None:
        """Replaces ``warnings.showwarning``."""
        line = "further warnings omitted"
        if len(self._warnings) < _MAX_WARNINGS:  # each sample may issue its own
            line = one_line(message)
        self._warnings[line] = None


class TrialCommands(DatasetCommands):
    """Answers the commands of ``TrialProcess`` about the DataLoader that is measured.

    Attributes:
        is_iterating: Whether it takes batches between commands, as a background loader.
    """

    is_iterating = False

    def forked(self, spec: ProcessSpec, folder: str) -> "TrialCommands":
        """Returns the commands of a trial process forked from this template, with its
        dataset and its warnings."""
        self._spec, self._folder, self.is_template = spec, folder, False
        self._data.source.rank = spec.rank
        return self

    def open(self, settings: LoaderSettings, place: float) -> int | None:
        """Makes the DataLoader; returns the batches of an epoch, None if unknown."""
        is_checked = (
            self._spec.configuration.check_samples is not False and self._spec.rank == 0
        )
        self._loader = MeasuredLoader(
            self._data.source.loader(settings, self._collate_fn),
            settings,
            place,
            self._training_step,
            SampleLog(self._folder) if is_checked else None,
            self._folder,
        )
        self._positions = sharing.positions(self._data.files)
        return self._loader.batches

    def window(self, request: WindowRequest) -> Window:
        """Takes a window of batches."""
        window = self._loader.window(request)
        if window.unfed_workers:
            workers = self._loader.settings.num_workers
            reason = "there are fewer shards than workers, or the dataset does not distribute its shards"
            self._warnings[
                f"{window.unfed_workers} of {workers} workers got no samples in an epoch: {reason}"
            ] = None
        return window

    def iterate(self) -> None:
        """Takes batches from now on, as a background loader."""
        self.is_iterating = True

    def take_batches(self, must_stop: Callable[[], bool]) -> None:
        """Takes batches as a background loader, epoch after epoch, until ``must_stop``,
        or an epoch without any."""
        while self.is_iterating and not must_stop():
            if self.window(_SHORT).ended_epoch:
                self.is_iterating = self.window(_SHORT).batches > 0

    def wait_until_idle(self) -> None:
        """Waits until all workers are idle, and takes no more batches between
        commands."""
        self.is_iterating = False
        self._loader.wait_until_idle(_IDLE_WITHIN_S)

    def logged(self) -> SamplesLogged:
        """Returns some of the samples that the workers have made, and the shared files
        whose positions have changed."""
        files = self._data.files
        moved = dict(sharing.positions(files).items() - self._positions.items())
        moved_files = tuple(files[number] for number in moved)
        return SamplesLogged(
            samples=self._loader.logged_samples(), moved_files=moved_files
        )

    def whole_batches(self, settings: LoaderSettings) -> WholeBatches | None:
        """Times whole batches of a map-style dataset; None if they are not those of its
        samples."""
        loader = self._separate_loader(settings.with_workers(1), self._collate_fn)
        return try_whole_batches(loader, min(settings.batch_size or 1, MOST_SAMPLES))


def _count_sample(sample: Any) -> int:
    """A ``collate_fn`` that counts, where DataLoader calls it with one sample."""
    return 1
