"""Every candidate, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nws_sweep.strategies.base import Decision, Measure, Observation, Stop, first_unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaustive:
    """Measures every candidate.

    Attributes:
        candidates: Values of num_workers in the order of trying.
    """

    candidates: tuple[int, ...]

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next candidate not yet measured."""
        candidate = first_unmeasured(self.candidates, observations)
        if candidate is None:
            return Stop(f"all {len(self.candidates)} candidates were measured")
        return Measure(candidate)
