"""Search methods of other projects: their decisions, as functions of a timer and a task
that return a pick. Pure."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.epoch_times import PREFETCH_FACTOR, Timestamps, Until, whole

_SEED_PATIENCE = 3
_NWS_THRESHOLD_S = 5.0
_PADDLE_BATCHES = 500
_PADDLE_REFINEMENTS = 5
_CLIMBER_BATCHES = 50
_BINARY_BATCHES = 30
_BINARY_LOOK = 10
_BINARY_PRUNE = 1.3

# Runs an epoch of a fresh DataLoader with a num_workers until ``Until`` stops it.
Timer = Callable[[int, Until], Timestamps]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The knowledge that a method starts with."""

    cpus: int  # usable by this process
    batches: int  # per epoch
    batch_size: int


def seed(time_epoch: Timer, task: Task) -> int:
    """Num-Workers-Search's full search: 0, 1, 2, ... up to the CPU count, a whole epoch
    each, patience 3.

    Fixed: it set keywords that DataLoader refuses with num_workers=0.
    """
    best, best_s, without_improvement = 0, math.inf, 0
    for candidate in range(task.cpus + 1):
        epoch_s = time_epoch(candidate, whole)[-1]
        if epoch_s < best_s:
            best, best_s, without_improvement = candidate, epoch_s, 0
        else:
            without_improvement += 1
        if without_improvement > _SEED_PATIENCE:
            break
    return best


def nws(time_epoch: Timer, task: Task) -> int:
    """Num-Workers-Search's ``nws.search``: starts at half the CPUs; stops epochs that
    take longer than the best.

    Ends when an improvement is less than 5 s. Nothing was fixed.
    """
    half = task.cpus // 2
    best, best_s = 0, math.inf
    left = list(
        dict.fromkeys(
            [half, 0, 1, *range(half, 1, -1), *range(half + 1, task.cpus + 1)]
        )
    )
    while left:
        candidate, *left = left
        epoch_s = time_epoch(candidate, _later_than(best_s))[-1]
        if epoch_s < best_s:
            gain_s, best, best_s = best_s - epoch_s, candidate, epoch_s
            if gain_s < _NWS_THRESHOLD_S:
                break
        elif candidate == 0:
            left = [candidate for candidate in left if candidate != 1]
        elif 2 <= candidate < best:
            left = [candidate for candidate in left if candidate > best]
        else:
            break
    return best


def _later_than(best_s: float) -> Until:
    return lambda timestamps: timestamps[-1] > best_s


def paddle(time_epoch: Timer, task: Task) -> int:
    """PaddlePaddle's ``AuToTune``: 0, 2, 4, ... below half the CPUs while each saves a
    quarter; 500 batches at most.

    Fixed: the refinement between the steps times its candidate (it timed the same
    loader again), and keeps that time.
    """
    most = task.cpus / 2
    best, best_s, candidate = 0, math.inf, 0
    while candidate < most:
        batch_s = _paddle_batch_s(time_epoch, candidate)
        if batch_s < 0.75 * best_s:
            best, best_s = candidate, batch_s
        else:
            refined = _paddle_refined(time_epoch, best, best_s, most)
            if refined is None:
                break
            best, best_s = refined
        candidate += 2
    return best


def _paddle_refined(
    time_epoch: Timer, best: int, best_s: float, most: float
) -> tuple[int, float] | None:
    for step in range(_PADDLE_REFINEMENTS):
        candidate = best + 1 + step
        if candidate >= most:
            return None
        batch_s = _paddle_batch_s(time_epoch, candidate)
        if batch_s < best_s * 0.70 * 0.80**step:
            return candidate, batch_s
    return None


def _paddle_batch_s(time_epoch: Timer, candidate: int) -> float:
    """Mean time per batch without the first two, s."""
    return mean_batch_s(
        time_epoch(candidate, lambda timestamps: len(timestamps) >= _PADDLE_BATCHES),
        after=2,
    )


def binary(time_epoch: Timer, task: Task) -> int:
    """dataloader_param_helper's outer search: halves 1 .. CPU count by whether n or n +
    1 workers are faster.

    Fixed, in its inner test: it waits until the queue has been taken once, not for
    batches of equal length (which may never come); it takes the mean of all batches (it
    left out the slowest tenth, which are the only slow ones where batches come in
    multiples of the workers); it stops candidates 1.3 times slower than the best (it
    compared the wrong way round).
    """
    times_s: dict[int, float] = {}

    def batch_s(workers: int) -> float:
        if workers not in times_s:
            best_s = min(times_s.values(), default=math.inf)
            times_s[workers] = _binary_batch_s(time_epoch, workers, task, best_s)
        return times_s[workers]

    low, high = 1, task.cpus
    while low < high:
        middle = (low + high) // 2
        if batch_s(middle) > batch_s(middle + 1):
            low = middle + 1
        else:
            high = middle
    return low


def climber(time_epoch: Timer, task: Task) -> int:
    """Hill climbing: from the CPU count to the faster neighbour, by 50 batches, until
    none is faster."""
    times_s: dict[int, float] = {}

    def batch_s(workers: int) -> float:
        if workers not in times_s:
            timestamps = time_epoch(
                workers, lambda stamps: len(stamps) > _CLIMBER_BATCHES
            )
            times_s[workers] = mean_batch_s(timestamps, after=1)
        return times_s[workers]

    best = task.cpus
    while True:
        near = min((max(0, best - 1), best, best + 1), key=batch_s)
        if near == best:
            return best
        best = near


def _binary_batch_s(
    time_epoch: Timer, workers: int, task: Task, best_s: float
) -> float:
    queue = PREFETCH_FACTOR * workers
    wanted = max(_BINARY_BATCHES, round(binary_share(task.batch_size) * task.batches))

    def until(timestamps: Timestamps) -> bool:
        counted = len(timestamps) - queue
        return counted >= wanted or (
            counted >= _BINARY_LOOK
            and mean_batch_s(timestamps, after=queue) > _BINARY_PRUNE * best_s
        )

    return mean_batch_s(time_epoch(workers, until), after=queue)


def binary_share(batch_size: int) -> float:
    """Share of an epoch per measurement: linear from 3 % at batch size 2 to 40 % at
    2048."""
    return 0.03 + (0.40 - 0.03) * min(1.0, max(0.0, (batch_size - 2) / (2048 - 2)))


def mean_batch_s(timestamps: Timestamps, after: int) -> float:
    """Mean seconds per batch after the first ``after`` batches; of the last batch if
    the epoch is shorter."""
    first = min(after, len(timestamps) - 1)
    began_s = timestamps[first - 1] if first else 0.0
    return (timestamps[-1] - began_s) / (len(timestamps) - first)


PEERS: Mapping[str, Callable[[Timer, Task], int]] = {
    "seed": seed, "nws": nws, "paddle": paddle, "binary": binary, "climber": climber,
}  # fmt: skip
NEED_WHOLE_EPOCHS = ("seed", "nws")
NEED_MUCH_OF_AN_EPOCH = (*NEED_WHOLE_EPOCHS, "binary")
