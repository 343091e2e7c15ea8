"""What a trial consists of: which burst comes next, and what all bursts together say. Pure.

A trial in mode ``steady`` throws away a warm-up that covers the whole queue (prefetch_factor x num_workers batches) and
then takes windows of whole clumps: n workers deliver in clumps of n, so only means over multiples of n batches mean
anything. An epoch too short for that is measured whole, again and again, as mode ``epoch`` always does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nws_sweep.records import Burst, BurstKind, BurstRequest, LoaderSettings, Measurement, MeasureRules
from nws_sweep.stats import estimate_mean


def next_request(
    bursts: Sequence[Burst], settings: LoaderSettings, rules: MeasureRules, batches_per_epoch: int | None
) -> BurstRequest | None:
    """The burst to take next, given those taken; None when the trial has enough."""
    if whole_epochs(bursts, settings, rules, batches_per_epoch):
        return _next_epoch(bursts, rules)
    return _next_window(bursts, settings, rules)


def whole_epochs(
    bursts: Sequence[Burst], settings: LoaderSettings, rules: MeasureRules, batches_per_epoch: int | None
) -> bool:
    """Whether whole epochs are the unit: asked for, or an epoch has no room for the warm-up and for one window."""
    if rules.mode == "epoch":
        return True
    if batches_per_epoch is not None and batches_per_epoch < _warm_up_batches(settings) + rules.bursts * _clump(
        settings
    ):
        return True
    return any(burst.ended_epoch for burst in bursts) and not steady_bursts(bursts)


def _next_epoch(bursts: Sequence[Burst], rules: MeasureRules) -> BurstRequest | None:
    epochs = [burst for burst in bursts if burst.kind is BurstKind.EPOCH]
    elapsed_s = sum(burst.elapsed_s for burst in bursts)
    if rules.mode == "epoch":
        enough = len(epochs) >= rules.epochs
    else:
        enough = bool(epochs) and (elapsed_s >= rules.seconds or elapsed_s >= rules.max_seconds)
    return None if enough else BurstRequest(kind=BurstKind.EPOCH)


def _next_window(bursts: Sequence[Burst], settings: LoaderSettings, rules: MeasureRules) -> BurstRequest | None:
    windows = steady_bursts(bursts)
    steady_s = sum(burst.elapsed_s for burst in windows)
    elapsed_s = sum(burst.elapsed_s for burst in bursts)
    if len(windows) >= rules.bursts and steady_s >= rules.seconds:
        return None
    if windows and elapsed_s >= rules.max_seconds:
        return None
    if not bursts or bursts[-1].ended_epoch:
        return BurstRequest(kind=BurstKind.WARM_UP, min_batches=_warm_up_batches(settings))
    return BurstRequest(
        kind=BurstKind.STEADY,
        min_batches=_clump(settings),
        min_seconds=rules.seconds / rules.bursts,
        multiple_of=_clump(settings),
    )


def _clump(settings: LoaderSettings) -> int:
    return max(1, settings.num_workers)


def _warm_up_batches(settings: LoaderSettings) -> int:
    return max(1, settings.queued_batches)


def steady_bursts(bursts: Iterable[Burst]) -> list[Burst]:
    """The windows that count: those not cut short by the end of an epoch, whose last batches come out of the queue."""
    return [burst for burst in bursts if burst.kind is BurstKind.STEADY and not burst.ended_epoch and burst.batches]


def summarise(
    bursts: Sequence[Burst], settings: LoaderSettings, rules: MeasureRules, batches_per_epoch: int | None
) -> Measurement:
    """What the bursts of one trial say together.

    Args:
        bursts: All bursts of the trial, in order.
        settings: What the DataLoader was given.
        rules: How it was measured. In mode ``epoch`` the end of an epoch counts, as for a stopwatch; in mode ``steady``
            it does not, since only some candidates are seen to the end.
        batches_per_epoch: Length of an epoch; None if unknown, and then there is no epoch_s either: candidates must
            be ranked by the same quantity, and not all of them may have been seen for a whole epoch.

    Raises:
        ValueError: If no batch was taken at all.
    """
    startups = [burst.startup_s for burst in bursts if burst.startup_s is not None]
    if not startups:
        raise ValueError("no batch was taken")
    startup_s = sum(startups) / len(startups)
    windows = [_after_first_clump(burst, settings) for burst in _windows(bursts)]
    windows = [burst for burst in windows if burst.batches]
    if not windows:  # an epoch of one clump has a start and an end, and no steady state
        epoch_s = _epoch_s(bursts, rules, startup_s, 0.0, batches_per_epoch)
        return Measurement(startup_s=startup_s, epoch_s=epoch_s)
    batches = sum(burst.batches for burst in windows)
    wait_s = sum(sum(burst.wait_s) for burst in windows) / batches
    consume_s = sum(sum(burst.consume_s) for burst in windows) / batches
    batch_s = wait_s + consume_s
    means = [burst.elapsed_s / burst.batches for burst in windows]
    return Measurement(
        startup_s=startup_s,
        batch_s=estimate_mean(means, batch_s),
        samples_per_s=_samples_per_batch(windows, settings) / batch_s if batch_s > 0 else None,
        wait_s=wait_s,
        consume_s=consume_s,
        stall_fraction=wait_s / batch_s if batch_s > 0 else None,
        epoch_s=_epoch_s(bursts, rules, startup_s, batch_s, batches_per_epoch),
    )


def _windows(bursts: Sequence[Burst]) -> list[Burst]:
    epochs = [burst for burst in bursts if burst.kind is BurstKind.EPOCH]
    return epochs or steady_bursts(bursts)


def _after_first_clump(burst: Burst, settings: LoaderSettings) -> Burst:
    """The whole clumps of an epoch but its first, which carries the start-up: n batches arrive together with it."""
    if burst.startup_s is None:
        return burst
    clump = _clump(settings)
    kept = slice(clump, burst.batches // clump * clump)
    waits = burst.wait_s[kept]
    return replace(
        burst,
        startup_s=None,
        wait_s=waits,
        consume_s=burst.consume_s[kept],
        samples=burst.samples * len(waits) // burst.batches,
        end_s=None,
    )


def _samples_per_batch(windows: Sequence[Burst], settings: LoaderSettings) -> float:
    samples, batches = sum(burst.samples for burst in windows), sum(burst.batches for burst in windows)
    return samples / batches if samples else settings.batch_size


def _epoch_s(
    bursts: Sequence[Burst], rules: MeasureRules, startup_s: float, batch_s: float, batches_per_epoch: int | None
) -> float | None:
    if batches_per_epoch is None:
        return None
    epochs = [burst for burst in bursts if burst.kind is BurstKind.EPOCH]
    if not epochs:
        return startup_s + (batches_per_epoch - 1) * batch_s
    ends_s = 0.0 if rules.mode == "epoch" else sum(burst.end_s or 0.0 for burst in epochs)
    return (sum(burst.elapsed_s for burst in epochs) - ends_s) / len(epochs)
