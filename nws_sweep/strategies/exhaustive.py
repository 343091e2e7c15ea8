"""Every candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nws_sweep.strategies.base import Decision, Measure, Observation, Stop, unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaustive:
    """Measures every candidate.

    Attributes:
        candidates: Values of num_workers.
    """

    candidates: tuple[int, ...]

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """All candidates not yet measured."""
        if left := unmeasured(self.candidates, observations):
            return Measure(left)
        return Stop(f"all {len(self.candidates)} candidates were measured")
