"""The state of the page cache before each time slice, as ``measure.cache`` sets it: warm, cold or as it is."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import replace

from nws_sweep.errors import ConfigurationError, TrialError
from nws_sweep.measurement.candidate import Candidate
from nws_sweep.measurement.environment import Environment, TrialProcess
from nws_sweep.results import Configuration, WindowKind, WindowRequest
from nws_sweep.system import page_cache

_NO_STEP = {"_target_": "nws_sweep.dataloading.training_steps.Nothing"}
# A time slice that reads from the page cache takes up to this many times as many batches as one that reads from disk.
_SPEEDUP_WHEN_WARM = 8


class CacheControl:
    """Drops the dataset's files, or reads ahead in a trial process of its own once a candidate read from storage.

    All candidates of a configuration draw the same order of samples, so the samples read ahead are those that the
    candidates read. Reading ahead ends after one epoch, when all data were read once.
    """

    def __init__(self, configuration: Configuration, environment: Environment) -> None:
        self._configuration = replace(configuration, training_step=_NO_STEP)
        self._environment = environment
        self._state = configuration.measure.cache
        named = configuration.measure.cache_files if self._state == "cold" else None
        self._files = None if named is None else page_cache.files_below(named)
        self._stack = ExitStack()
        self._process: TrialProcess | None = None
        self._read_batches = 0
        self._reads_ahead = False

    def prepare(self, candidate: Candidate, memory_bytes: int | None) -> None:
        """Prepares the next time slice of a candidate; ``memory_bytes`` limits the processes that read ahead."""
        if self._files:
            self._environment.drop_files(self._files)
        missing = _next_position(candidate) - self._read_batches
        if not self._reads_ahead or self._state != "warm" or missing <= 0:
            return
        try:
            process = self._process or self._start(memory_bytes)
            process.resume()
            window = process.window(WindowRequest(kind=WindowKind.WARM_UP, min_batches=missing))
            process.pause()
        except TrialError:  # the candidates raise it again
            self.close()
            return
        self._read_batches += window.batches
        if window.ended_epoch:
            self.close()

    def update(self, candidate: Candidate) -> None:
        """Evaluates the latest time slice of a candidate; asks the first dataset for its files.

        ConfigurationError if files should be dropped and none are known.
        """
        self._reads_ahead = self._reads_ahead or candidate.progress.came_from_disk
        if any(window.ended_epoch for window in candidate.progress.windows):
            self.close()
        if self._state == "cold" and self._files is None and candidate.alive:
            named = candidate.process.ask(lambda process: process.files())
            if named is None:
                return
            self._files = page_cache.files_below(named)
            if not self._files:
                raise ConfigurationError(
                    "measure.cache=cold: the dataset's attributes name no files; name files or folders in "
                    "measure.cache_files=[...]"
                )
            candidate.progress.must_restart = True  # its first time slice was not cold

    def _start(self, memory_bytes: int | None) -> TrialProcess:
        self._process = self._stack.enter_context(self._environment.start_process(self._configuration, memory_bytes))
        workers = max(1, int(self._environment.cores_of_each(self._configuration.ranks)))
        self._process.open(replace(self._configuration.loader, num_workers=workers))
        return self._process

    def close(self) -> None:
        """Ends the reading ahead for the rest of the search."""
        self._state = "as_is" if self._state == "warm" else self._state
        with suppress(TrialError):
            self._stack.close()


def _next_position(candidate: Candidate) -> int:
    """Upper bound of the batches that a candidate has requested by the end of its next time slice."""
    progress = candidate.progress
    taken = sum(window.batches for window in progress.windows)
    latest = sum(window.batches for time_slice in progress.slices[-1:] for window in time_slice.windows)
    speedup = _SPEEDUP_WHEN_WARM if progress.came_from_disk else 2
    return taken + speedup * latest + 2 * candidate.settings.queued_batches
