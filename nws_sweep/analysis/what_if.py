"""Predicts one configuration with other settings, CPUs and training steps, from its
recorded costs. Pure."""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from nws_sweep import units
from nws_sweep.errors import ConfigurationError
from nws_sweep.model import choice
from nws_sweep.model.epochs import Prediction
from nws_sweep.model.known import ENDLESS, queue_settings
from nws_sweep.model.model import Model, is_step, model_of
from nws_sweep.model.queue import QueueSettings
from nws_sweep.records import (
    Estimate,
    Measurement,
    SearchRecord,
    Trial,
    TrialState,
    ranges,
)
from nws_sweep.system import processes

NOTHING_RECORDED = "no costs of batches were recorded, so nothing can be predicted"
_KINDS = {
    "num_workers": ranges.Workers,
    "prefetch_factor": ranges.Ranks,
    "in_order": ranges.Switch,
    "cpus": ranges.PredictedCpus,
    "training_step": ranges.PredictedStep,
}
_MOST_LISTED = 16  # values of num_workers; of more only those of a ladder
# share of CPU time from which on a training step computes, so that more CPUs would
# change it
_MOSTLY = 0.5
_UNLIMITED = float(ranges.MOST_CPUS)
FED_STEPS_S = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005)  # training steps of ``feeding``
_RARELY_WAITS = 0.05  # share of the time


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Predicted times of one setting, s, with their 95 % intervals: ``value``, ``low``
    and ``high``."""

    settings: QueueSettings  # with the number of CPUs
    # at the steady pace, its share of an epoch that is too short to have one
    batch_s: Estimate
    epoch_s: Estimate | None  # None if the length of an epoch is unknown
    # of an epoch; without its length at the steady pace, without the size of a batch
    # None
    samples_per_s: float | None
    # of a trial with these settings, CPUs and training step; None if there is none
    measured: Measurement | None
    is_steady: bool = True  # whether ``batch_s`` is at the steady pace

    @property
    def cost_s(self) -> Estimate:
        """Seconds of an epoch, or of a batch if its length is unknown."""
        return self.epoch_s or self.batch_s

    @property
    def measured_s(self) -> float | None:
        """Measured seconds of what ``cost_s`` predicts; None if not measured."""
        if self.measured is None:
            return None
        if self.epoch_s:
            return self.measured.epoch_s
        return self.measured.batch_s.value if self.measured.batch_s else None

    def __str__(self) -> str:
        what = f"num_workers={self.settings.num_workers} on {units.counted(self.settings.cpus, 'CPU')}"
        times = []
        if self.is_steady:
            times.append(f"a batch takes {units.interval(self.batch_s)}")
        if self.epoch_s:
            times.append(f"an epoch takes {units.interval(self.epoch_s)}")
        return f"{what}: {', '.join(times)} (predicted)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """The num_workers that a search which measured few of them is predicted to
    choose."""

    num_workers: int  # not measured
    speed_up: float  # predicted time with the best so far / with ``num_workers``


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What the records of one configuration predict.

    Attributes:
        model: Of all trials with records, with the training step of the run or another
            one.
        best: The best setting, on the CPUs of the run.
        result: Of the search.
    """

    model: Model
    best: QueueSettings
    result: SearchRecord

    @property
    def has_length(self) -> bool:
        """Whether the length of an epoch is known."""
        return self.model.batches != ENDLESS

    @property
    def tolerance(self) -> float:
        """Share of the time that twice as many workers must save."""
        return self.result.configuration.search.tolerance

    @property
    def step_s(self) -> float:
        """Seconds of the training step per batch; 0 if there is none."""
        if self.model.step_s is not None:
            return self.model.step_s
        step_s = self.model.loop.step_s
        has_step = self.result.configuration.has_step and is_step(
            step_s, self.model.cost_s(self.best)
        )
        return step_s if has_step else 0.0

    def asked(self, **values: Any) -> "tuple[WhatIf, QueueSettings]":
        """Makes predictions with another training step, and the best setting with other
        values; None keeps a value.

        Args:
            values: num_workers, prefetch_factor, in_order, cpus, and training_step in
                seconds per batch.

        Raises:
            ConfigurationError: If a value is not allowed.
        """
        changed = {name: value for name, value in values.items() if value is not None}
        for name, value in changed.items():
            check(name, value)
        step_s = changed.pop("training_step", self.model.step_s)
        return replace(self, model=replace(self.model, step_s=step_s)), replace(
            self.best, **changed
        )

    def predict(self, settings: QueueSettings) -> Predicted:
        """Predicts with intervals; replays 25 epochs."""
        prediction = self.model.predict(settings)
        return Predicted(
            settings=settings,
            batch_s=prediction.batch_s,
            epoch_s=prediction.epoch_s if self.has_length else None,
            samples_per_s=_rate(self, prediction),
            measured=_measured(self, settings),
            is_steady=_is_steady(self, settings),
        )

    def recommended(self, rows: Iterable[Predicted]) -> Predicted:
        """Selects the answer of the search if it is among the rows, unless others
        promise to be better, as a search does; else what ``model.choice`` chooses by
        measured or predicted times. Of equal ones that with batches in order."""
        in_order_first = sorted(rows, key=lambda row: not row.settings.in_order)
        predicted_s, measured_s = {}, {}
        for row in in_order_first:
            predicted_s[row.settings] = row.cost_s.value
            if row.measured_s is not None:
                measured_s[row.settings] = row.measured_s
        chosen = None
        if self.best in measured_s:
            chosen = (
                choice.promising(measured_s, predicted_s, self.tolerance) or self.best
            )
        if chosen is None:
            chosen = choice.choose(predicted_s | measured_s, self.tolerance)
        return next(row for row in in_order_first if row.settings == chosen)

    def feeding(self) -> dict[float, int | None]:
        """Predicts the fewest workers that keep a training step busy, by its seconds;
        None if no number does.

        That is, after the start, the step waits for at most ``_RARELY_WAITS`` of the
        time besides the time of receiving batches, which no number of workers saves.
        The numbers are those that ``model.choice`` tries without a measured gain, or up
        to the user's limit.
        """
        fewest = 0
        workers_of: dict[float, int | None] = {}
        loop = self._endless.fewest_workers.records.loop
        for step_s in FED_STEPS_S:
            limit_s = (step_s + loop.receive_s + loop.receive_wait_s) / (
                1 - _RARELY_WAITS
            )
            workers_of[step_s] = self._fewest_within(
                replace(self._endless, step_s=step_s), fewest, limit_s
            )
            fewest = workers_of[step_s] or fewest
        return workers_of

    def _fewest_within(self, model: Model, fewest: int, limit_s: float) -> int | None:
        """Finds the fewest workers, from ``fewest`` on, whose batches take no more than
        the limit; None without any."""

        def cost_s(number: int) -> float:
            return model.cost_s(replace(self.best, num_workers=number))

        # Not one number after the other: the replays of many workers are long.
        numbers = ladder(range(fewest, self._most_workers + 1))
        least_s, quickest = min((cost_s(number), number) for number in numbers)
        # within it by chance, with tens of workers
        if least_s > (1 - choice.CLOSE) * limit_s:
            return None
        return bisect.bisect_left(
            range(quickest),
            True,
            lo=fewest,
            key=lambda number: cost_s(number) <= limit_s,
        )

    @cached_property
    def promised(self) -> Promised | None:
        """Predicts which num_workers ``model.choice`` chooses; None if it was
        measured."""
        numbers = {
            n
            for n in self.result.configuration.search.candidates
            if n <= self._most_workers
        }
        numbers.add(self.best.num_workers)
        candidates = [
            replace(self.best, num_workers=number) for number in sorted(numbers)
        ]
        predicted_s = choice.costs_near_the_best(
            candidates, self.model.cost_s, self.tolerance
        )
        chosen = choice.choose(predicted_s, self.tolerance)
        if chosen.num_workers in self.result.measured_numbers:
            return None
        return Promised(
            num_workers=chosen.num_workers,
            speed_up=predicted_s[self.best] / predicted_s[chosen],
        )

    @property
    def _most_workers(self) -> int:
        """The most workers of a prediction: the user's limit, or what a search tries;
        no more than can have batches."""
        limit = self.result.configuration.search.max_workers
        most = choice.most_workers(self.best.cpus, {}) if limit is None else limit
        return min(most, self.result.most_fed or most)

    @cached_property
    def _endless(self) -> Model:
        """The model of an epoch whose start takes next to nothing."""
        return replace(
            self.model, trials=tuple(trial.endless for trial in self.model.trials)
        )

    def sizing(
        self, settings: QueueSettings, numbers: Iterable[int]
    ) -> dict[int, tuple[float, int]]:
        """Predicts seconds per batch and the recommended num_workers on 1, 2, 4, ...
        CPUs, until the training step hardly waits.

        That is, after the start, for at most ``tolerance`` of its time; if no number of
        CPUs is enough for that, until more of them gain at most as much. Empty without
        a training step, and for one that computes, which more CPUs change.
        """
        step_s = self.step_s
        if not step_s or (
            self.model.step_s is None and self.model.loop.step_cpu_s > _MOSTLY * step_s
        ):
            return {}

        variants = [replace(settings, num_workers=number) for number in numbers]

        def pace(cpus: float) -> tuple[float, int]:
            """Predicts the pace of the setting that is recommended on these CPUs."""
            row = self.recommended(
                [self.predict(replace(queue, cpus=cpus)) for queue in variants]
            )
            return row.batch_s.value, row.settings.num_workers

        least_s, _ = pace(_UNLIMITED)
        limit_s = max(step_s, least_s) * (1 + self.tolerance)
        cpus = 1
        paces = {cpus: pace(cpus)}
        while min(paces.values())[0] > limit_s:
            cpus *= 2
            paces[cpus] = pace(cpus)
        return paces


def _rate(recorded: WhatIf, prediction: Prediction) -> float | None:
    """Samples per second, of an epoch if its length is known; None if the size of a
    batch is unknown."""
    size = recorded.result.configuration.loader.batch_size
    share_s = prediction.batch_s.value
    if recorded.has_length:
        share_s = prediction.epoch_s.value / recorded.model.batches
    return size and size / share_s


def _is_steady(recorded: WhatIf, settings: QueueSettings) -> bool:
    """Whether an epoch is long enough for a steady pace."""
    loader = replace(
        recorded.result.configuration.loader,
        num_workers=settings.num_workers,
        prefetch_factor=settings.prefetch_factor,
    )
    batches = recorded.model.batches
    return not recorded.has_length or loader.steady_part(batches) is not None


def _measured(recorded: WhatIf, settings: QueueSettings) -> Measurement | None:
    """Finds what was measured with these CPUs and this step; without workers other
    settings have no meaning."""
    if recorded.model.step_s is not None or settings.cpus != recorded.best.cpus:
        return None
    for trial in recorded.result.trials:
        queue = queue_settings(trial.settings, settings.cpus)
        is_alike = queue == settings or queue.num_workers == settings.num_workers == 0
        if trial.state is TrialState.OK and is_alike:
            return trial.measurement
    return None


def of(result: SearchRecord, best: Trial | None) -> WhatIf | None:
    """Makes what the records of the search of num_workers predict; None without a best
    trial or records.

    Predictions without workers are of the settings that workers would have.
    """
    if best is None:
        return None
    loader = best.settings
    if not best.num_workers:
        loader = replace(result.configuration.loader, num_workers=0)
    trials = []
    for trial in worker_trials(result):
        if trial.objective_s is not None:
            trials.append(trial)
    model = model_of(
        trials,
        best.batches,
        result.cpus,
        loader.multiprocessing_context or processes.start_method(),
        result.configuration.measure.shared_epochs,
        result.facts is None or result.facts.is_shuffled,
    )
    if model is None:
        return None
    best_queue = queue_settings(loader, result.cpus)
    return WhatIf(model=model, best=best_queue, result=result)


def worker_trials(result: SearchRecord) -> tuple[Trial, ...]:
    """Selects the trials of the search of num_workers, ascending, without those of
    settings searched after it."""
    trials = [
        trial
        for trial in result.trials
        if not result.configuration.differing(trial.settings)
    ]
    return tuple(sorted(trials, key=lambda trial: trial.num_workers))


def check(name: str, value: Any) -> None:
    """Raises ConfigurationError if a value of this name is not allowed."""
    if not ranges.fits(value, _KINDS[name]):
        raise ConfigurationError(
            f"{name}={value!r}: must be {ranges.text_of(_KINDS[name])}"
        )


def ladder(numbers: Sequence[int]) -> list[int]:
    """Selects at most 16 ascending numbers, of more 0, 1, 2, 3, 4, 6, 8, 12, 16, 24,
    ... among them, and both ends."""
    if len(numbers) <= _MOST_LISTED:
        return list(numbers)
    return choice.ladder(numbers, beside=(0,))
