"""Predicted costs of all candidates from the records of those measured so far. Pure; see ``replay``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from nws_sweep.replay.model import Model, queue_settings
from nws_sweep.results import LoaderSettings
from nws_sweep.tuning.observations import Observation


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
        """The predicted cost."""
        if settings not in self._costs_s:
            queue = queue_settings(settings, self.cpus)
            self._costs_s[settings] = self.model.epoch_s(queue) if self.per_epoch else self.model.batch_s(queue)
        return self._costs_s[settings]

    def hoped_s(self, settings: LoaderSettings) -> float:
        """The predicted cost; between two measured numbers of workers one standard deviation of the misfit less.

        What slows down many workers may begin anywhere between two numbers. Beyond all of them no gain is hoped for.
        It is not below the time of the training step, which no loader can save.
        """
        cost_s = self.cost_s(settings)
        if settings.num_workers >= self.model.known[-1].settings.num_workers:
            return cost_s
        return max(cost_s * math.exp(-self.model.misfit(settings.num_workers)), min(self.floor_s, cost_s))

    @property
    def floor_s(self) -> float:
        """The cost of the training step alone."""
        records = self.model.known[0].records
        step_s = min(one.records.loop.step_s for one in self.model.known)
        return step_s * (records.batches if self.per_epoch else 1)


def forecast_of(observations: Iterable[Observation], cpus: float, start_method: str) -> Forecast | None:
    """The forecast from candidates that differ in num_workers only; None if no costs are known."""
    known = sorted((o for o in observations if o.known), key=lambda o: o.num_workers)
    if not known:
        return None
    model = Model(tuple(o.known for o in known if o.known), start_method)
    return Forecast(model, cpus, per_epoch=all(o.batches is not None for o in known))
