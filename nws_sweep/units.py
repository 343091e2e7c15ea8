"""Formats numbers with units; values are in seconds and bytes.

A number with an interval has two or three digits, by the rounding rule of the Particle
Data Group: two digits of half the width of the interval are significant if they are 10
to 35, else one. So 6.234 s is 6.23 s with an uncertainty of 5 % (0.31 s), and 6.2 s
with one of 12 % (0.75 s). An interval that is wider than half of the number stands in
its place, and a time is unknown if its ends are more than tenfold apart.
"""

import math
from collections.abc import Sequence
from datetime import datetime

from nws_sweep.records import Estimate

NOTHING = "-"
UNKNOWN = "unknown"
ROUGHLY = 1.0  # uncertainty of a figure that has two digits
# half of an interval / its number, above which the number would promise too much
_WIDE = 0.25
_TOLD = 10.0  # high / low of an interval, above which it tells nothing


def seconds(value: float | None, uncertainty: float | None = None) -> str:
    """Two or three significant digits in µs, ms, s or min; ``uncertainty`` is half the
    interval / the value."""
    if value is None:
        return NOTHING
    # 0.9999 s is 1.00 s, not 1000 ms
    factor, unit = _unit(float(f"{value:.{_digits(value, uncertainty) - 1}e}"))
    return f"{number(value * factor, uncertainty)} {unit}"


def _unit(value: float) -> tuple[float, str]:
    """The unit of a number of seconds, and what to multiply by."""
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")):
        if value < limit:
            return factor, unit
    return 1 / 60, "min"


def duration(value: float) -> str:
    """How long something will take: tens of seconds, or minutes."""
    if value < 90:
        return f"{max(10, round(value, -1)):.0f} s"
    return counted(max(2, round(value / 60)), "minute")


def moment(time: str) -> str:
    """An ISO 8601 time with zone as ``2026-11-29 19:15``, in local time."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M}"


def limit(value: float) -> str:
    """A limit as its number says: seconds, or whole minutes from two on."""
    minutes = value / 60
    if minutes >= 2 and minutes.is_integer():
        return f"{minutes:.0f} minutes"
    return f"{value:g} s"


def interval(estimate: Estimate | None) -> str:
    """An estimate in seconds with half the width of its interval, if any, in percent; a
    wide interval by its ends, such as ``about 0.1 to 0.25 s``."""
    if estimate is None:
        return NOTHING
    half_width = uncertainty(estimate)
    if half_width is None:
        return seconds(estimate.value)
    if half_width > _WIDE:
        return _between(*estimate.ends)
    return f"{seconds(estimate.value, half_width)} ±{percent(half_width)}"


def as_exact_as(value: float | None, estimate: Estimate | None) -> str:
    """Seconds that are derived from an estimate, with the digits that its interval
    leaves; beside a wide interval the ends, as ``interval`` gives them."""
    half_width = uncertainty(estimate)
    if value is None or estimate is None or half_width is None or half_width <= _WIDE:
        return seconds(value, half_width)
    return interval(estimate.scaled(value / estimate.value))


def _between(low: float, high: float) -> str:
    """The ends of a wide interval in seconds, in the unit of the upper end."""
    factor, unit = _unit(float(f"{high:.0e}"))
    return _about(low * factor, high * factor, unit)


def _about(low: float, high: float, unit: str = "") -> str:
    ends = _ends(low, high)
    return ends if ends == UNKNOWN else f"about {ends} {unit}".rstrip()


def _ends(low: float, high: float) -> str:
    """The ends of a wide interval, such as ``0.1 to 0.25``; unknown if they are more
    than tenfold apart."""
    if high > _TOLD * low:
        return UNKNOWN
    return f"{_roughly(low)} to {_roughly(high)}"


def _roughly(value: float) -> str:
    """Two significant digits if they are 10 to 35, else one."""
    two_digits = f"{value:.1e}"
    digits = 1 if float(two_digits.partition("e")[0]) <= 3.5 else 0
    return f"{float(f'{value:.{digits}e}'):g}"


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


def rate(estimate: Estimate | None) -> str:
    """A rate with the digits that its interval leaves; a wide interval by its ends."""
    if estimate is None:
        return NOTHING
    half_width = uncertainty(estimate) or 0.0
    if half_width <= _WIDE:
        return number(estimate.value, half_width)
    return _about(*estimate.ends)


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
    return f"{number(value, ROUGHLY if uncertainty is None else uncertainty)}x"


def quotient(value: float, low: float, high: float) -> tuple[str, str]:
    """A quotient with two or three digits, the last one that of half its interval, and
    the interval: ``1.9`` and ``1.6 to 2.2``; beside a wide interval, no quotient, and
    it is unknown if the ends are more than tenfold apart."""
    if (high - low) / 2 > _WIDE * value:
        return "", _ends(low, high)
    exponent = math.floor(math.log10(value))
    last = math.floor(math.log10(max((high - low) / 2, value / 1000)))
    decimals = min(max(-last, 1 - exponent), 2 - exponent)
    shown = [
        f"{round(number, decimals):.{max(0, decimals)}f}"
        for number in (value, low, high)
    ]
    return shown[0], f"{shown[1]} to {shown[2]}"


def share(value: float | None) -> str:
    """A fraction in percent."""
    return NOTHING if value is None else f"{100 * value:.0f} %"


def counted(count: float, noun: str) -> str:
    """``1 worker``, ``2 workers``, ``no workers``, ``2 batches``, ``2 epochs``."""
    if count == 1:
        return f"1 {noun}"
    amount = format(count, "g") if count else "no"
    return f"{amount} {noun}{'es' if noun.endswith('tch') else 's'}"


def listed(names: Sequence[str], most: int, last: str = "and") -> str:
    """``4``, ``4 and 8``, or ``0, 4, 8 and 2 more``, with at most so many names."""
    shown = [*names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    *first, final = shown
    return f"{', '.join(first)} {last} {final}" if first else final


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
