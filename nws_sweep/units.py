"""Numbers with units as people read them; seconds inside, scaled only when shown."""

from __future__ import annotations

from nws_sweep.records import Estimate

NOTHING = "-"


def seconds(value: float | None) -> str:
    """Three significant digits in µs, ms, s or min."""
    if value is None:
        return NOTHING
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")):
        if float(f"{value:.2e}") < limit:  # 0.9999 s is 1.00 s, not 1000 ms
            return f"{three_digits(value * factor)} {unit}"
    return f"{three_digits(value / 60)} min"


def interval(estimate: Estimate | None) -> str:
    """An estimate in seconds with half the width of its interval in per cent, where it has one."""
    if estimate is None:
        return NOTHING
    if estimate.low is None or estimate.high is None:
        return seconds(estimate.value)
    half_width = 50 * (estimate.high - estimate.low) / estimate.value
    return f"{seconds(estimate.value)} ±{half_width:.{0 if half_width >= 10 else 1}f} %"


def memory(value: float | None) -> str:
    """Three significant digits in B, kB, MB or GB, of which each is a thousand of the one before."""
    if value is None:
        return NOTHING
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if float(f"{abs(value):.2e}") >= factor:  # 999.9 kB is 1.00 MB
            return f"{three_digits(value / factor)} {unit}"
    return f"{value:.0f} B"


def per_second(value: float | None) -> str:
    """A rate with three significant digits."""
    return NOTHING if value is None else three_digits(value)


def ratio(value: float | None) -> str:
    """A gain, such as ``1.94x``."""
    return NOTHING if value is None else f"{three_digits(value)}x"


def ratio_interval(value: float, low: float | None, high: float | None) -> str:
    """A ratio with the ends of its interval, where it has one, such as ``0.82 (0.80 to 0.84)``."""
    ends = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return f"{value:.2f}{ends}"


def share(value: float | None) -> str:
    """A fraction in per cent."""
    return NOTHING if value is None else f"{100 * value:.0f} %"


def three_digits(value: float) -> str:
    """Three significant digits without an exponent."""
    exponent = int(f"{value:.2e}".partition("e")[2])  # after rounding: 9.999 is 10.0, not 10.00
    return f"{value:.{max(0, 2 - exponent)}f}"
