"""What limits an epoch: it is replayed with one thing taken away, and what saves most limits most. Pure.

Without one thing another num_workers may be the best, so each thing is taken away at several of them. With nothing
taken away, none of them is predicted to be faster than the best setting: the search has measured that it is not.
"""

import functools
import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from nws_sweep.replay.bottlenecks import Taken
from nws_sweep.replay.model import MOST_EQUAL, Model
from nws_sweep.replay.prediction import MOST_BATCHES
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.results import BatchCost

_SIGNIFICANT = 2.33  # standard deviations: 1 % of epochs without an order are taken for ones with it


class MeanCosts(NamedTuple):
    """Mean seconds per batch."""

    load_s: float  # in one process
    wait_s: float  # of ``load_s``: the process neither runs nor is ready to run
    hand_over_s: float | None  # in a worker and in the main process; None without any trial with workers


@dataclass(frozen=True)
class Counterfactual:
    """An epoch at the best setting of a configuration, compared with what it would be otherwise.

    Savings are shares of the epoch, at most 1, and negative if it takes longer.

    Attributes:
        model: Of the trials.
        best: The best setting.
        allowed: Possible values of num_workers, including the best's.
    """

    model: Model
    best: QueueSettings
    allowed: Sequence[int]

    def without(self, *taken: Taken, cpus: float | None = None) -> float:
        """What is saved without these things; with ``cpus`` CPUs."""
        least_s = math.inf
        for settings, slower in self._settings(cpus):
            if slower * self._bound_s(settings, taken) < least_s:
                least_s = min(least_s, slower * self._cost_s(settings, taken))
        return 1 - least_s / self.now_s

    def most_saved(self, *taken: Taken) -> float:
        """An upper bound of what is saved without these things, without replays."""
        return 1 - min(slower * self._bound_s(settings, taken) for settings, slower in self._settings()) / self.now_s

    def _settings(self, cpus: float | None = None) -> Iterator[tuple[QueueSettings, float]]:
        """The best and the other settings, and a factor with which they are not faster than the best now."""
        for number, other_s in sorted(self._now_s.items(), key=lambda now: now[0] != self.best.num_workers):
            settings = replace(self.best, num_workers=number, cpus=cpus or self.best.cpus)
            yield settings, max(1.0, self.now_s / other_s)

    def with_settings(self, settings: QueueSettings) -> float:
        """What is saved with other settings as predicted, whether the number of workers is allowed or not."""
        return 1 - self._cost_s(settings) / self._cost_s(self.best)

    def most_saved_with(self, settings: QueueSettings) -> float:
        """An upper bound of ``with_settings``, without a replay."""
        return 1 - self._bound_s(settings, ()) / self.now_s

    @property
    def free_loader(self) -> float:
        """Time of the epoch / its time with a loader that takes no time."""
        loop = self.model.undisturbed(self.model.records_for(self.best.num_workers).loop)
        least_s = max(loop.step_s, loop.step_cpu_s / self.best.cpus)
        return self.now_s / least_s if least_s else math.inf

    @property
    def now_s(self) -> float:
        """Replayed seconds per batch with the best setting."""
        return self._now_s[self.best.num_workers]

    @property
    def rise(self) -> float:
        """Cost of a batch in the last third of the epoch / in the first; 1 if costs do not depend on the position.

        They do if neighbours differ less than any two, by von Neumann's ratio of the logarithms (Annals of Mathematical
        Statistics 12, 1941), whose mean is 2 and whose variance is 4 / n without an order.
        """
        records = self.model.records_for(self.best.num_workers)
        costs_s = [max(1e-9, record.cost.making_s) for record in records.in_order]
        logs, third = [*map(math.log, costs_s)], len(costs_s) // 3
        if not records.has_places or not third or not (spread := statistics.pvariance(logs)):
            return 1.0
        ratio = statistics.fmean((later - earlier) ** 2 for earlier, later in itertools.pairwise(logs)) / spread
        is_ordered = ratio < 2 - _SIGNIFICANT * 2 / math.sqrt(len(logs))
        return statistics.fmean(costs_s[-third:]) / statistics.fmean(costs_s[:third]) if is_ordered else 1.0

    @functools.cached_property
    def means(self) -> MeanCosts:
        """Costs at the best setting, or with the fewest workers if it has none."""
        fewest = self.model.ends[1].settings.num_workers
        records = self.model.records_for(self.best.num_workers or fewest)
        costs, loop = [one.cost for one in records.made], records.loop
        mean = BatchCost.mean_of(costs)
        hand_over_s = mean.copy_s + loop.receive_s + loop.receive_wait_s
        return MeanCosts(mean.making_s, mean.wait_s, hand_over_s if fewest else None)

    @functools.cached_property
    def _now_s(self) -> dict[int, float]:
        return {number: self._cost_s(replace(self.best, num_workers=number)) for number in self.allowed}

    def _cost_s(self, settings: QueueSettings, taken: Sequence[Taken] = ()) -> float:
        return self.model.cost_s(settings, without=taken, most=self._most(settings))

    def _bound_s(self, settings: QueueSettings, taken: Sequence[Taken]) -> float:
        return self.model.least_s(settings, taken, self._most(settings))

    def _most(self, settings: QueueSettings) -> int:
        """The batches that are replayed: more with the workers of the best, if their costs differ."""
        is_best = settings.num_workers == self.best.num_workers
        return MOST_BATCHES if is_best and self.model.records_for(settings.num_workers).varies else MOST_EQUAL
