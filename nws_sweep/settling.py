"""When a trial has enough: it is precise, or a limit is reached. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nws_sweep.conditions import Conditions
from nws_sweep.quantities import SEQUENTIAL, all_bursts, summarise
from nws_sweep.records import Burst, Estimate, Turn
from nws_sweep.stats import estimate_mean
from nws_sweep.trial import epoch_bursts, steady_bursts, whole_epochs


def settled(turns: Sequence[Turn], conditions: Conditions) -> bool:
    """Whether the trial has what was asked for: in mode ``epoch`` its epochs, else the precision.

    Precise means: at least ``bursts`` windows, their 95 % interval no wider than ``precision`` to either side, and a
    queue whose change can explain no more than that either. It must have been so one window earlier too: whoever stops
    at the first narrow interval picks those that are narrow by luck.
    """
    if conditions.rules.mode == "epoch":
        return len(epoch_bursts(all_bursts(turns))) >= conditions.rules.epochs
    return _is_precise(turns, conditions) and _is_precise(_before_latest(turns), conditions)


def _before_latest(turns: Sequence[Turn]) -> Sequence[Turn]:
    """The turns before the latest one that brought a window or an epoch."""
    brought = [number for number, turn in enumerate(turns) if steady_bursts(turn.bursts) or epoch_bursts(turn.bursts)]
    return turns[: brought[-1]] if brought else ()


def _is_precise(turns: Sequence[Turn], conditions: Conditions) -> bool:
    bursts = all_bursts(turns)
    if whole_epochs(bursts, conditions):
        return _precise(_epoch_estimate(epoch_bursts(bursts)), conditions)
    if not steady_bursts(bursts):
        return False
    found = summarise(turns, conditions)
    return _precise(found.batch_s, conditions) and (found.bias_bound or 0.0) <= conditions.rules.precision


def _epoch_estimate(epochs: Sequence[Burst]) -> Estimate | None:
    lengths = [epoch.elapsed_s for epoch in epochs]
    return estimate_mean(lengths, sum(lengths) / len(lengths), SEQUENTIAL) if lengths else None


def _precise(estimate: Estimate | None, conditions: Conditions) -> bool:
    if estimate is None or estimate.n < conditions.rules.bursts:
        return False
    return half_width(estimate) <= conditions.rules.precision


def half_width(estimate: Estimate) -> float:
    """Half the width of the interval as a share of the mean; infinite where there is none."""
    if estimate.low is None or estimate.high is None:
        return math.inf
    return math.sqrt(estimate.high / estimate.low) - 1


def out_of_limits(bursts: Sequence[Burst], conditions: Conditions) -> str:
    """Which limit a trial has reached that is not precise enough yet; empty if none."""
    rules = conditions.rules
    if rules.mode == "epoch":  # as many as were asked for, however long they take
        return ""
    if not (steady_bursts(bursts) or epoch_bursts(bursts)):
        return ""  # one window, or one epoch, is always taken
    if sum(burst.elapsed_s for burst in bursts) >= rules.max_seconds:
        return f"measure.max_seconds={rules.max_seconds:g}"
    if rules.max_batches is not None and sum(burst.batches for burst in bursts) >= rules.max_batches:
        return f"measure.max_batches={rules.max_batches}"
    return ""
