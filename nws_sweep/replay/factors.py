"""How much longer batches take than replayed, at each number of workers. Pure.

What the replay does not model (locks, memory bandwidth, servers that saturate) shows as the measured time of a trial /
its replayed time: this factor is interpolated as a power of the number of workers. How far it may change between trials
is learnt from its changes so far, as the variance of a random walk over doublings of the workers.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

from nws_sweep.replay.known import Known

# Standard deviation of the logarithm of the factor between a number of workers and its double, before any is known.
_MISFIT = 0.055


@dataclass(frozen=True)
class Factors:
    """The factors of known trials.

    Attributes:
        with_workers: The trials with workers, by num_workers.
        alone: The trial that stands for no workers.
    """

    with_workers: tuple[Known, ...]
    alone: Known

    def at(self, num_workers: int) -> float:
        """The factor, a power of the workers between neighbouring trials; beyond all trials that of the nearest."""
        below, above, share = self.neighbours(num_workers)
        return below.factor ** (1 - share) * above.factor**share if below and above else 1.0

    def misfit(self, num_workers: int) -> float:
        """How far the logarithm of the factor may be below that of ``at``, 0 for the workers of a known trial.

        It is one standard deviation; beyond all trials at most that of a doubling, since more workers seldom make
        loading more efficient. Between two trials the factor may also grow later than a power of the workers.
        """
        below, above, share = self.neighbours(num_workers)
        if below is None or above is None or below is above:
            far = 1.0 if below is None else min(1.0, abs(doublings(below, num_workers)))
            return math.sqrt(self._variance * far) if num_workers else 0.0
        far = doublings(below, above.settings.num_workers)
        change = abs(math.log(above.factor / below.factor))
        return math.sqrt(self._variance * far * share * (1 - share)) + change * share * (1 - share)

    def neighbours(self, num_workers: int) -> tuple[Known | None, Known | None, float]:
        """The trials below and above, and the share of the doublings between them; the same trial at or beyond both."""
        known = self.with_workers if num_workers else (self.alone,)
        if not known:
            return None, None, 0.0
        below = next((one for one in reversed(known) if one.settings.num_workers <= num_workers), known[0])
        above = next((one for one in known if one.settings.num_workers >= num_workers), known[-1])
        if below is above:
            return below, below, 0.0
        return below, above, doublings(below, num_workers) / doublings(below, above.settings.num_workers)

    @cached_property
    def _variance(self) -> float:
        """Of the logarithm of the factor, for a doubling of the workers; at most the usual one.

        Larger changes show where the factor grows. Between trials it is then interpolated, not more uncertain.
        """
        changes = []
        for before, after in itertools.pairwise(self.with_workers):
            square = square_beyond_noise(math.log(after.factor / before.factor), before, after)
            changes.append(square / doublings(before, after.settings.num_workers))
        return min(_MISFIT**2, (_MISFIT**2 + sum(changes)) / (1 + len(changes)))


def square_beyond_noise(change: float, one: Known, other: Known) -> float:
    """The square of a change of the logarithm of times between two trials, less what noise explains."""
    return max(0.0, change**2 - one.variance - other.variance)


def doublings(known: Known, num_workers: int) -> float:
    """How often the workers of a trial are doubled to get this number; negative if it is smaller."""
    return math.log2(max(1, num_workers) / max(1, known.settings.num_workers))
