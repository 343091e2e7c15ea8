"""Means and intervals of times that were measured in rounds. Pure functions over numbers.

The logarithm of a time is the sum of the candidate's, the round's and noise: a drift from round to round affects all
candidates of a round alike. Candidates are fixed effects, rounds are random ones: a mixed model, solved by Henderson's
equations with variances by restricted maximum likelihood (Searle, Casella and McCulloch, Variance Components, 1992,
sections 7.4 and 8.3). It gives the variance of each candidate's time, drift included, and of each ratio, without it.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nws_sweep.results import Estimate

# Prior of the noise and of the drift: standard deviation of the logarithm of the time of a window, with the weight of
# one window. Without it two equal windows would have no noise.
_PRIOR_SPREAD = 0.02
_PASSES = 30  # of the variances, which converge geometrically

Times = Mapping[int, float]  # of one candidate, by round: seconds of any unit of work


def student_t_975(freedom: float) -> float:
    """The 97.5 % quantile of Student's t for at least 2 degrees of freedom, to within 1 %; above 4, to within 0.02 %.

    It is the expansion of Cornish and Fisher about the normal quantile (Abramowitz and Stegun, Handbook of Mathematical
    Functions, 26.7.5).
    """
    z = statistics.NormalDist().inv_cdf(0.975)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * freedom**4)
    )


def estimate_of(value: float, half_width: float | None, count: int) -> Estimate:
    """A value with the interval whose logarithm has this half-width; None for no interval."""
    if half_width is None or value <= 0:
        return Estimate(value=value, low=None, high=None, n=count)
    factor = math.exp(half_width)
    return Estimate(value=value, low=value / factor, high=value * factor, n=count)


@dataclass(frozen=True)
class Fit:
    """Candidates compared by the rounds that they were measured in.

    Attributes:
        logs: Logarithm of the time of each candidate in a usual round; n of them.
        effects: Logarithm of the time in a round / that in a usual round, by round.
        noise: Standard deviation of the logarithm of one time, without the drift.
        covariance: Of ``logs`` / the square of ``noise``, shape (n, n); the drift included.
        freedom: Degrees of freedom of ``noise``, at least 1.
    """

    logs: Sequence[float]
    effects: Times
    noise: float
    covariance: NDArray[np.float64]
    freedom: float

    def spread(self, candidate: int, other: int | None = None) -> float:
        """Standard deviation of the logarithm of the time of a candidate, or of its ratio to another one's."""
        variance = self.covariance[candidate, candidate]
        if other is not None:
            variance += self.covariance[other, other] - 2 * self.covariance[candidate, other]
        return self.noise * math.sqrt(max(0.0, variance))

    @property
    def quantile(self) -> float:
        """How many standard deviations a 95 % interval has on each side."""
        return student_t_975(max(2.0, self.freedom))


def fit(times: Sequence[Times]) -> Fit:
    """Fits candidates, each with at least one round, whose times are more than 0."""
    rounds = sorted({number for by_round in times for number in by_round})
    design, logs = _design(times, rounds)
    squares, products = design.T @ design, design.T @ logs
    count = len(times)
    is_round = np.arange(len(squares)) >= count
    noise = drift = _PRIOR_SPREAD**2  # variances
    for _ in range(_PASSES):
        inverse = np.linalg.inv(squares + np.diag(is_round * noise / drift))
        solution = inverse @ products
        residual = max(0.0, float(logs @ (logs - design @ solution)))
        effects, uncertain = solution[count:], noise * float(np.trace(inverse[count:, count:]))
        noise = (residual + _PRIOR_SPREAD**2) / (len(logs) - count + 1)
        drift = (float(effects @ effects) + uncertain + _PRIOR_SPREAD**2) / (len(rounds) + 1)
    inverse = np.linalg.inv(squares + np.diag(is_round * noise / drift))
    spent = len(rounds) - noise / drift * float(np.trace(inverse[count:, count:]))
    return Fit(
        logs=[float(log) for log in solution[:count]],
        effects=dict(zip(rounds, map(float, solution[count:]), strict=True)),
        noise=math.sqrt(noise),
        covariance=inverse[:count, :count],
        freedom=max(0.0, len(logs) - count - spent) + 1,
    )


def _design(times: Sequence[Times], rounds: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One row for each time: its candidate and its round are 1; and the logarithms of the times."""
    placed = [(place, number, seconds) for place, by_round in enumerate(times) for number, seconds in by_round.items()]
    design = np.zeros((len(placed), len(times) + len(rounds)))
    for row, (place, number, _) in enumerate(placed):
        design[row, place] = design[row, len(times) + rounds.index(number)] = 1
    return design, np.log([seconds for *_, seconds in placed])
