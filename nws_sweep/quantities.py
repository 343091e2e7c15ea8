"""What the turns of one trial say together. Pure.

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

from nws_sweep.conditions import Conditions
from nws_sweep.records import Burst, BurstKind, Measurement, RankMeasurement, Turn
from nws_sweep.stats import estimate_mean, slope
from nws_sweep.trial import beginnings, counted, epoch_bursts, steady_bursts

# A consumer that waits for a smaller share of its time is not held up by the workers.
_HARDLY_WAITS = 0.05
# Standard errors from which on a queue that fills or empties does so by more than chance.
_BEYOND_CHANCE = 2.0
# Whoever measures until the interval is narrow picks intervals that are too narrow. With this factor, and the rule of
# ``settling``, a nominal 95 % covers 94 to 97 % in simulations (tests/test_settling.py), without them 90 to 96 %.
SEQUENTIAL = 1.1
# A consumer with a smaller share of the time is the call of one that does nothing.
LEAST_CONSUMER = 0.01
_FEWEST_POINTS_FOR_GROWTH = 3
# What a process may read from storage by the way, such as a part of itself that it needs for the first time.
_MOST_STRAY_BYTES = 65536
# A fault brings its surroundings too, as far as the device reads ahead (128 kB to 8 MB).
_BYTES_OF_A_FAULT = 2**23
_PROGRAM_BYTES = 2**20


def all_bursts(turns: Sequence[Turn]) -> list[Burst]:
    """The bursts of all turns in order."""
    return [burst for turn in turns for burst in turn.bursts]


def summarise(turns: Sequence[Turn], conditions: Conditions) -> Measurement:
    """The quantities of a trial.

    Args:
        turns: All turns of the trial, in order.
        conditions: What was measured, and how. In mode ``epoch`` the end of an epoch counts, as for a stopwatch; in
            mode ``steady`` it does not, since only some candidates are seen to the end.

    Raises:
        ValueError: If no batch was taken at all.
    """
    bursts = all_bursts(turns)
    startups = [burst.startup_s for burst in beginnings(bursts, conditions) if burst.startup_s is not None]
    if not startups:
        raise ValueError("no batch was taken")
    startup_s = sum(startups) / len(startups)
    steady = _steady(bursts, conditions)
    measurement = Measurement(
        startup_s=startup_s, epoch_s=_epoch_s(bursts, steady, conditions), loading_s=_loading_s(bursts, conditions)
    )
    if steady is not None:
        measurement = _with_pace(measurement, steady, conditions)
    elif epochs := epoch_bursts(bursts):
        measurement = _with_shares(measurement, epochs)
    if conditions.ranks > 1:
        measurement = _with_ranks(measurement, bursts, steady, conditions)
    return _with_resources(measurement, turns, conditions)


def _with_ranks(
    measurement: Measurement, bursts: Sequence[Burst], steady: _Steady | None, conditions: Conditions
) -> Measurement:
    windows = [burst for burst in (steady.windows if steady else epoch_bursts(bursts)) if burst.batches]
    begun, batch_s = beginnings(bursts, conditions), steady.batch_s if steady else None
    count = min((len(burst.ranks) for burst in (*windows, *begun)), default=0) if windows else 0
    return replace(measurement, ranks=tuple(_of_rank(number, windows, begun, batch_s) for number in range(count)))


def _of_rank(number: int, windows: Sequence[Burst], begun: Sequence[Burst], batch_s: float | None) -> RankMeasurement:
    own = [burst.ranks[number] for burst in windows]
    startups_s = [burst.ranks[number].startup_s or 0.0 for burst in begun]
    taken = sum(burst.batches for burst in own)
    wait_s, consume_s = sum(sum(burst.wait_s) for burst in own), sum(sum(burst.consume_s) for burst in own)
    means_s = [(sum(burst.wait_s) + sum(burst.consume_s)) / burst.batches for burst in own]
    return RankMeasurement(
        rank=number,
        startup_s=sum(startups_s) / len(startups_s) if startups_s else 0.0,
        own_s=estimate_mean(means_s, (wait_s + consume_s) / taken, SEQUENTIAL),
        wait_s=wait_s / taken,
        consume_s=consume_s / taken,
        meet_s=sum(sum(burst.meet_s) for burst in own) / taken,
        samples_per_s=sum(burst.samples for burst in own) / taken / batch_s if batch_s else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steady:
    """Windows and the pace that they show.

    Attributes:
        windows: The bursts, without start-up and end.
        paced_s: Seconds per batch of each window, on the side of the queue that decides.
        by_workers: Whether that is the workers' side.
        batch_s: The same over all windows.
        consume_s: Seconds per batch in the consumer.
        bias_bound: See ``Measurement``.
    """

    windows: tuple[Burst, ...]
    paced_s: tuple[float, ...]
    by_workers: bool
    batch_s: float
    consume_s: float
    bias_bound: float


def _with_pace(measurement: Measurement, steady: _Steady, conditions: Conditions) -> Measurement:
    batch_s, wait_s = steady.batch_s, max(0.0, steady.batch_s - steady.consume_s)
    loads_itself = conditions.settings.num_workers == 0 and steady.consume_s >= LEAST_CONSUMER * batch_s
    return replace(
        measurement,
        loading_s=wait_s if loads_itself else measurement.loading_s,
        batch_s=estimate_mean(steady.paced_s, batch_s, SEQUENTIAL),
        bias_bound=steady.bias_bound,
        samples_per_s=_samples_per_batch(steady.windows, conditions) / batch_s if batch_s > 0 else None,
        wait_s=wait_s,
        consume_s=steady.consume_s,
        stall_fraction=wait_s / batch_s if batch_s > 0 else None,
    )


def _with_shares(measurement: Measurement, epochs: Sequence[Burst]) -> Measurement:
    """Of epochs without a steady pace: what of them is waiting, starts included, and what the consumer's."""
    taken = max(1, _taken(epochs))
    wait_s, consume_s = (sum(map(sum, parts)) for parts in zip(*((b.wait_s, b.consume_s) for b in epochs), strict=True))
    elapsed_s = wait_s + consume_s
    return replace(
        measurement,
        wait_s=wait_s / taken,
        consume_s=consume_s / taken,
        stall_fraction=wait_s / elapsed_s if elapsed_s > 0 else None,
    )


def _steady(bursts: Sequence[Burst], conditions: Conditions) -> _Steady | None:
    epochs = epoch_bursts(bursts)
    chosen = [_after_first_clump(burst, conditions.clump) for burst in epochs] if epochs else steady_bursts(bursts)
    windows = tuple(burst for burst in chosen if burst.batches)
    if not windows:  # an epoch of one clump has a start and an end, and no steady state
        return None
    taken, elapsed_s = _taken(windows), sum(burst.elapsed_s for burst in windows)
    made = _made(windows, conditions)
    by_workers = made is not None and made > 0 and _workers_decide(windows, conditions)
    return _Steady(
        windows=windows,
        paced_s=tuple(_paced_s(burst, conditions, by_workers) for burst in windows),
        by_workers=by_workers,
        batch_s=elapsed_s / (made if by_workers and made else taken),
        consume_s=sum(sum(burst.consume_s) for burst in windows) / taken,
        bias_bound=0.0 if epochs else _bias_bound(taken, made, conditions),
    )


def _loading_s(bursts: Sequence[Burst], conditions: Conditions) -> float | None:
    """Seconds per batch of the latest window without the consumer; None if there is none, or its epoch ended in it.

    Nobody makes the workers wait for room then, so it is their pace wherever they are counted.
    """
    windows = [b for b in bursts if b.kind is BurstKind.LOADING and b.batches and b.startup_s is None]
    if not windows or windows[-1].ended_epoch:
        return None
    made = _made(windows[-1:], conditions)
    return windows[-1].elapsed_s / (made or windows[-1].batches)


def _taken(bursts: Sequence[Burst]) -> int:
    return sum(burst.batches for burst in bursts)


def _made(bursts: Sequence[Burst], conditions: Conditions) -> float | None:
    """Batches that the workers made meanwhile, fractions included; None if they were not counted."""
    if not conditions.settings.num_workers or not counted(bursts):
        return None
    return sum(burst.produced or 0 for burst in bursts) / conditions.batch_length


def _workers_decide(windows: Sequence[Burst], conditions: Conditions) -> bool:
    """Whether the workers' side shows the steady pace; see the module."""
    gains = [(burst.produced or 0) / conditions.batch_length - burst.batches for burst in windows]
    mean = sum(gains) / len(gains)
    chance = _BEYOND_CHANCE * statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    if abs(mean) > chance:
        return mean < 0
    waiting = sum(sum(burst.wait_s) for burst in windows) / sum(burst.elapsed_s for burst in windows)
    return waiting >= _HARDLY_WAITS


def _paced_s(burst: Burst, conditions: Conditions, by_workers: bool) -> float:
    made = (burst.produced or 0) / conditions.batch_length
    return burst.elapsed_s / (made if by_workers and made else burst.batches)


def _bias_bound(taken: int, made: float | None, conditions: Conditions) -> float:
    if made is not None:
        return abs(made - taken) / taken
    return conditions.queue / taken  # not counted: the queue may have gone from full to empty


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


def _samples_per_batch(windows: Sequence[Burst], conditions: Conditions) -> float:
    samples = sum(burst.samples for burst in windows)
    return samples / _taken(windows) if samples else conditions.batch_length


def _epoch_s(bursts: Sequence[Burst], steady: _Steady | None, conditions: Conditions) -> float | None:
    """Seconds for an epoch: as measured where whole ones were, else projected; None if its length is unknown.

    Candidates must be ranked by the same quantity, and not all of a loader of unknown length may be seen to the end.
    """
    if conditions.batches_per_epoch is None:
        return None
    begun = beginnings(bursts, conditions)
    epochs = epoch_bursts(begun)
    if epochs:
        return _amortised([_counted_s(epoch, conditions) for epoch in epochs], conditions)
    return projected_epoch_s(begun, steady.batch_s, conditions) if steady and begun else None


def _amortised(lengths_s: Sequence[float], conditions: Conditions) -> float:
    """The mean of epochs; where workers persist, of the first and as many later ones as make ``rules.epochs``."""
    if not conditions.settings.persistent_workers or len(lengths_s) == 1:
        return sum(lengths_s) / len(lengths_s)
    later_s = sum(lengths_s[1:]) / (len(lengths_s) - 1)
    return (lengths_s[0] + (conditions.rules.epochs - 1) * later_s) / conditions.rules.epochs


def costs_by_round(turns: Sequence[Turn], conditions: Conditions) -> dict[int, float]:
    """What candidates are ranked by, an epoch or a batch, as each round alone would have it, s."""
    bursts = all_bursts(turns)
    epoch_s = None
    steady = _steady(bursts, conditions)
    if conditions.batches_per_epoch is not None:
        epoch_s = _epoch_s(bursts, steady, conditions)
    by_round = {}
    for turn in turns:
        cost_s = _cost_of_turn(turn, steady, epoch_s, conditions)
        if turn.round is not None and cost_s is not None:
            by_round[turn.round] = cost_s
    return by_round


def _cost_of_turn(turn: Turn, steady: _Steady | None, epoch_s: float | None, conditions: Conditions) -> float | None:
    epochs = epoch_bursts(turn.bursts)
    if epochs and epoch_s is not None:
        return _amortised([_counted_s(epoch, conditions) for epoch in epochs], conditions)
    windows = [replace(burst, startup_s=None) for burst in (epochs or steady_bursts(turn.bursts))]
    if steady is None or not windows:
        return None
    pace_s = sum(burst.elapsed_s for burst in windows) / sum(
        burst.elapsed_s / _paced_s(burst, conditions, steady.by_workers) for burst in windows
    )
    if epoch_s is None:
        return pace_s
    # The start was measured once; only the pace is this round's.
    return max(epoch_s + (conditions.batches_per_epoch or 0) * (pace_s - steady.batch_s), pace_s)


def _counted_s(epoch: Burst, conditions: Conditions) -> float:
    """Length of a whole epoch; the workers' end counts in mode ``epoch`` only."""
    return epoch.elapsed_s - (0.0 if conditions.rules.mode == "epoch" else epoch.end_s or 0.0)


def projected_epoch_s(begun: Sequence[Burst], batch_s: float, conditions: Conditions) -> float:
    """Seconds for an epoch of which only the beginning and windows were measured.

    What the beginning took (start-up, and the batches until the queue was in balance: the first of each worker come
    together, and a slow consumer finds the others ready) is taken as it was; the steady pace brings the rest.

    Args:
        begun: The bursts that began epochs.
        batch_s: The steady pace.
        conditions: Whose length of an epoch is known.
    """
    batches = conditions.batches_per_epoch or 0
    lengths_s = [burst.elapsed_s + max(0, batches - burst.batches) * batch_s for burst in begun]
    return _amortised(lengths_s, conditions)


def slowest_batch_s(turns: Sequence[Turn], conditions: Conditions) -> float | None:
    """Seconds per batch of the slowest window; None if there is none."""
    steady = _steady(all_bursts(turns), conditions)
    return max(steady.paced_s) if steady else None


def stopwatch_batch_s(turns: Sequence[Turn]) -> float | None:
    """Seconds per batch of the epochs that were measured whole, start and end of the workers included; None if none."""
    epochs = [epoch for epoch in epoch_bursts(all_bursts(turns)) if epoch.batches]
    return sum(epoch.elapsed_s for epoch in epochs) / _taken(epochs) if epochs else None


def _with_resources(measurement: Measurement, turns: Sequence[Turn], conditions: Conditions) -> Measurement:
    """CPU time, memory and bytes from storage of the turns that count."""
    running = _running(turns)
    made = sum(_batches_made(turn, conditions) for turn in running)
    cpu_s = sum(turn.after.cpu_s - turn.before.cpu_s for turn in running)
    disk = [
        turn.after.disk_bytes - turn.before.disk_bytes
        for turn in running
        if turn.after.disk_bytes is not None and turn.before.disk_bytes is not None
    ]
    return replace(
        measurement,
        cpu_s=cpu_s / made if made and cpu_s > 0 else None,
        memory_bytes=_largest(turn.after.memory_bytes for turn in turns),
        shm_bytes=_largest(turn.after.shm_bytes for turn in turns),
        memory_growth_bytes=_growth_bytes(turns),
        disk_bytes=sum(disk) / made if made and disk else None,
    )


def _running(turns: Sequence[Turn]) -> list[Turn]:
    """The turns that are not thrown away; those that start workers are left out where there are others."""
    counting = [turn for turn in turns if any(burst.counts for burst in turn.bursts)]
    running = [turn for turn in counting if all(burst.startup_s is None for burst in turn.bursts)]
    return running or counting or list(turns)


def least_cpu_s(turns: Sequence[Turn], conditions: Conditions) -> float | None:
    """CPU seconds that a batch takes for certain: less what all usable CPUs can have done beside the bursts.

    Between two bursts the arm talks with its parent, which is felt where bursts are very short. Where a window began or
    ended an epoch nothing is certain: starting and ending the workers takes CPU time too.
    """
    running = _running(turns)
    if any(
        (burst.startup_s is not None or burst.ended_epoch) and burst.kind is not BurstKind.EPOCH
        for burst in all_bursts(running)
    ):
        return None
    made = sum(_batches_made(turn, conditions) for turn in running)
    cpu_s = sum(turn.after.cpu_s - turn.before.cpu_s for turn in running)
    beside_s = sum(turn.elapsed_s - sum(burst.elapsed_s for burst in turn.bursts) for turn in running)
    return max(0.0, cpu_s - conditions.cores * max(0.0, beside_s)) / made if made else None


def came_from_disk(turn: Turn, *, at_first: bool = False) -> bool:
    """Whether a turn had to read data from storage, be it a few of its samples: one may take as long as hundreds.

    Args:
        turn: The turn.
        at_first: Whether the process is new: what page faults bring then, and a little more, is the program itself,
            whose libraries come back page by page where the kernel had dropped them. Later it is a dataset that is
            mapped into memory.
    """
    before, after = turn.before.disk_bytes, turn.after.disk_bytes
    if before is None or after is None:
        return False
    faults = (turn.after.major_faults or 0) - (turn.before.major_faults or 0)
    program = _PROGRAM_BYTES + faults * _BYTES_OF_A_FAULT if at_first else 0
    return after - before - program > _MOST_STRAY_BYTES


def _batches_made(turn: Turn, conditions: Conditions) -> float:
    made = _made(turn.bursts, conditions)
    whole = epoch_bursts(turn.bursts)  # all that is made is taken, and the last batch is shorter
    return _taken(turn.bursts) if made is None or whole else made


def _largest(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _growth_bytes(turns: Sequence[Turn]) -> float | None:
    """Growth of the memory per 1000 batches: the slope over the turns after the first, in which the loader started."""
    points, taken = [], 0
    for turn in turns:
        taken += _taken(turn.bursts)
        loaded = any(burst.kind is not BurstKind.LOADING for burst in turn.bursts)  # else workers were started for it
        if loaded and turn.after.memory_bytes is not None:
            points.append((float(taken), float(turn.after.memory_bytes)))
    points = points[1:]
    if len(points) < _FEWEST_POINTS_FOR_GROWTH:
        return None
    return 1000 * slope([x for x, _ in points], [y for _, y in points])
