"""The oracle: which bare runs are worth measuring, and the best settings by them.
Pure."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.epoch_times import PREFETCH_FACTOR
from benchmarks.journal import Run, Setting
from nws_sweep.model import choice

CANDIDATES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)

_TOLERANCE = 0.03  # the default: the share of time that twice as many workers must save

# One run of two may be off by a factor of 2.5 on a busy machine.
_LOSES_AFTER_ONE, _LOSES_LATER = 4.0, 1.5

# of the best: how far its neighbours are that are measured, first and then
STEPS = (0.1, 0.0)
# More workers than these are not measured if they cost so much more than the least.
_PAST_THE_BEST = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The result of the oracle for one workload."""

    # median length of an epoch, settings ascending; ``_slowness`` removed
    epochs_s: Mapping[Setting, float]
    # the fastest of the oracle's own settings that at least half of the passes measured
    best: Setting
    least_price_s: float  # the least price of these settings
    # see ``noise_floor``; smaller regrets are not significant
    noise_floor: float | None
    passes: int  # runs of the best
    whole: bool  # whether no run was projected
    # by repeat; see ``_slowness``
    slowness: Mapping[int, float] = field(default_factory=dict)

    @property
    def best_s(self) -> float:
        """Length of an epoch with the best settings, s."""
        return self.epochs_s[self.best]

    def regret(self, pick: Setting | None) -> float | None:
        """Price of a pick (``model.choice``) / the least price - 1; None if it was not
        measured.

        Negative if the pick was faster than the best of the oracle's own settings.
        """
        if pick is None or pick not in self.epochs_s:
            return None
        return _price(pick, self.epochs_s) / self.least_price_s - 1

    def slowness_of(self, pick: Setting | None) -> float | None:
        """Epoch of a pick / that of the fastest settings - 1; None if it was not
        measured."""
        if pick is None or pick not in self.epochs_s:
            return None
        return self.epochs_s[pick] / self.best_s - 1


def truth_of(runs: Sequence[Run]) -> Truth | None:
    """The result for the runs of one workload; None if none of the oracle's own
    settings was measured."""
    epochs_s = _medians(runs)
    own = _own(runs, epochs_s)
    if not own:
        return None
    best = _least(own)
    return Truth(
        epochs_s=epochs_s,
        best=best,
        least_price_s=_price(_cheapest(own), own),
        noise_floor=noise_floor(runs),
        passes=sum(run.setting == best for run in runs),
        whole=all(run.whole for run in runs),
        slowness=_slowness_of_repeats(runs),
    )


def numbers(runs: Iterable[Run], *, persistent: bool) -> list[Run]:
    """The runs that tell which num_workers are the best, among workers that persist or
    that do not; those with another ``PREFETCH_FACTOR`` are only of picks."""
    return [
        run
        for run in runs
        if run.prefetch_factor == PREFETCH_FACTOR and run.persistent == persistent
    ]


def cheapest(runs: Sequence[Run]) -> Setting | None:
    """The settings of the least price among the oracle's own; None without any."""
    own = _own(runs, _medians(runs))
    return _cheapest(own) if own else None


def is_past_the_best(runs: Sequence[Run], setting: Setting) -> bool:
    """Whether settings failed, or their price is a tenth above the least: more workers
    would cost more."""
    epochs_s = _medians(runs)
    if setting not in epochs_s:
        return True
    least_s = _price(_cheapest(epochs_s), epochs_s)
    return _price(setting, epochs_s) > _PAST_THE_BEST * least_s


def neighbours_of_the_best(runs: Sequence[Run], most: int, step: float) -> set[int]:
    """Values of num_workers next to that of the least price, up to ``most``: ``step`` of
    it away, at least one. 0 only of workers that do not persist."""
    best = cheapest(runs)
    if best is None:
        return set()
    distance = max(1, round(step * best.workers))
    return {
        workers
        for workers in (best.workers - distance, best.workers + distance)
        if best.persistent <= workers <= most
    }


def _own(
    runs: Sequence[Run], epochs_s: Mapping[Setting, float]
) -> dict[Setting, float]:
    """The epochs of the oracle's own settings that at least half of the passes
    measured."""
    counts = Counter(run.setting for run in runs if run.epoch_s is not None)
    own = {run.setting for run in runs if run.own}
    most = max((counts[setting] for setting in own), default=0)
    return {
        setting: epochs_s[setting]
        for setting in epochs_s
        if setting in own and 2 * counts[setting] >= most
    }


def worth_measuring(settings: Iterable[Setting], runs: Sequence[Run]) -> list[Setting]:
    """The settings, ascending, without those that failed or are far slower than the
    best."""
    medians = _medians(runs)
    best_s = min(medians.values(), default=None)
    failed = {run.setting for run in runs if run.epoch_s is None}
    counts = Counter(run.setting for run in runs)

    def is_loser(setting: Setting) -> bool:
        if best_s is None or setting not in medians:
            return False
        return medians[setting] > best_s * (
            _LOSES_AFTER_ONE if counts[setting] == 1 else _LOSES_LATER
        )

    return [
        setting
        for setting in sorted(set(settings))
        if setting not in failed and not is_loser(setting)
    ]


def noise_floor(runs: Sequence[Run]) -> float | None:
    """The regret, by every second pass, of the settings with the least price by the
    other passes, as a share.

    None if the two halves have no settings in common.
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
        {setting: half[setting] for setting in both} for half in (first, second)
    )
    return _price(_cheapest(first), second) / _price(_cheapest(second), second) - 1


def _medians(runs: Sequence[Run]) -> dict[Setting, float]:
    """Median epochs, divided by ``_slowness``, since not all settings are measured in
    the same passes."""
    slowness = _slowness(runs)
    epochs_s: dict[Setting, list[float]] = {}
    for run in runs:
        if run.epoch_s is not None:
            epochs_s.setdefault(run.setting, []).append(
                run.epoch_s / slowness[run.repeat, run.number]
            )
    return {
        setting: statistics.median(epochs_s[setting]) for setting in sorted(epochs_s)
    }


def _slowness(runs: Sequence[Run]) -> dict[tuple[int, int], float]:
    """By pass, median of its epochs / the median epochs, over the settings that all
    passes measured."""
    passes: dict[tuple[int, int], dict[Setting, float]] = {}
    for run in runs:
        epochs_s = passes.setdefault((run.repeat, run.number), {})
        if run.epoch_s is not None:
            epochs_s[run.setting] = run.epoch_s
    common = (
        set.intersection(*(set(epochs_s) for epochs_s in passes.values()))
        if passes
        else set()
    )
    if not common:
        return dict.fromkeys(passes, 1.0)
    usual = {
        setting: statistics.median(epochs_s[setting] for epochs_s in passes.values())
        for setting in common
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


def _price(setting: Setting, epochs_s: Mapping[Setting, float]) -> float:
    return choice.price(epochs_s[setting], setting.workers, _TOLERANCE)


def _cheapest(epochs_s: Mapping[Setting, float]) -> Setting:
    return min(epochs_s, key=lambda setting: (_price(setting, epochs_s), setting))


def _least(epochs_s: Mapping[Setting, float]) -> Setting:
    return min(epochs_s, key=lambda setting: (epochs_s[setting], setting))
