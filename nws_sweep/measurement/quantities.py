"""What the turns of one trial say together, whether that is enough, and whether it can be true. Pure.

Both sides of the queue are looked at: batches taken by the consumer, and samples finished by the workers. Over a long
time both rates are equal; over any window they differ by what the queue holds more or less at its end. Where the queue
fills or empties from window to window, the steady pace is that of the slower side: a queue that fills has workers ahead
of what they can keep up (batches that wait behind a slow one, a consumer that is slower), one that empties a consumer
that lives on what lay ready. In balance it is the side that is not held up by the other: the workers where the consumer
waits, since what they finish does not come in clumps, else the consumer.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nws_sweep import units
from nws_sweep.measurement.schedule import Conditions, beginnings, counted, epoch_bursts, steady_bursts, whole_epochs
from nws_sweep.measurement.stats import estimate_mean, half_width, outliers
from nws_sweep.results import Burst, BurstKind, Estimate, Measurement, Noise, RankMeasurement, Turn

# A consumer that waits for a smaller share of its time is not held up by the workers.
_HARDLY_WAITS = 0.05
# Standard errors from which on a queue that fills or empties does so by more than chance.
_BEYOND_CHANCE = 2.0
# Whoever measures until the interval is narrow picks intervals that are too narrow. With this factor, and the rule of
# ``settled``, a nominal 95 % covers 94 to 97 % in simulations (test_quantities.py), without them 90 to 96 %.
_SEQUENTIAL = 1.1
# A consumer with a smaller share of the time is the call of one that does nothing.
LEAST_CONSUMER = 0.01
_FEWEST_POINTS_FOR_GROWTH = 3
# What a process may read from storage by the way, such as a part of itself that it needs for the first time.
_MOST_STRAY_BYTES = 65536
# A fault brings its surroundings too, as far as the device reads ahead (128 kB to 8 MB).
_BYTES_OF_A_FAULT = 2**23
_PROGRAM_BYTES = 2**20
# CPU time and pace come from stretches that do not coincide to the batch.
_MARGIN = 1.05


def all_bursts(turns: Sequence[Turn]) -> list[Burst]:
    """The bursts of all turns in order."""
    return [burst for turn in turns for burst in turn.bursts]


def summarise(turns: Sequence[Turn], conditions: Conditions) -> Measurement:
    """The quantities of a trial.

    In mode ``epoch`` the end of an epoch counts, as for a stopwatch; in mode ``steady`` it does not, since only some
    candidates are seen to the end.

    Raises:
        ValueError: If no batch was taken at all.
    """
    bursts = all_bursts(turns)
    begun, epochs, steady = beginnings(bursts, conditions), epoch_bursts(bursts), _steady(bursts, conditions)
    if not begun:
        raise ValueError("no batch was taken")
    running = _running(turns)
    made = sum(_batches_made(turn, conditions) for turn in running)
    cpu_s = sum(turn.after.cpu_s - turn.before.cpu_s for turn in running)
    disk = [
        turn.after.disk_bytes - turn.before.disk_bytes
        for turn in running
        if turn.after.disk_bytes is not None and turn.before.disk_bytes is not None
    ]
    windows, batch_s = (steady.windows, steady.batch_s) if steady else (epochs, None)
    found = Measurement(
        startup_s=sum(burst.startup_s or 0.0 for burst in begun) / len(begun),
        epoch_s=_epoch_s(bursts, steady, conditions),
        loading_s=_loading_s(bursts, conditions),
        cpu_s=cpu_s / made if made and cpu_s > 0 else None,
        memory_bytes=_largest(turn.after.memory_bytes for turn in turns),
        shm_bytes=_largest(turn.after.shm_bytes for turn in turns),
        memory_growth_bytes=_growth_bytes(turns),
        disk_bytes=sum(disk) / made if made and disk else None,
        ranks=_of_ranks(windows, begun, batch_s),
    )
    if steady:
        return _with_pace(found, steady, conditions)
    return _with_shares(found, epochs) if epochs else found


def _of_ranks(windows: Sequence[Burst], begun: Sequence[Burst], batch_s: float | None) -> tuple[RankMeasurement, ...]:
    """The quantities of each rank; none for one alone."""
    windows = [burst for burst in windows if burst.batches]
    count = min((len(burst.ranks) for burst in (*windows, *begun)), default=0) if windows else 0
    return tuple(_of_rank(number, windows, begun, batch_s) for number in range(count))


def _of_rank(number: int, windows: Sequence[Burst], begun: Sequence[Burst], batch_s: float | None) -> RankMeasurement:
    own = [burst.ranks[number] for burst in windows]
    startups_s = [burst.ranks[number].startup_s or 0.0 for burst in begun]
    taken = sum(burst.batches for burst in own)
    wait_s, consume_s = sum(sum(burst.wait_s) for burst in own), sum(sum(burst.consume_s) for burst in own)
    means_s = [(sum(burst.wait_s) + sum(burst.consume_s)) / burst.batches for burst in own]
    return RankMeasurement(
        rank=number,
        startup_s=sum(startups_s) / len(startups_s) if startups_s else 0.0,
        own_s=estimate_mean(means_s, (wait_s + consume_s) / taken, _SEQUENTIAL),
        wait_s=wait_s / taken,
        consume_s=consume_s / taken,
        meet_s=sum(sum(burst.meet_s) for burst in own) / taken,
        samples_per_s=sum(burst.samples for burst in own) / taken / batch_s if batch_s else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steady:
    """The pace of windows, without start-up and end, on the side of the queue that decides."""

    windows: Sequence[Burst]
    by_workers: bool
    paced_s: Sequence[float]
    batch_s: float
    consume_s: float
    bias_bound: float

    @property
    def estimate(self) -> Estimate:
        return estimate_mean(self.paced_s, self.batch_s, _SEQUENTIAL)


def _with_pace(measurement: Measurement, steady: _Steady, conditions: Conditions) -> Measurement:
    batch_s, wait_s = steady.batch_s, max(0.0, steady.batch_s - steady.consume_s)
    loads_itself = conditions.settings.num_workers == 0 and steady.consume_s >= LEAST_CONSUMER * batch_s
    samples = sum(burst.samples for burst in steady.windows)
    batch_length = samples / _taken(steady.windows) if samples else conditions.batch_length
    return replace(
        measurement,
        loading_s=wait_s if loads_itself else measurement.loading_s,
        batch_s=steady.estimate,
        bias_bound=steady.bias_bound,
        samples_per_s=batch_length / batch_s if batch_s > 0 else None,
        wait_s=wait_s,
        consume_s=steady.consume_s,
        stall_fraction=wait_s / batch_s if batch_s > 0 else None,
    )


def _with_shares(measurement: Measurement, epochs: Sequence[Burst]) -> Measurement:
    """Of epochs without a steady pace: what of them is waiting, starts included, and what the consumer's."""
    taken = max(1, _taken(epochs))
    wait_s, consume_s = sum(sum(burst.wait_s) for burst in epochs), sum(sum(burst.consume_s) for burst in epochs)
    stall_fraction = wait_s / (wait_s + consume_s) if wait_s + consume_s > 0 else None
    return replace(measurement, wait_s=wait_s / taken, consume_s=consume_s / taken, stall_fraction=stall_fraction)


def _steady(bursts: Sequence[Burst], conditions: Conditions) -> _Steady | None:
    epochs = epoch_bursts(bursts)
    chosen = [_after_first_clump(burst, conditions.clump) for burst in epochs] if epochs else steady_bursts(bursts)
    windows = [burst for burst in chosen if burst.batches]
    if not windows:  # an epoch of one clump has a start and an end, and no steady state
        return None
    taken, made = _taken(windows), _made(windows, conditions)
    by_workers = bool(made) and _workers_decide(windows, conditions)
    # Where nothing is counted the queue may have gone from full to empty.
    bias_bound = conditions.queue / taken if made is None else abs(made - taken) / taken
    return _Steady(
        windows=windows,
        paced_s=[_paced_s([burst], conditions, by_workers) for burst in windows],
        by_workers=by_workers,
        batch_s=_paced_s(windows, conditions, by_workers),
        consume_s=sum(sum(burst.consume_s) for burst in windows) / taken,
        bias_bound=0.0 if epochs else bias_bound,
    )


def _paced_s(bursts: Sequence[Burst], conditions: Conditions, by_workers: bool) -> float:
    """Seconds per batch on one side of the queue."""
    made = _made(bursts, conditions) if by_workers else None
    return sum(burst.elapsed_s for burst in bursts) / (made or _taken(bursts))


def _workers_decide(windows: Sequence[Burst], conditions: Conditions) -> bool:
    """Whether the workers' side shows the steady pace; see the module."""
    gains = [(burst.produced or 0) / conditions.batch_length - burst.batches for burst in windows]
    mean = sum(gains) / len(gains)
    chance = _BEYOND_CHANCE * statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    if abs(mean) > chance:
        return mean < 0
    waiting = sum(sum(burst.wait_s) for burst in windows) / sum(burst.elapsed_s for burst in windows)
    return waiting >= _HARDLY_WAITS


def _loading_s(bursts: Sequence[Burst], conditions: Conditions) -> float | None:
    """Seconds per batch of the latest window without the consumer; None if there is none, or its epoch ended in it."""
    windows = [b for b in bursts if b.kind is BurstKind.LOADING and b.batches and b.startup_s is None]
    return _paced_s(windows[-1:], conditions, True) if windows and not windows[-1].ended_epoch else None


def _taken(bursts: Sequence[Burst]) -> int:
    return sum(burst.batches for burst in bursts)


def _made(bursts: Sequence[Burst], conditions: Conditions) -> float | None:
    """Batches that the workers made meanwhile, fractions included; None if they were not counted."""
    if not conditions.settings.num_workers or not counted(bursts):
        return None
    return sum(burst.produced or 0 for burst in bursts) / conditions.batch_length


def _after_first_clump(burst: Burst, clump: int) -> Burst:
    """The whole clumps of an epoch but its first, which carries the start-up: n batches arrive together with it."""
    kept = slice(clump, burst.batches // clump * clump)
    waits = burst.wait_s[kept]
    return replace(
        burst,
        startup_s=None,
        wait_s=waits,
        consume_s=burst.consume_s[kept],
        samples=burst.samples * len(waits) // burst.batches if burst.batches else 0,
        end_s=None,
        produced=None,
        meet_s=burst.meet_s[kept],
        ranks=tuple(_after_first_clump(rank, clump) for rank in burst.ranks),
    )


def _epoch_s(bursts: Sequence[Burst], steady: _Steady | None, conditions: Conditions) -> float | None:
    """Seconds for an epoch, as measured, else its beginning and the steady pace; None if its length is unknown."""
    batches, begun = conditions.batches_per_epoch, beginnings(bursts, conditions)
    if batches is None:
        return None
    if epochs := epoch_bursts(begun):
        return _amortised(epochs, conditions)
    if not steady or not begun:
        return None
    return _mean_epoch_s([b.elapsed_s + max(0, batches - b.batches) * steady.batch_s for b in begun], conditions)


def _amortised(epochs: Sequence[Burst], conditions: Conditions) -> float:
    """The mean of whole epochs; the workers' end counts in mode ``epoch`` only."""
    counts_end = conditions.rules.mode == "epoch"
    return _mean_epoch_s(
        [epoch.elapsed_s - (0.0 if counts_end else epoch.end_s or 0.0) for epoch in epochs], conditions
    )


def _mean_epoch_s(lengths_s: Sequence[float], conditions: Conditions) -> float:
    """The mean of epochs; where workers persist, of the first and as many later ones as make ``rules.epochs``."""
    if not conditions.settings.persistent_workers or len(lengths_s) == 1:
        return sum(lengths_s) / len(lengths_s)
    later_s = sum(lengths_s[1:]) / (len(lengths_s) - 1)
    return (lengths_s[0] + (conditions.rules.epochs - 1) * later_s) / conditions.rules.epochs


def costs_by_round(turns: Sequence[Turn], conditions: Conditions) -> dict[int, float]:
    """What candidates are ranked by, an epoch or a batch, as each round alone would have it, s."""
    bursts = all_bursts(turns)
    steady = _steady(bursts, conditions)
    epoch_s = _epoch_s(bursts, steady, conditions)
    costs = {turn.round: _cost_of_turn(turn, steady, epoch_s, conditions) for turn in turns}
    return {number: cost_s for number, cost_s in costs.items() if number is not None and cost_s is not None}


def _cost_of_turn(turn: Turn, steady: _Steady | None, epoch_s: float | None, conditions: Conditions) -> float | None:
    epochs = epoch_bursts(turn.bursts)
    if epochs and epoch_s is not None:
        return _amortised(epochs, conditions)
    windows = [burst for burst in epochs or steady_bursts(turn.bursts) if burst.batches]
    if steady is None or not windows:
        return None
    pace_s = _paced_s(windows, conditions, steady.by_workers)
    if epoch_s is None:
        return pace_s
    # The start was measured once; only the pace is this round's.
    return max(epoch_s + (conditions.batches_per_epoch or 0) * (pace_s - steady.batch_s), pace_s)


def _running(turns: Sequence[Turn]) -> list[Turn]:
    """The turns that are not thrown away; those that start workers are left out where there are others."""
    counting = [turn for turn in turns if any(burst.counts for burst in turn.bursts)]
    running = [turn for turn in counting if all(burst.startup_s is None for burst in turn.bursts)]
    return running or counting or list(turns)


def _batches_made(turn: Turn, conditions: Conditions) -> float:
    made = _made(turn.bursts, conditions)
    whole = epoch_bursts(turn.bursts)  # all that is made is taken, and the last batch is shorter
    return _taken(turn.bursts) if made is None or whole else made


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _growth_bytes(turns: Sequence[Turn]) -> float | None:
    """Growth of the memory per 1000 batches: the slope over the turns after the first, in which the loader started."""
    held, taken = {}, 0
    for turn in turns:
        taken += _taken(turn.bursts)
        loaded = any(burst.kind is not BurstKind.LOADING for burst in turn.bursts)  # else workers were started for it
        if loaded and turn.after.memory_bytes is not None:
            held[taken] = turn.after.memory_bytes
    batches, memory = list(held)[1:], list(held.values())[1:]
    enough = len(batches) >= _FEWEST_POINTS_FOR_GROWTH
    return 1000 * statistics.linear_regression(batches, memory).slope if enough else None


def came_from_disk(turn: Turn, *, at_first: bool = False) -> bool:
    """Whether a turn had to read data from storage, be it a few of its samples: one may take as long as hundreds.

    What page faults bring to a new process, and a little more, is the program itself, whose libraries come back page by
    page where the kernel had dropped them. Later it is a dataset that is mapped into memory.
    """
    before, after = turn.before.disk_bytes, turn.after.disk_bytes
    if before is None or after is None:
        return False
    faults = (turn.after.major_faults or 0) - (turn.before.major_faults or 0)
    program = _PROGRAM_BYTES + faults * _BYTES_OF_A_FAULT if at_first else 0
    return after - before - program > _MOST_STRAY_BYTES


def settled(turns: Sequence[Turn], conditions: Conditions) -> bool:
    """Whether the trial has what was asked for: in mode ``epoch`` its epochs, else the precision.

    Precise means: at least ``bursts`` windows, their 95 % interval no wider than ``precision`` to either side, and a
    queue whose change can explain no more than that either. It must have been so one window earlier too: whoever stops
    at the first narrow interval picks those that are narrow by luck.
    """
    if conditions.rules.mode == "epoch":
        return len(epoch_bursts(all_bursts(turns))) >= conditions.rules.epochs
    brought = [number for number, turn in enumerate(turns) if steady_bursts(turn.bursts) or epoch_bursts(turn.bursts)]
    return bool(brought) and _is_precise(turns, conditions) and _is_precise(turns[: brought[-1]], conditions)


def _is_precise(turns: Sequence[Turn], conditions: Conditions) -> bool:
    bursts, rules = all_bursts(turns), conditions.rules
    if whole_epochs(bursts, conditions):
        lengths = [epoch.elapsed_s for epoch in epoch_bursts(bursts)]
        estimate, bias_bound = estimate_mean(lengths, sum(lengths) / max(1, len(lengths)), _SEQUENTIAL), 0.0
    elif steady := _steady(bursts, conditions):
        estimate, bias_bound = steady.estimate, steady.bias_bound
    else:
        return False
    return estimate.n >= rules.bursts and half_width(estimate) <= rules.precision and bias_bound <= rules.precision


def out_of_limits(bursts: Sequence[Burst], conditions: Conditions) -> str:
    """Which limit a trial has reached that is not precise enough yet; empty if none."""
    rules = conditions.rules
    if rules.mode == "epoch":  # as many as were asked for, however long they take
        return ""
    if not (steady_bursts(bursts) or epoch_bursts(bursts)):
        return ""  # one window, or one epoch, is always taken
    if sum(burst.elapsed_s for burst in bursts) >= rules.max_seconds:
        return f"measure.max_seconds={rules.max_seconds:g}"
    if rules.max_batches is not None and _taken(bursts) >= rules.max_batches:
        return f"measure.max_batches={rules.max_batches}"
    return ""


def violation(turns: Sequence[Turn], conditions: Conditions) -> str:
    """Why a trial cannot be true, with the figures; empty if it can.

    A free check: nothing is faster than its CPU time on all usable cores, nor than its consumer. Whole epochs are
    compared by the stopwatch, since their CPU time includes start and end; the consumer's time of all their batches is
    part of it, so that no limit follows from that of the later ones. Of windows the upper end of the interval is
    believed, and where there is none the slowest: the CPU time may be that of this one alone.
    """
    epochs = [epoch for epoch in epoch_bursts(all_bursts(turns)) if epoch.batches]
    steady = _steady(all_bursts(turns), conditions)
    if epochs:
        pace_s = sum(epoch.elapsed_s for epoch in epochs) / _taken(epochs)
    elif steady:
        pace_s = steady.estimate.high or max(steady.batch_s, *steady.paced_s)
    else:
        return ""
    claim, cpu_s = f"{units.seconds(pace_s)} a batch cannot be", _least_cpu_s(turns, conditions)
    if cpu_s is not None and pace_s * _MARGIN < cpu_s / conditions.cores:
        least = units.seconds(cpu_s / conditions.cores)
        cores = units.counted(conditions.cores, "usable CPU")
        return f"{claim}: it takes {units.seconds(cpu_s)} of CPU time, at least {least} on {cores}"
    if steady and not epochs and pace_s * _MARGIN < steady.consume_s:
        return f"{claim}: the consumer alone takes {units.seconds(steady.consume_s)}"
    return ""


def _least_cpu_s(turns: Sequence[Turn], conditions: Conditions) -> float | None:
    """CPU seconds that a batch takes for certain, starts, ends and what happens between the bursts left out."""
    running = _running(turns)
    for burst in all_bursts(running):
        if (burst.startup_s is not None or burst.ended_epoch) and burst.kind is not BurstKind.EPOCH:
            return None
    made = sum(_batches_made(turn, conditions) for turn in running)
    cpu_s = sum(turn.after.cpu_s - turn.before.cpu_s for turn in running)
    beside_s = sum(turn.elapsed_s - sum(burst.elapsed_s for burst in turn.bursts) for turn in running)
    return max(0.0, cpu_s - conditions.cores * max(0.0, beside_s)) / made if made else None


def noise_of(turns: Sequence[Turn], cores: float, first_burst: int = 0) -> Noise | None:
    """What disturbed a trial that may use so many CPUs, from the machine's counters round its turns; None without any.

    The first of their bursts has the number ``first_burst`` in the trial.
    """
    elapsed_s = sum(turn.elapsed_s for turn in turns)
    if elapsed_s <= 0:
        return None
    own_s = sum(turn.after.cpu_s - turn.before.cpu_s for turn in turns)
    measured = [(n, b.elapsed_s / b.batches) for n, b in enumerate(all_bursts(turns)) if b.counts and b.batches]
    return Noise(
        other_cpus=max(0.0, sum(turn.machine.busy_s for turn in turns) - own_s) / elapsed_s,
        steal=sum(turn.machine.steal_s for turn in turns) / (elapsed_s * cores),
        throttled=min(1.0, sum(turn.machine.throttled_s for turn in turns) / elapsed_s),
        outliers=tuple(first_burst + measured[index][0] for index in outliers([mean_s for _, mean_s in measured])),
    )
