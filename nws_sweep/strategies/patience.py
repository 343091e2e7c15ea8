"""Ascending, until too many candidates in a row have not improved on the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nws_sweep.strategies.base import Decision, Measure, Observation, Stop, first_unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Tries candidates in ascending order and remembers the best.

    Candidates that do not improve on the best are counted; an improvement, however small, starts the count anew. The
    search stops when the count exceeds ``maximum_patience``: with 3, the fourth candidate in a row without improvement
    is the last. A candidate that could not be measured has not improved.

    Attributes:
        candidates: Values of num_workers, ascending.
        maximum_patience: Candidates without improvement to bear, at least 0.
    """

    candidates: tuple[int, ...]
    maximum_patience: int

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next candidate, unless patience is exceeded or none is left."""
        best, best_s, without_improvement = None, math.inf, 0
        for observation in observations:
            if observation.cost_s is not None and observation.cost_s < best_s:
                best, best_s, without_improvement = observation, observation.cost_s, 0
            else:
                without_improvement += 1
        if without_improvement > self.maximum_patience:
            return Stop(self._out_of_patience(best, without_improvement))
        candidate = first_unmeasured(self.candidates, observations)
        if candidate is None:
            return Stop(f"all {len(self.candidates)} candidates were measured within patience {self.maximum_patience}")
        return Measure(candidate)

    def _out_of_patience(self, best: Observation | None, without_improvement: int) -> str:
        if best is None:
            return f"{_candidates(without_improvement)} could not be measured (patience {self.maximum_patience})"
        return (
            f"{_candidates(without_improvement)} after num_workers={best.num_workers} did not improve on it "
            f"(patience {self.maximum_patience})"
        )


def _candidates(count: int) -> str:
    return f"{count} candidate{'' if count == 1 else 's'}"
