"""Predicts one configuration with other settings, other CPUs and another consumer, from its recorded costs. Pure.

A ladder of numbers of workers grows by a half or a third at each step: 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

from nws_sweep.analysis.diagnosis import worker_trials
from nws_sweep.errors import ConfigurationError
from nws_sweep.measurement.quantities import MIN_CONSUMER_SHARE
from nws_sweep.replay.model import Model, model_of, queue_settings
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.results import Estimate, Measurement, SearchRecord, Trial, TrialState

_RANGES: dict[str, tuple[Any, float, float]] = {
    "num_workers": (Integral, 0, 4096),
    "prefetch_factor": (Integral, 1, 4096),
    "cpus": (Real, 0.01, 100_000),
    "consumer_s": (Real, 0, 86_400),
}
NOTHING_RECORDED = "no costs of batches were recorded, so nothing can be predicted"
_MOST_LISTED = 16  # numbers of workers; of more only a ladder
_STEPS = {0, 1, *(2**n for n in range(1, 13)), *(3 * 2**n for n in range(11))}
_MOSTLY = 0.5  # share of CPU time from which a consumer computes, so that more CPUs would change it
_UNLIMITED = 100_000.0  # CPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Predicted times of one setting with their 95 % intervals; the attributes are ``value``, ``low`` and ``high``.

    Attributes:
        settings: Of the queue, with the number of CPUs.
        batch_s: Seconds per batch at the steady pace.
        epoch_s: Seconds of an epoch; None if its length is unknown.
        samples_per_s: At the steady pace; None if the size of a batch is unknown.
        measured: What a trial with these settings measured, on these CPUs and with this consumer; None if none did.
    """

    settings: QueueSettings
    batch_s: Estimate
    epoch_s: Estimate | None
    samples_per_s: float | None
    measured: Measurement | None

    @property
    def cost_s(self) -> float:
        """Seconds of an epoch, or of a batch if its length is unknown."""
        return (self.epoch_s or self.batch_s).value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The CPUs of a node."""

    cpus: int  # a power of two; more of them gain nothing
    num_workers: int  # the fewest for that pace
    batch_s: float  # seconds per batch with both
    fewer_s: float | None  # seconds per batch with half of the CPUs; None for one CPU
    waits: bool  # whether the consumer waits for batches all the same


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What the records of one configuration predict.

    Attributes:
        model: Of all trials with records.
        own: The best setting, on the CPUs of the run.
        has_length: Whether the length of an epoch is known.
        batch_samples: Samples of a batch; None if unknown.
        tolerance: A setting slower by at most this share counts as equally fast.
        trials: All successful trials.
        recorded_s: Seconds of the recorded consumer per batch; 0 if it takes less than 1 % of the time.
        consumer_s: Seconds of another consumer per batch, which takes no CPU time; None for the recorded consumer.
    """

    model: Model
    own: QueueSettings
    has_length: bool
    batch_samples: float | None
    tolerance: float
    trials: tuple[Trial, ...]
    recorded_s: float
    consumer_s: float | None = None

    @property
    def batches(self) -> int:
        """Batches whose costs were recorded."""
        return sum(len(known.records.made) for known in self.model.known)

    @property
    def recorded_workers(self) -> list[int]:
        """The numbers of workers with records, ascending."""
        return [known.settings.num_workers for known in self.model.known]

    def asked(self, *, consumer_s: float | None = None, **asked: Any) -> tuple[WhatIf, QueueSettings]:
        """The same with another consumer, and the best setting with other values; None keeps a value.

        Args:
            consumer_s: Seconds per batch.
            asked: num_workers, prefetch_factor, in_order and cpus.

        Raises:
            ConfigurationError: If a value is not allowed.
        """
        given = {name: value for name, value in asked.items() if value is not None}
        for name, value in given.items():
            check(name, value)
        if consumer_s is None:
            return self, replace(self.own, **given)
        check("consumer_s", consumer_s)
        return replace(self, consumer_s=float(consumer_s)), replace(self.own, **given)

    def predict(self, settings: QueueSettings) -> Predicted:
        """Predicts with intervals; replays about 25 epochs."""
        found = self.model.predict(settings, consumer_s=self.consumer_s)
        return Predicted(
            settings=settings,
            batch_s=found.batch_s,
            epoch_s=found.epoch_s if self.has_length else None,
            samples_per_s=self.batch_samples / found.batch_s.value if self.batch_samples else None,
            measured=self._measured(settings),
        )

    def best_of(self, settings: QueueSettings, numbers: Iterable[int]) -> QueueSettings:
        """With the fewest of these (ascending) workers that lose at most ``tolerance``, without intervals."""
        predicted_s = self.model.epoch_s if self.has_length else self.model.batch_s
        steps = [replace(settings, num_workers=number) for number in numbers]
        costs_s = [predicted_s(step, consumer_s=self.consumer_s) for step in steps]
        limit_s = min(costs_s) * (1 + self.tolerance)
        return next(step for step, cost_s in zip(steps, costs_s, strict=True) if cost_s <= limit_s)

    def recommended(self, rows: Iterable[Predicted]) -> Predicted:
        """The prediction that loses at most ``tolerance`` to the fastest with the fewest workers and batches ahead."""
        rows = sorted(
            rows, key=lambda row: (row.settings.num_workers, row.settings.prefetch_factor, -row.settings.in_order)
        )
        limit_s = min(row.cost_s for row in rows) * (1 + self.tolerance)
        return next(row for row in rows if row.cost_s <= limit_s)

    def sizing(self, settings: QueueSettings, numbers: Iterable[int]) -> Sizing | None:
        """The fewest CPUs, a power of two, with which batches lose at most ``tolerance`` to the consumer's pace.

        None if there is no consumer, or if it computes: more CPUs would change its own time.
        """
        computes = self.consumer_s is None and any(
            known.records.loop.consumer_cpu_s > _MOSTLY * known.records.loop.consumer_s for known in self.model.known
        )
        consumer_s = self.recorded_s if self.consumer_s is None else self.consumer_s
        if not consumer_s or computes:
            return None
        steps = [replace(settings, num_workers=number) for number in numbers]
        least_s, _ = self._quickest(steps, _UNLIMITED, consumer_s, consumer_s)
        limit_s, cpus, fewer_s = max(least_s, consumer_s) * (1 + self.tolerance), 1, None
        while (found := self._quickest(steps, cpus, consumer_s, limit_s))[0] > limit_s:
            cpus, fewer_s = 2 * cpus, found[0]
        waits = least_s > consumer_s * (1 + self.tolerance)
        return Sizing(cpus=cpus, batch_s=found[0], num_workers=found[1], fewer_s=fewer_s, waits=waits)

    def _quickest(
        self, steps: Sequence[QueueSettings], cpus: float, consumer_s: float, limit_s: float
    ) -> tuple[float, int]:
        """The seconds per batch and the number of the fewest workers within the limit, or of the fastest."""
        paces = [(self.model.batch_s(replace(s, cpus=cpus), consumer_s=consumer_s), s.num_workers) for s in steps]
        return next((pace for pace in paces if pace[0] <= limit_s), min(paces))

    def _measured(self, settings: QueueSettings) -> Measurement | None:
        if self.consumer_s is not None or settings.cpus != self.own.cpus:
            return None
        made = (trial for trial in self.trials if queue_settings(trial.settings, settings.cpus) == settings)
        return next((trial.measurement for trial in made), None)


def of(result: SearchRecord, best: Trial | None, most_batches: int | None = None) -> WhatIf | None:
    """What the records of a search predict; None without a best trial or without records.

    ``most_batches`` limits the batches of an epoch, for predictions of a batch only.
    """
    if best is None:
        return None
    cpus, succeeded = float(result.host.usable_cpus), [t for t in result.trials if t.state is TrialState.OK]
    batches = result.facts.batches_of(best.settings, result.configuration.ranks) if result.facts else None
    replayed = batches if most_batches is None or batches is None else min(batches, most_batches)
    model = model_of([trial for trial in worker_trials(result) if trial in succeeded], replayed, cpus)
    if model is None:
        return None
    loader = best.settings if best.num_workers else result.configuration.loader
    own = replace(queue_settings(loader, cpus), num_workers=best.num_workers)
    consumer_s = min(known.records.loop.consumer_s for known in model.known)
    return WhatIf(
        model=model,
        own=own,
        has_length=batches is not None,
        batch_samples=_batch_samples(best),
        tolerance=result.configuration.search.tolerance,
        trials=tuple(succeeded),
        recorded_s=consumer_s if consumer_s >= MIN_CONSUMER_SHARE * model.batch_s(own) else 0.0,
    )


def _batch_samples(best: Trial) -> float | None:
    found = best.measurement
    if found and found.samples_per_s and found.batch_s:
        return found.samples_per_s * found.batch_s.value
    return best.settings.batch_size


def check(name: str, value: Any) -> None:
    """Raises ConfigurationError if a value of this name is not allowed."""
    if name == "in_order":
        is_allowed, allowed = isinstance(value, bool), "true or false"
    else:
        kind, low, high = _RANGES[name]
        is_allowed = isinstance(value, kind) and not isinstance(value, bool) and low <= value <= high
        allowed = f"{'an integer' if kind is Integral else 'a number'} from {low:g} to {high:g}"
    if not is_allowed:
        raise ConfigurationError(f"{name}={value!r}: allowed is {allowed}")


def ladder(numbers: Sequence[int]) -> list[int]:
    """A few of ascending numbers: all of at most 16, else the steps of a ladder among them, with both ends."""
    if len(numbers) <= _MOST_LISTED:
        return list(numbers)
    return [number for number in numbers if number in _STEPS or number in (numbers[0], numbers[-1])]
