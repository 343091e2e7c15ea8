"""A free check of every trial: nothing is faster than its CPU time on all usable cores, nor than its consumer. Pure."""

from __future__ import annotations

from nws_sweep import units
from nws_sweep.conditions import Conditions
from nws_sweep.records import Measurement

# CPU time and pace come from stretches that do not coincide to the batch.
_MARGIN = 1.05


def violation(
    found: Measurement,
    cpu_s: float | None,
    conditions: Conditions,
    *,
    stopwatch_s: float | None = None,
    slowest_s: float | None = None,
) -> str:
    """Why the measurement cannot be true, with the figures; empty if it can.

    Args:
        found: What was measured.
        cpu_s: CPU seconds that a batch takes for certain (``quantities.least_cpu_s``); None if unknown.
        conditions: What it was measured under.
        stopwatch_s: Seconds per batch of whole epochs, from the workers' start to their end; None where windows were
            measured. The CPU time of whole epochs includes start and end; the consumer's time of all their batches is
            part of it, so that no limit follows from that of the later ones, which ``found`` has.
        slowest_s: Seconds per batch of the slowest window, which is what is believed where there is no interval: the
            CPU time may be that of this window alone.
    """
    pace_s = _longest_believed_s(found, slowest_s) if stopwatch_s is None else stopwatch_s
    if pace_s is None:
        return ""
    claim = f"{units.seconds(pace_s)} a batch cannot be"
    if cpu_s is not None and pace_s * _MARGIN < cpu_s / conditions.cores:
        least = units.seconds(cpu_s / conditions.cores)
        cores = units.counted(conditions.cores, "usable CPU")
        return f"{claim}: it takes {units.seconds(cpu_s)} of CPU time, at least {least} on {cores}"
    if stopwatch_s is None and found.consume_s is not None and pace_s * _MARGIN < found.consume_s:
        return f"{claim}: the consumer alone takes {units.seconds(found.consume_s)}"
    return ""


def _longest_believed_s(found: Measurement, slowest_s: float | None) -> float | None:
    """The longest time per batch that the measurement allows: the upper end of its interval."""
    if found.batch_s is None:
        return None
    return found.batch_s.high or max(found.batch_s.value, slowest_s or 0.0)
