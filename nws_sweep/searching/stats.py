"""Estimates with intervals. Pure functions over sequences of numbers."""

import math
import statistics
from collections.abc import Sequence

from nws_sweep.results import Estimate

# Fewer windows have no interval: their spread is too uncertain.
MIN_WINDOWS_FOR_INTERVAL = 3

# 97.5 % quantiles of Student's t for 2 to 30 degrees of freedom (tests integrate the density).
_T_975 = (
    4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314,
    2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452,
    2.0423,
)  # fmt: skip


def student_t_975(degrees_of_freedom: int) -> float:
    """The 97.5 % quantile of Student's t, for a two-sided interval of 95 %.

    From a table up to 30 degrees of freedom; above, the first terms of the Cornish-Fisher expansion about the normal
    quantile (Abramowitz and Stegun, 26.7.5), correct to 4 decimals there. At least 2 degrees of freedom.
    """
    if degrees_of_freedom <= 30:
        return _T_975[degrees_of_freedom - 2]
    z = statistics.NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * degrees_of_freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees_of_freedom**2)


def estimate_mean(window_means: Sequence[float], overall: float, widened_by: float = 1.0) -> Estimate:
    """A mean per batch with its 95 % interval; the unit of replication is the window.

    Batches inside a window are not independent, because n workers deliver in multiples of n. Their means over whole
    multiples of the workers nearly are. The interval is Student's t on the logarithms: it stays above zero and fits
    times, whose errors are proportional. Its centre is the overall mean, which weights each window by its length. Below
    three windows, or if one took no time, there is no interval.

    Args:
        window_means: Seconds per batch of each window.
        overall: Total seconds / total batches over all windows.
        widened_by: Factor on the half-width of Student's interval (on the log scale).
    """
    n = len(window_means)
    if n < MIN_WINDOWS_FOR_INTERVAL or min(window_means) <= 0:
        return Estimate(value=overall, low=None, high=None, n=n)
    spread = statistics.stdev(math.log(mean) for mean in window_means)
    factor = math.exp(widened_by * student_t_975(n - 1) * spread / math.sqrt(n))
    return Estimate(value=overall, low=overall / factor, high=overall * factor, n=n)


def half_width(estimate: Estimate) -> float:
    """Half the width of the interval as a share of the mean; infinite without an interval."""
    if estimate.low is None or estimate.high is None:
        return math.inf
    return math.sqrt(estimate.high / estimate.low) - 1
