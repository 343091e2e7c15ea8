"""Ratios of two times with intervals, and their comparison with a tolerance. Pure."""

import math
from dataclasses import dataclass
from enum import Enum

from nws_sweep import units
from nws_sweep.records import Estimate, Measurement, Trial, TrialState


class Change(str, Enum):
    """The verdict on a ratio of two times."""

    SAME = "same"
    SLOWER = "slower"
    FASTER = "faster"
    UNCLEAR = "inconclusive"  # no interval, or a limit lies in it


class Quantity(str, Enum):
    """The unit of work that a time refers to."""

    BATCH = "batch"
    SAMPLE = "sample"
    EPOCH = "epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio of two times: time of the other / time of the base.

    ``half_width`` is half the width of the 95 % interval of its natural logarithm; None
    if there is no interval.
    """

    value: float
    half_width: float | None

    @property
    def log(self) -> float:
        """Its natural logarithm, about which the interval is symmetrical."""
        return math.log(self.value)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of its 95 % interval; None if there is none."""
        if self.half_width is None:
            return None
        factor = math.exp(self.half_width)
        return self.value / factor, self.value * factor

    def is_certain(self, close: float) -> bool:
        """Whether the interval is without 1, or no wider than a ratio whose logarithm is
        ``close``; also without an interval."""
        if self.half_width is None:
            return True
        return self.half_width <= max(abs(self.log), close)

    @property
    def speed_up(self) -> str:
        """How many times as fast the base is, with its interval: ``1.9x (1.6 to 2.2)``,
        or ``2x to 7x`` if this is wide."""
        if self.half_width == 0.0:
            return "the same"
        number, between = self._texts
        if number:
            return f"{number}x {between}".rstrip()
        if between == units.UNKNOWN:
            return between
        return f"{between.replace(' to', 'x to')}x"

    def as_fast_as(self, compared: str) -> str:
        """How fast the base is: ``1.9 times as fast as 0 (1.6 to 2.2)``; empty if it is
        unknown."""
        number, between = self._texts
        if between == units.UNKNOWN:
            return ""
        if not number:
            return f"{between} times as fast as {compared}"
        times = "" if float(number) == 1.0 else f"{number} times "
        return f"{times}as fast as {compared} {between}".rstrip()

    @property
    def times_as_long(self) -> str:
        """How long the other takes: ``1.9 times as long (1.6 to 2.2)``."""
        number, between = self._texts
        if between == units.UNKNOWN:
            return "an unknown time"
        if not number:
            return f"{between} times as long"
        return f"{number} times as long {between}".rstrip()

    @property
    def _texts(self) -> tuple[str, str]:
        """The ratio, and its interval in brackets, empty if there is none; or no ratio
        and a wide interval."""
        if self.ends is None:
            return units.number(self.value, units.ROUGHLY), ""
        number, between = units.quotient(self.value, *self.ends)
        if number:
            return (number, f"({between})")
        return ("", between)

    def __str__(self) -> str:
        """The ratio and its interval, such as ``1.9 (1.6 to 2.2)``."""
        return " ".join(filter(None, self._texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The times of two trials for the same quantity, s."""

    quantity: Quantity
    base: Estimate
    compared: Estimate

    @property
    def ratio(self) -> Ratio:
        """Time of the compared trial / time of the base; half-widths add in quadrature
        if both have intervals."""
        widths = [
            math.log(time.high / time.low) / 2
            for time in (self.base, self.compared)
            if time.low and time.high
        ]
        return Ratio(
            value=self.compared.value / self.base.value,
            half_width=math.hypot(*widths) if len(widths) == 2 else None,
        )


def change_of(ratio: Ratio, within: float) -> Change:
    """Decides on a ratio: the whole interval must lie within the tolerance, or beyond
    it.

    A tolerance ``within`` of 0.03 sets the limits at 1.03 and 1 / 1.03.
    """
    distance, margin = abs(ratio.log), math.log1p(within)
    if ratio.half_width is None or abs(distance - margin) < ratio.half_width:
        return Change.UNCLEAR
    if distance <= margin:
        return Change.SAME
    return Change.SLOWER if ratio.log > 0 else Change.FASTER


def times_of(base: Trial, compared: Trial) -> Times | None:
    """Finds the common times of two trials: per batch if the batch sizes are equal,
    else per sample; else per epoch.

    Of workers that persist and others, epochs are compared first: they differ in the
    start of an epoch. So are epochs with few batches, which have no steady pace. None
    if the trials have no quantity in common.
    """
    same_size = base.settings.batch_size == compared.settings.batch_size
    steady = Quantity.BATCH if same_size else Quantity.SAMPLE
    quantities = [steady, Quantity.EPOCH]
    persist = {trial.settings.persistent_workers for trial in (base, compared)}
    if len(persist) > 1 or not (base.is_steady and compared.is_steady):
        quantities.reverse()
    in_turn = (times_in(quantity, base, compared) for quantity in quantities)
    return next(filter(None, in_turn), None)


def times_in(quantity: Quantity, base: Trial, compared: Trial) -> Times | None:
    """Finds the times of two trials for this quantity; None unless both have one."""
    base_s, compared_s = time_of(base, quantity), time_of(compared, quantity)
    if base_s and compared_s:
        return Times(quantity=quantity, base=base_s, compared=compared_s)
    return None


def ratio_of(best: Trial, compared: Trial) -> Ratio | None:
    """Divides the time that ranks a trial by the time of the best; None if either has
    none.

    The best is the answer of a search, with whose rounds the interval was found;
    without it the interval is that of their batches.
    """
    if not best.objective_s or compared.objective_s is None:
        return None
    if best.settings == compared.settings:
        return Ratio(value=1.0, half_width=0.0)
    half_width = compared.measurement.ratio_half_width if compared.measurement else None
    times = times_of(best, compared)
    if half_width is None and times is not None:
        half_width = times.ratio.half_width
    return Ratio(value=compared.objective_s / best.objective_s, half_width=half_width)


def time_of(trial: Trial, quantity: Quantity) -> Estimate | None:
    """Finds the time of a batch, a sample or an epoch, s; None if it was not measured
    or the trial failed."""
    measured = trial.measurement
    if measured is None or trial.state is not TrialState.OK:
        return None
    if quantity is Quantity.EPOCH:
        return _epoch_of(measured)
    batch_s, rate = measured.batch_s, measured.samples_per_s
    if quantity is Quantity.BATCH or not batch_s:
        return batch_s
    if rate:
        return batch_s.scaled(1 / (rate * batch_s.value))
    return None


def _epoch_of(measured: Measurement) -> Estimate | None:
    """The time of an epoch, with the interval of its batches: start and end have
    none."""
    epoch_s, batch_s = measured.epoch_s, measured.batch_s
    if epoch_s and batch_s:
        return batch_s.scaled(epoch_s / batch_s.value)
    return Estimate(value=epoch_s, low=None, high=None, n=1) if epoch_s else None
