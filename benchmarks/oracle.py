"""The oracle: which bare runs are worth measuring, and the best num_workers by them.
Pure."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.epoch_times import PREFETCH_FACTOR
from benchmarks.journal import Run
from nws_sweep.model import choice

CANDIDATES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)

_TOLERANCE = 0.03  # the default: the share of time that twice as many workers must save

# One run of two may be off by a factor of 2.5 on a busy machine.
_LOSES_AFTER_ONE, _LOSES_LATER = 4.0, 1.5

# of the best: how far its neighbours are that are measured, first and then
STEPS = (0.1, 0.0)
Key = TypeVar("Key", int, tuple[int, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The result of the oracle for one workload."""

    # median length of an epoch by num_workers, ascending; ``_slowness`` removed
    epochs_s: Mapping[int, float]
    # the fastest of the oracle's own values of num_workers that at least half of the
    # passes measured
    best: int
    least_price_s: float  # the least price of these numbers
    # see ``noise_floor``; smaller regrets are not significant
    noise_floor: float | None
    passes: int  # runs of the best
    whole: bool  # whether no run was projected
    # by repeat; see ``_slowness``
    slowness: Mapping[int, float] = field(default_factory=dict)
    # Likewise by num_workers and prefetch_factor, of picks with another
    # prefetch_factor than ``PREFETCH_FACTOR``.
    others_s: Mapping[tuple[int, int], float] = field(default_factory=dict)

    @property
    def best_s(self) -> float:
        """Length of an epoch with the best num_workers, s."""
        return self.epochs_s[self.best]

    def regret(
        self, pick: int | None, prefetch_factor: int = PREFETCH_FACTOR
    ) -> float | None:
        """Price of a pick (``model.choice``) / the least price - 1; None if it was not
        measured.

        Negative if the pick was faster than the best of the oracle's own numbers.
        """
        epoch_s = self._epoch_s(pick, prefetch_factor)
        if pick is None or epoch_s is None:
            return None
        return choice.price(epoch_s, pick, _TOLERANCE) / self.least_price_s - 1

    def slowness_of(
        self, pick: int | None, prefetch_factor: int = PREFETCH_FACTOR
    ) -> float | None:
        """Epoch of a pick / that of the fastest number - 1; None if it was not
        measured."""
        epoch_s = self._epoch_s(pick, prefetch_factor)
        return None if epoch_s is None else epoch_s / self.best_s - 1

    def _epoch_s(self, pick: int | None, prefetch_factor: int) -> float | None:
        if pick is None:
            return None
        if prefetch_factor != PREFETCH_FACTOR:
            return self.others_s.get((pick, prefetch_factor))
        return self.epochs_s.get(pick)


def truth_of(all_runs: Sequence[Run]) -> Truth | None:
    """The result for the runs of one workload; None if none of the oracle's own numbers
    was measured."""
    runs = usual_runs(all_runs)
    others = [run for run in all_runs if run not in runs]
    epochs_s = _medians(runs)
    usual = _usual(runs, epochs_s)
    if not usual:
        return None
    best = _least(usual)
    return Truth(
        epochs_s=epochs_s,
        best=best,
        least_price_s=_price(_cheapest(usual), usual),
        noise_floor=noise_floor(runs),
        passes=sum(run.workers == best for run in runs),
        whole=all(run.whole for run in runs),
        slowness=_slowness_of_repeats(runs),
        others_s=_medians_by(
            lambda run: (run.workers, run.prefetch_factor), others, _slowness(runs)
        ),
    )


def usual_runs(runs: Iterable[Run]) -> list[Run]:
    """Those with ``PREFETCH_FACTOR``, by which the oracle judges num_workers."""
    return [run for run in runs if run.prefetch_factor == PREFETCH_FACTOR]


def neighbours_of_the_best(runs: Sequence[Run], most: int, step: float) -> set[int]:
    """Values of num_workers next to that of the least price, from 0 to ``most``:
    ``step`` of it away, at least one."""
    usual = _usual(runs, _medians(runs))
    if not usual:
        return set()
    best = _cheapest(usual)
    distance = max(1, round(step * best))
    return {
        workers
        for workers in (best - distance, best + distance)
        if 0 <= workers <= most
    }


def _usual(runs: Sequence[Run], epochs_s: Mapping[int, float]) -> dict[int, float]:
    """The epochs of the oracle's own numbers that at least half of the passes
    measured."""
    counts = Counter(run.workers for run in runs if run.epoch_s is not None)
    own = {run.workers for run in runs if run.own}
    most = max((counts[workers] for workers in own), default=0)
    return {
        workers: epochs_s[workers]
        for workers in epochs_s
        if workers in own and 2 * counts[workers] >= most
    }


def worth_measuring(values: Iterable[int], runs: Sequence[Run]) -> list[int]:
    """The values of num_workers, ascending, without those that failed or are far slower
    than the best."""
    medians = _medians(runs)
    best_s = min(medians.values(), default=None)
    failed = {run.workers for run in runs if run.epoch_s is None}
    counts = {
        workers: sum(run.workers == workers for run in runs) for workers in medians
    }

    def is_loser(workers: int) -> bool:
        if best_s is None or workers not in medians:
            return False
        return medians[workers] > best_s * (
            _LOSES_AFTER_ONE if counts[workers] == 1 else _LOSES_LATER
        )

    return [
        workers
        for workers in sorted(set(values))
        if workers not in failed and not is_loser(workers)
    ]


def noise_floor(runs: Sequence[Run]) -> float | None:
    """The regret, by every second pass, of the num_workers with the least price by the
    other passes, as a share.

    None if the two halves have no num_workers in common.
    """
    order = sorted({(run.repeat, run.number) for run in runs})
    first, second = (
        _medians(
            [run for run in runs if order.index((run.repeat, run.number)) % 2 == half]
        )
        for half in (0, 1)
    )
    both = first.keys() & second.keys()
    if not both:
        return None
    first, second = (
        {workers: half[workers] for workers in both} for half in (first, second)
    )
    return _price(_cheapest(first), second) / _price(_cheapest(second), second) - 1


def _medians(runs: Sequence[Run]) -> dict[int, float]:
    """Median epochs, divided by ``_slowness``, since not all values of num_workers are
    measured in the same passes."""
    return _medians_by(lambda run: run.workers, runs, _slowness(runs))


def _medians_by(
    key: Callable[[Run], Key],
    runs: Sequence[Run],
    slowness: Mapping[tuple[int, int], float],
) -> dict[Key, float]:
    epochs_s: dict[Key, list[float]] = {}
    for run in runs:
        if run.epoch_s is not None:
            epochs_s.setdefault(key(run), []).append(
                run.epoch_s / slowness[run.repeat, run.number]
            )
    return {name: statistics.median(epochs_s[name]) for name in sorted(epochs_s)}


def _slowness(runs: Sequence[Run]) -> dict[tuple[int, int], float]:
    """By pass, median of its epochs / the median epochs, over the values of num_workers
    that all passes measured."""
    passes: dict[tuple[int, int], dict[int, float]] = {}
    for run in runs:
        epochs_s = passes.setdefault((run.repeat, run.number), {})
        if run.epoch_s is not None:
            epochs_s[run.workers] = run.epoch_s
    common = (
        set.intersection(*(set(epochs_s) for epochs_s in passes.values()))
        if passes
        else set()
    )
    if not common:
        return dict.fromkeys(passes, 1.0)
    usual = {
        workers: statistics.median(epochs_s[workers] for epochs_s in passes.values())
        for workers in common
    }
    return {
        key: statistics.median(epochs_s[n] / usual[n] for n in common)
        for key, epochs_s in passes.items()
    }


def _slowness_of_repeats(runs: Sequence[Run]) -> dict[int, float]:
    by_repeat: dict[int, list[float]] = {}
    for (repeat, _), slowness in _slowness(runs).items():
        by_repeat.setdefault(repeat, []).append(slowness)
    return {repeat: statistics.fmean(values) for repeat, values in by_repeat.items()}


def _price(workers: int, epochs_s: Mapping[int, float]) -> float:
    return choice.price(epochs_s[workers], workers, _TOLERANCE)


def _cheapest(epochs_s: Mapping[int, float]) -> int:
    return min(epochs_s, key=lambda workers: (_price(workers, epochs_s), workers))


def _least(epochs_s: Mapping[int, float]) -> int:
    return min(epochs_s, key=lambda workers: (epochs_s[workers], workers))
