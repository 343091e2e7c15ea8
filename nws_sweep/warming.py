"""An untimed pass over the data ahead of those that are timed, where it does not lie in the page cache yet."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from dataclasses import replace

from nws_sweep.candidate import Candidate
from nws_sweep.errors import TrialError
from nws_sweep.records import BurstKind, BurstRequest, Configuration
from nws_sweep.surroundings import Surroundings, TrialArm

_NO_CONSUMER = {"_target_": "nws_sweep.consumers.Nothing"}


class Warmer:
    """Reads ahead with an arm of its own as soon as a candidate was seen to read from storage.

    All candidates of a configuration draw the same order of samples, so what it reads is what they will read. It stops
    after one epoch: then everything was read once.

    Args:
        configuration: What is measured.
        surroundings: Arms and clock.
    """

    def __init__(self, configuration: Configuration, surroundings: Surroundings) -> None:
        self._configuration = replace(configuration, consumer=_NO_CONSUMER)
        self._surroundings = surroundings
        self._stack = ExitStack()
        self._arm: TrialArm | None = None
        self._read_batches = 0
        self._wanted = False
        self._finished = configuration.measure.cache != "warm"

    def notice(self, candidate: Candidate) -> None:
        """Looks at a candidate's latest turn."""
        self._wanted = self._wanted or candidate.came_from_disk
        if any(burst.ended_epoch for burst in candidate.bursts):
            self.close()

    def go_ahead_of(self, candidate: Candidate, memory_bytes: int | None) -> None:
        """Reads what the candidate's next turn may need.

        Args:
            candidate: Whose turn is next.
            memory_bytes: What the reading processes may hold; None for no limit.
        """
        missing = candidate.position - self._read_batches
        if not self._wanted or self._finished or missing <= 0:
            return
        try:
            arm = self._started(memory_bytes)
            arm.resume()
            burst = arm.burst(BurstRequest(kind=BurstKind.WARM_UP, min_batches=missing))
            arm.pause()
        except TrialError:  # the candidates meet the same fault, and say so
            self.close()
            return
        self._read_batches += burst.batches
        if burst.ended_epoch:
            self.close()

    def _started(self, memory_bytes: int | None) -> TrialArm:
        if self._arm is None:
            self._arm = self._stack.enter_context(self._surroundings.open_arm(self._configuration, memory_bytes))
            workers = max(1, int(self._surroundings.cores_of_each(self._configuration.ranks)))
            self._arm.open(replace(self._configuration.loader, num_workers=workers))
        return self._arm

    def close(self) -> None:
        """Ends its arm for good."""
        self._finished = True
        with contextlib.suppress(TrialError):
            self._stack.close()
