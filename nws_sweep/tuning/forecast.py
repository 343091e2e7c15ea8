"""Predicted costs of all candidates from the records of those measured so far. Pure; see ``replay``."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from nws_sweep.replay.model import Model, queue_settings
from nws_sweep.results import LoaderSettings
from nws_sweep.tuning.paired_comparison import Observation

_APART = 1.1  # numbers of workers closer than this factor count as equal: 19 and 20


@dataclass(frozen=True)
class Forecast:
    """The costs of settings: seconds per epoch, or per batch if the length of an epoch is unknown.

    Attributes:
        model: Of the trials measured so far.
        cpus: CPUs that a candidate may use.
        per_epoch: Whether the length of an epoch is known.
    """

    model: Model
    cpus: float
    per_epoch: bool
    _costs_s: dict[LoaderSettings, float] = field(default_factory=dict, init=False, repr=False)

    def cost_s(self, settings: LoaderSettings) -> float:
        """The predicted cost; for a measured candidate this corrects the measured one."""
        if settings not in self._costs_s:
            queue = queue_settings(settings, self.cpus)
            self._costs_s[settings] = self.model.epoch_s(queue) if self.per_epoch else self.model.batch_s(queue)
        return self._costs_s[settings]

    def least_s(self, settings: LoaderSettings) -> float:
        """A cost that the candidate may reach: one standard deviation of the misfit below the prediction.

        It is not below the time of the training step, which no loader can save.
        """
        optimistic_s = self.cost_s(settings) * math.exp(-self.model.misfit(settings.num_workers))
        return max(optimistic_s, min(self.floor_s, self.cost_s(settings)))

    @property
    def floor_s(self) -> float:
        """The cost of the training step alone."""
        records = self.model.known[0].records
        step_s = min(one.records.loop.step_s for one in self.model.known)
        return step_s * (records.batches if self.per_epoch else 1)

    def corrected(self, observation: Observation) -> Observation:
        """The observation with its cost by the replay of all records, in total and by round.

        One without rounds of this search, of a trial that was resumed, keeps its cost.
        """
        known, rounds = observation.known, observation.by_round
        if known is None or not known.round_ratios or not rounds:
            return observation
        replayed_s = self.cost_s(observation.settings) / self.model.factor(observation.num_workers)
        cost_s = replayed_s * known.factor
        by_round = {number: cost_s * ratio for number, ratio in known.round_ratios.items() if number in rounds}
        return replace(observation, cost_s=cost_s, by_round=by_round)


def forecast_of(observations: Iterable[Observation], cpus: float, start_method: str) -> Forecast | None:
    """The forecast from candidates that differ in num_workers only; None if no costs are known."""
    known = sorted((o for o in observations if o.known), key=lambda o: o.num_workers)
    if not known:
        return None
    model = Model(tuple(o.known for o in known if o.known), start_method)
    return Forecast(model, cpus, per_epoch=all(o.batches is not None for o in known))


def apart(candidates: Sequence[int], measured: Collection[int]) -> list[int]:
    """The candidates that differ from each other and from the measured ones by more than a tenth, ascending."""
    chosen: list[int] = []
    for n in candidates:
        if all(max(n, other) >= _APART * min(n, other) for other in (*measured, *chosen[-1:])):
            chosen.append(n)
    return chosen
