"""Means and intervals of times that were measured in rounds. Pure functions over
numbers.

The logarithm of a time is the sum of an effect of the candidate, an effect of the
round, and noise: a drift from round to round affects all candidates of a round alike.
Candidates are fixed effects, rounds are random ones: a mixed model, solved by
Henderson's equations with variances by restricted maximum likelihood (Searle, Casella
and McCulloch, Variance Components, 1992, sections 7.4 and 8.3). It gives the variance
of each candidate's time, drift included, and of each ratio, without the drift.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nws_sweep.records import Estimate, LoaderSettings

# Prior of the noise and of the drift: standard deviation of the logarithm of the time
# of a window, with the weight of one window. Without it two equal windows would have no
# noise.
_PRIOR_SPREAD = 0.02
_PASSES = 30  # of the variances, which converge geometrically

Times = Mapping[int, float]  # of one candidate, by round: seconds of any unit of work


def student_t_975(freedom: float) -> float:
    """Computes the 97.5 % quantile of Student's t for ``freedom`` degrees of freedom,
    at least 2.

    It is right to within 1 %; above 4 degrees of freedom, to within 0.02 %: the
    expansion of Cornish and Fisher about the normal quantile (Abramowitz and Stegun,
    Handbook of Mathematical Functions, 26.7.5).
    """
    z = statistics.NormalDist().inv_cdf(0.975)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z)
        / (92160 * freedom**4)
    )


def student_t(t: float, freedom: float) -> tuple[float, float]:
    """Computes the density of Student's t at ``t``, and the probability of less, which
    is right to within 0.002.

    The probability is that of a normal variable (Wallace, Bounds on normal
    approximations to Student's and the chi-square distributions, Annals of Mathematical
    Statistics 30, 1959).
    """
    power = math.log1p(t * t / freedom)
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    density = math.exp(scale - (freedom + 1) / 2 * power) / math.sqrt(freedom * math.pi)
    size = math.sqrt(freedom * power) * (8 * freedom + 1) / (8 * freedom + 3)
    return density, statistics.NormalDist().cdf(math.copysign(size, t))


def estimate_of(value: float, half_width: float | None, count: int) -> Estimate:
    """Gives a value the interval whose logarithm has this half-width; None for no
    interval."""
    if half_width is None or value <= 0:
        return Estimate(value=value, low=None, high=None, n=count)
    factor = math.exp(half_width)
    return Estimate(value=value, low=value / factor, high=value * factor, n=count)


@dataclass(frozen=True)
class Fit:
    """Candidates compared by the rounds that they were measured in.

    Attributes:
        logs: Logarithm of the time of each of n candidates in a usual round.
        effects: Logarithm of the time in a round / the time in a usual round, by round.
        noise: Standard deviation of the logarithm of one time, without the drift.
        covariance: Covariance of ``logs`` / the square of ``noise``, shape (n, n), in
            their order; the drift included.
        freedom: Degrees of freedom of ``noise``, at least 2, with which a loss can be
            expected.
    """

    logs: Mapping[LoaderSettings, float]
    effects: Times
    noise: float
    covariance: NDArray[np.float64]
    freedom: float

    def spread(
        self, candidate: LoaderSettings, rival: LoaderSettings | None = None
    ) -> float:
        """Standard deviation of the logarithm of the time of a candidate, or of its
        ratio to the time of a rival."""
        places = list(self.logs)
        place = places.index(candidate)
        variance = self.covariance[place, place]
        if rival is not None:
            rival_place = places.index(rival)
            variance += (
                self.covariance[rival_place, rival_place]
                - 2 * self.covariance[place, rival_place]
            )
        return self.noise * math.sqrt(max(0.0, variance))

    @property
    def quantile(self) -> float:
        """How many standard deviations a 95 % interval has on each side."""
        return student_t_975(self.freedom)


def fit(times: Mapping[LoaderSettings, Times]) -> Fit:
    """Fits candidates by the times of their rounds, which are more than 0; candidates
    without rounds are left out.

    Solves Henderson's equations for the effects of candidates and rounds, and estimates
    both variances from the residual and the effects of rounds, in turn. Without any
    round there is no noise.
    """
    with_rounds = {
        settings: by_round for settings, by_round in times.items() if by_round
    }
    if not with_rounds:
        return Fit(
            logs={}, effects={}, noise=0.0, covariance=np.zeros((0, 0)), freedom=2.0
        )
    rounds = sorted(
        {number for by_round in with_rounds.values() for number in by_round}
    )
    design, logs = _design(list(with_rounds.values()), rounds)
    squares = design.T @ design
    products = design.T @ logs
    count = len(with_rounds)
    is_round = np.arange(len(squares)) >= count
    noise = drift = _PRIOR_SPREAD**2  # variances
    for _ in range(_PASSES):
        inverse = np.linalg.inv(squares + np.diag(is_round * noise / drift))
        solution = inverse @ products
        effects = solution[count:]
        residual = max(0.0, float(logs @ (logs - design @ solution)))
        uncertain = noise * float(np.trace(inverse[count:, count:]))
        noise = (residual + _PRIOR_SPREAD**2) / (len(logs) - count + 1)
        drift = (float(effects @ effects) + uncertain + _PRIOR_SPREAD**2) / (
            len(rounds) + 1
        )
    inverse = np.linalg.inv(squares + np.diag(is_round * noise / drift))
    spent = len(rounds) - noise / drift * float(np.trace(inverse[count:, count:]))
    return Fit(
        logs=dict(zip(with_rounds, solution[:count].tolist(), strict=True)),
        effects=dict(zip(rounds, effects.tolist(), strict=True)),
        noise=math.sqrt(noise),
        covariance=inverse[:count, :count],
        freedom=max(2.0, len(logs) - count - spent + 1),
    )


def _design(
    times: Sequence[Times], rounds: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Makes the design matrix, one row for each time, and the logarithms of the times.

    Columns are candidates, then rounds: the candidate and the round of a time are 1.
    """
    rows: list[NDArray[np.float64]] = []
    seconds: list[float] = []
    for candidate, by_round in enumerate(times):
        for number, time_s in by_round.items():
            row = np.zeros(len(times) + len(rounds))
            row[candidate] = 1
            row[len(times) + rounds.index(number)] = 1
            rows.append(row)
            seconds.append(time_s)
    return np.array(rows), np.log(seconds)
