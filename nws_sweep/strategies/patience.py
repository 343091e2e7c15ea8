"""Ascending, until too many candidates in a row have not improved on the best, or to the last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.records import LoaderSettings, Verdict
from nws_sweep.strategies.base import Decision, Measure, Observation, Stop, with_workers
from nws_sweep.strategies.contest import verdict_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Tries candidates in ascending order and remembers the best.

    Candidates that do not improve on the best are counted; an improvement, however small, starts the count anew. The
    search stops when the count exceeds ``maximum_patience``: with 3, the fourth candidate in a row without improvement
    is the last. A candidate that could not be measured has not improved.

    Whatever the next measurements say, so many candidates are still going to be tried that the count can exceed the
    patience; these are asked for together. What is observed out of the order (a reference, say) counts when its turn
    has come.

    Attributes:
        candidates: Values of num_workers, ascending.
        maximum_patience: Candidates without improvement to bear, at least 0; None to measure every candidate.
        base: The settings beside it.
        tolerance: A candidate this much slower than the fastest is as good, if it is cheaper.
        precision: What may be gained beyond that by no more than this does not matter.
    """

    candidates: tuple[int, ...]
    maximum_patience: int | None
    base: LoaderSettings
    tolerance: float
    precision: float

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next candidates, unless patience is exceeded or none is left."""
        costs = {observation.num_workers: observation.cost_s for observation in observations}
        most = len(self.candidates) if self.maximum_patience is None else self.maximum_patience
        best, best_s, without_improvement = None, math.inf, 0
        for number, candidate in enumerate(self.candidates):
            if candidate not in costs:
                certain = self.candidates[number : number + most + 1 - without_improvement]
                return Measure(
                    candidates=tuple(with_workers(self.base, n) for n in certain if n not in costs),
                    beside=() if best is None else (with_workers(self.base, best),),
                )
            cost_s = costs[candidate]
            if cost_s is not None and cost_s < best_s:
                best, best_s, without_improvement = candidate, cost_s, 0
            else:
                without_improvement += 1
            if without_improvement > most:
                count = units.counted(without_improvement, "candidate")
                of_best = "could not be measured" if best is None else f"after num_workers={best} did not improve on it"
                return Stop(reason=f"{count} {of_best} (patience {most})")
        within = "" if self.maximum_patience is None else f" within patience {most}"
        return Stop(reason=f"all {len(self.candidates)} candidates were measured{within}")

    def verdict(self, observations: Sequence[Observation]) -> Verdict | None:
        """The verdict on all that were measured."""
        return verdict_of(observations, self.tolerance, self.precision)
