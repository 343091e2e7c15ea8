"""Epochs without a bottleneck or a stage of the samples, and with other settings. Pure.

Without one thing another num_workers may be the best, so a bottleneck is taken away at
several of them. With nothing taken away, none of them is predicted to be faster than
the best setting: the search has measured that it is not.

Workers whose samples are alike compute at the same time and wait at the same time: so
far as an epoch takes longer than replayed, this is taken for the reason. It ends
without the waiting; with less computing it costs a larger share.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nws_sweep.model import choice
from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.epochs import Records
from nws_sweep.model.model import Model
from nws_sweep.model.queue import QueueSettings
from nws_sweep.model.stages import Stage
from nws_sweep.records import BatchCost

# standard deviations: 1 % of epochs without an order are taken for ones with it
_SIGNIFICANT = 2.33


@dataclass(frozen=True)
class Counterfactual:
    """An epoch at the best setting of a configuration, compared with what it would be
    otherwise.

    Savings are shares of the epoch, at most 1.

    Attributes:
        model: Of the trials.
        best: The best setting.
        allowed: Possible values of num_workers, including the best's.
    """

    model: Model
    best: QueueSettings
    allowed: Sequence[int]

    def cost_s(self, settings: QueueSettings, *removed: Bottleneck | Stage) -> float:
        """Predicts the seconds per batch of an epoch with any settings, without
        bottlenecks or stages."""
        cost_s = self.model.cost_s(settings, without=removed)
        usual = replace(self.best, num_workers=settings.num_workers)
        share = self._share_in_step(usual)
        if not share or not cost_s:
            return cost_s
        slower = self._slower_in_step(settings, removed) / self._slower_in_step(usual)
        return cost_s * math.pow(slower, share)

    def _share_in_step(self, settings: QueueSettings) -> float:
        """Estimates how far workers compute at the same time, 0 to 1."""
        factor = self.model.factors.at(settings.num_workers)
        if factor <= 1 + choice.CLOSE:  # nothing is to be explained
            return 0.0
        slower = self._slower_in_step(settings)
        if slower <= 1 + choice.CLOSE:
            return 0.0
        return min(1.0, math.log(factor) / math.log(slower))

    def _slower_in_step(
        self, settings: QueueSettings, removed: Sequence[Bottleneck | Stage] = ()
    ) -> float:
        """Predicts the time if all workers wait at the same moment of a batch / if each
        waits at any moment."""
        in_step_s = self.model.cost_s(replace(settings, in_step=True), without=removed)
        return in_step_s / self.model.cost_s(settings, without=removed)

    def saved(self, *removed: Bottleneck, cpus: float | None = None) -> float:
        """Predicts what is saved without these bottlenecks, at least 0; with ``cpus``
        CPUs."""
        least_s = self.now_s
        for num_workers in self.allowed:
            usual = replace(self.best, num_workers=num_workers)
            # now no other number is faster than the best
            slower = max(1.0, self.now_s / self.cost_s(usual))
            without_s = self.cost_s(replace(usual, cpus=cpus or usual.cpus), *removed)
            least_s = min(least_s, slower * without_s)
        return 1 - least_s / self.now_s

    def saved_with(self, settings: QueueSettings) -> float:
        """Predicts what is saved with other settings, whether the number of workers is
        allowed or not."""
        return 1 - self.cost_s(settings) / self.now_s

    @property
    def now_s(self) -> float:
        """Replayed seconds per batch with the best setting."""
        return self.cost_s(self.best)

    @property
    def rise(self) -> float:
        """Cost of a batch in the last third of the epoch / in the first; 1 if costs do
        not depend on the position.

        They do if neighbours differ less than any two, by von Neumann's ratio of the
        logarithms (Annals of Mathematical Statistics 12, 1941), whose mean is 2 and
        whose variance is 4 / n without an order.
        """
        records = self.model.records_for(self.best.num_workers)
        costs_s = [max(1e-9, record.cost.making_s) for record in records.in_order]
        third = len(costs_s) // 3
        logs = [math.log(cost_s) for cost_s in costs_s]
        spread = statistics.pvariance(logs)
        if not records.has_places or not third or not spread:
            return 1.0
        squares = [
            (later - earlier) ** 2 for earlier, later in itertools.pairwise(logs)
        ]
        is_ordered = statistics.fmean(
            squares
        ) / spread < 2 - _SIGNIFICANT * 2 / math.sqrt(len(logs))
        return (
            statistics.fmean(costs_s[-third:]) / statistics.fmean(costs_s[:third])
            if is_ordered
            else 1.0
        )

    @property
    def mean(self) -> BatchCost:
        """The mean costs of a batch at the best setting, or with the fewest workers if
        it has none."""
        return BatchCost.mean_of([record.cost for record in self._with_workers.made])

    @property
    def hand_over_s(self) -> float:
        """Mean seconds in a worker and in the main process for the transfer of a batch;
        0 if no workers are known."""
        loop = self._with_workers.loop
        return self.mean.copy_s + loop.receive_s + loop.receive_wait_s

    @property
    def _with_workers(self) -> Records:
        return self.model.records_for(
            self.best.num_workers or self.model.fewest_workers.num_workers
        )
