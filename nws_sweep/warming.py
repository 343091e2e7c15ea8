"""The state of the page cache that ``measure.cache`` asks for, made before each turn that is timed."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from dataclasses import replace

from nws_sweep import pagecache
from nws_sweep.candidate import Candidate
from nws_sweep.errors import ConfigurationError, TrialError
from nws_sweep.records import BurstKind, BurstRequest, Configuration
from nws_sweep.surroundings import Surroundings, TrialArm

_NO_CONSUMER = {"_target_": "nws_sweep.consumers.Nothing"}


class PageCache:
    """Drops the dataset's files, or reads ahead with an arm of its own as soon as a candidate read from storage.

    All candidates of a configuration draw the same order of samples, so what it reads is what they will read. It stops
    after one epoch: then everything was read once.
    """

    def __init__(self, configuration: Configuration, surroundings: Surroundings) -> None:
        self._configuration = replace(configuration, consumer=_NO_CONSUMER)
        self._surroundings = surroundings
        self._state = configuration.measure.cache
        named = configuration.measure.cache_files if self._state == "cold" else None
        self._files = None if named is None else pagecache.files_below(named)
        self._stack = ExitStack()
        self._arm: TrialArm | None = None
        self._read_batches = 0
        self._reads_ahead = False

    def prepare(self, candidate: Candidate, memory_bytes: int | None) -> None:
        """Makes ready for a candidate's next turn; processes that read ahead may hold so many bytes, None for any."""
        if self._files:
            self._surroundings.drop_files(self._files)
        missing = candidate.position - self._read_batches
        if not self._reads_ahead or self._state != "warm" or missing <= 0:
            return
        try:
            arm = self._arm or self._open(memory_bytes)
            arm.resume()
            burst = arm.burst(BurstRequest(kind=BurstKind.WARM_UP, min_batches=missing))
            arm.pause()
        except TrialError:  # the candidates meet the same fault, and say so
            self.close()
            return
        self._read_batches += burst.batches
        if burst.ended_epoch:
            self.close()

    def notice(self, candidate: Candidate) -> None:
        """Looks at a candidate's latest turn, and for the files as soon as a dataset can be asked for them.

        Raises:
            ConfigurationError: If files are to be dropped, and none are known.
        """
        self._reads_ahead = self._reads_ahead or candidate.came_from_disk
        if any(burst.ended_epoch for burst in candidate.bursts):
            self.close()
        if self._state == "cold" and self._files is None and candidate.alive:
            named = candidate.ask(lambda arm: arm.files())
            if named is None:
                return
            self._files = pagecache.files_below(named)
            if not self._files:
                raise ConfigurationError(
                    "measure.cache=cold: the dataset's attributes name no files; name files or folders in "
                    "measure.cache_files=[...]"
                )
            candidate.begin_anew()  # its beginning was not cold

    def _open(self, memory_bytes: int | None) -> TrialArm:
        self._arm = self._stack.enter_context(self._surroundings.open_arm(self._configuration, memory_bytes))
        workers = max(1, int(self._surroundings.cores_of_each(self._configuration.ranks)))
        self._arm.open(replace(self._configuration.loader, num_workers=workers))
        return self._arm

    def close(self) -> None:
        """Ends the reading ahead for good."""
        self._state = "as_is" if self._state == "warm" else self._state
        with contextlib.suppress(TrialError):
            self._stack.close()
