"""Every candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nws_sweep.records import LoaderSettings, Verdict
from nws_sweep.strategies.base import Decision, Measure, Observation, Stop, unmeasured, with_workers
from nws_sweep.strategies.contest import verdict_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaustive:
    """Measures every candidate.

    Attributes:
        candidates: Values of num_workers.
        base: The settings beside it.
        tolerance: A candidate this much slower than the fastest is as good, if it is cheaper.
        precision: What may be gained beyond that by no more than this does not matter.
    """

    candidates: tuple[int, ...]
    base: LoaderSettings
    tolerance: float
    precision: float

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """All candidates not yet measured."""
        if left := unmeasured([with_workers(self.base, n) for n in self.candidates], observations):
            return Measure(candidates=left)
        return Stop(reason=f"all {len(self.candidates)} candidates were measured")

    def verdict(self, observations: Sequence[Observation]) -> Verdict | None:
        """The verdict on all that were measured."""
        return verdict_of(observations, self.tolerance, self.precision)
