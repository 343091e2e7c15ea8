"""Formats numbers with units; values are in seconds and bytes.

A number with an interval has two or three digits, by the rounding rule of the Particle
Data Group: two digits of half the width of the interval are significant if they are 10
to 35, else one. So 6.234 s is 6.23 s with an uncertainty of 5 % (0.31 s), and 6.2 s
with one of 12 % (0.75 s).
"""

import math

from nws_sweep.records import Estimate

NOTHING = "-"
_ROUGHLY = 1.0  # uncertainty of a figure that has two digits


def seconds(value: float | None, uncertainty: float | None = None) -> str:
    """Two or three significant digits in µs, ms, s or min; ``uncertainty`` is half the
    interval / the value."""
    if value is None:
        return NOTHING
    rounded = float(f"{value:.{_digits(value, uncertainty) - 1}e}")
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")):
        if rounded < limit:  # 0.9999 s is 1.00 s, not 1000 ms
            return f"{number(value * factor, uncertainty)} {unit}"
    return f"{number(value / 60, uncertainty)} min"


def interval(estimate: Estimate | None) -> str:
    """An estimate in seconds with half the width of its interval, if any, in
    percent."""
    if estimate is None:
        return NOTHING
    half_width = uncertainty(estimate)
    return seconds(estimate.value, half_width) + (
        "" if half_width is None else f" ±{percent(half_width)}"
    )


def percent(value: float) -> str:
    """A small fraction in percent, with one decimal below 10 %."""
    in_percent = 100 * value
    return f"{in_percent:.{0 if in_percent >= 9.95 else 1}f} %"


def uncertainty(estimate: Estimate | None) -> float | None:
    """Half the relative width of the interval; None without an interval."""
    if (
        estimate is None
        or estimate.low is None
        or estimate.high is None
        or not estimate.value
    ):
        return None
    return (estimate.high - estimate.low) / (2 * estimate.value)


def memory(value: float | None) -> str:
    """Three significant digits in B, kB, MB or GB (powers of 1000)."""
    if value is None:
        return NOTHING
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if float(f"{abs(value):.2e}") >= factor:  # 999.9 kB is 1.00 MB
            return f"{number(value / factor)} {unit}"
    return f"{value:.0f} B"


def ratio(value: float, uncertainty: float | None = None) -> str:
    """A speed-up such as ``1.94x``; for the uncertainty see ``seconds``. Without one,
    it has two digits."""
    return f"{number(value, _ROUGHLY if uncertainty is None else uncertainty)}x"


def share(value: float | None) -> str:
    """A fraction in percent."""
    return NOTHING if value is None else f"{100 * value:.0f} %"


def counted(count: float, noun: str) -> str:
    """``1 worker``, ``2 workers``, ``no workers``."""
    return f"{format(count, 'g') if count else 'no'} {noun}{'' if count == 1 else 's'}"


def number(value: float | None, uncertainty: float | None = None) -> str:
    """Two or three significant digits without an exponent; for the uncertainty see
    ``seconds``."""
    if value is None:
        return NOTHING
    digits = _digits(value, uncertainty)
    rounded = f"{value:.{digits - 1}e}"
    # after rounding: 9.999 is 10.0, not 10.00
    exponent = int(rounded.partition("e")[2])
    return f"{value if uncertainty is None else float(rounded):.{max(0, digits - 1 - exponent)}f}"


def _digits(value: float, uncertainty: float | None) -> int:
    if not uncertainty or not value:
        return 3
    first_digit = 10 ** math.floor(math.log10(abs(value)))
    # 0.35: a third digit is significant, too
    return 3 if abs(value) * uncertainty < 0.355 * first_digit else 2
