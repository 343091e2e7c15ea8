"""Predicts what any settings would do from all trials of a search. Pure.

Each prediction replays the records of the nearest trial (in the ratio of the workers)
with costs, and is multiplied by a factor for what the replay does not model
(``known``).
"""

import math
import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nws_sweep.model import choice
from nws_sweep.model.bottlenecks import Bottleneck, Epoch
from nws_sweep.model.epochs import (
    MOST_BATCHES,
    MOST_ORDERS,
    Prediction,
    Records,
    epoch_and_batch_s,
    predict,
    scaled,
)
from nws_sweep.model.known import (
    FEW_CPUS,
    Factors,
    Known,
    batch_of,
    beside_others,
    doublings,
    known_of,
)
from nws_sweep.model.queue import QueueSettings
from nws_sweep.model.stages import Stage
from nws_sweep.records import BatchRecord, LoopCosts, Trial

# CPU seconds to start a worker, until a trial with workers is known: 8 to 20 ms
# measured for fork, with the end of the worker, which takes 6 to 9 ms where it is
# measured alone; 1.5 to 3 s for a new process that imports torch. A program that takes
# longer to fork is large: an empty process takes less than 1 ms, one of 1 GB 20 ms.
FORKED_S, _SPAWNED_S = 0.01, 2.0
# that are replayed at least: batches have their pace from the second queue on
_QUEUES = 3
MOST_EQUAL = 300  # batches of similar costs that are replayed

# A training step with less time, or with a share of the time that is next to nothing,
# is the time of the call.
_MIN_STEP_S = 50e-6


@dataclass(frozen=True)
class Model:
    """What a search knows of one configuration: at least one trial whose costs are
    known.

    Attributes:
        trials: By num_workers.
        start_method: Of workers: fork, spawn or forkserver.
        step_s: Seconds per batch of another training step, which takes no CPU time;
            None for the recorded one.
    """

    trials: tuple[Known, ...]
    start_method: str = "fork"
    step_s: float | None = None

    def cost_s(
        self,
        settings: QueueSettings,
        *,
        without: Sequence[Bottleneck | Stage] = (),
        like: Known | None = None,
    ) -> float:
        """Predicts the seconds per batch of an epoch as it will run: its batches share
        its start and its end.

        At least three queues of batches are replayed; the rest of the epoch has their
        pace. The result is the mean over as many orders of a short epoch as have this
        many batches.

        Args:
            settings: Of the queue, with the CPUs.
            without: What is taken away.
            like: The trial as which the workers make batches; None for all trials.
        """
        key = (settings, tuple(without), like.settings if like else None)
        if key not in self._costs_s:
            records, factor = (
                self._inputs_like(like) if like else self._inputs(settings.num_workers)
            )
            epochs_s = []
            for epoch in _epochs(self, records, settings, without):
                epoch_s, _ = epoch_and_batch_s(*epoch, records)
                epochs_s.append(epoch_s)
            self._costs_s[key] = factor * statistics.fmean(epochs_s) / records.batches
        return self._costs_s[key]

    @cached_property
    def _costs_s(self) -> dict[Hashable, float]:
        """The results of ``cost_s`` so far: diagnoses ask again."""
        return {}

    def predict(self, settings: QueueSettings) -> Prediction:
        """Predicts an epoch and a batch at the steady pace, with their bands."""
        number = settings.num_workers
        records, factor = self._inputs(number)
        misfit = math.sqrt(
            self.factors.misfit(number) ** 2 + self._nearest(number).variance
        )
        return predict(
            records, factor, beside_others(settings, self.trials[0].other_cpus), misfit
        )

    @property
    def batches(self) -> int:
        """Batches of an epoch; ``ENDLESS`` if unknown."""
        return self.trials[0].records.batches

    @property
    def loop(self) -> LoopCosts:
        """Costs of the main process, with the least time of the training step."""
        return min(
            (trial.records.loop for trial in self.trials), key=lambda loop: loop.step_s
        )

    @cached_property
    def factors(self) -> Factors:
        """How much longer batches take than replayed."""
        return Factors(self._with_workers, self._nearest(0))

    @cached_property
    def _with_workers(self) -> tuple[Known, ...]:
        return tuple(trial for trial in self.trials if trial.num_workers)

    def _inputs(self, num_workers: int) -> tuple[Records, float]:
        """Returns what is replayed, and the factor; beside another training step, the
        factor is in the records."""
        records = self.records_for(num_workers)
        factor = self.factors.at(num_workers)
        if self.step_s is None:
            return records, factor
        slower = records.slower(factor)
        return replace(
            slower, loop=replace(slower.loop, step_s=self.step_s, step_cpu_s=0.0)
        ), 1.0

    def _inputs_like(self, trial: Known) -> tuple[Records, float]:
        """Returns what workers replay of a trial, and its factor, which a trial without
        workers does not have."""
        if not trial.num_workers:
            return self._started, 1.0
        return self._records[trial.num_workers], trial.factor

    @property
    def fewest_workers(self) -> Known:
        """The trial with the fewest workers, but with at least one if possible."""
        return (self._with_workers or self.trials)[0]

    def records_for(self, num_workers: int) -> Records:
        """Returns the records that stand for this number of workers."""
        nearest = self._nearest(num_workers)
        if num_workers and not nearest.num_workers:
            return self._started
        return self._records[nearest.num_workers]

    @cached_property
    def _records(self) -> Mapping[int, Records]:
        """What is replayed, by the num_workers of a trial."""
        return {
            trial.num_workers: _pooled(trial, self._with_workers)
            for trial in self.trials
        }

    @cached_property
    def _started(self) -> Records:
        """What workers replay of the trial with the fewest workers, if it has none."""
        records = self._records[self.trials[0].num_workers]
        start_s = FORKED_S if self.start_method == "fork" else _SPAWNED_S
        return replace(records, loop=replace(records.loop, start_s=start_s))

    def _nearest(self, num_workers: int) -> Known:
        """Finds the trial whose records stand for this number; a trial without workers
        only for itself, if possible."""
        trials = self._with_workers if num_workers else self.trials[:1]
        return min(
            trials or self.trials, key=lambda trial: abs(doublings(trial, num_workers))
        )


def _epochs(
    model: Model,
    records: Records,
    settings: QueueSettings,
    without: Sequence[Bottleneck | Stage],
) -> Iterator[Epoch]:
    """Yields the epochs that ``Model.cost_s`` replays."""
    settings = beside_others(settings, model.trials[0].other_cpus)
    most = MOST_BATCHES if records.varies else MOST_EQUAL
    seeds = range(max(1, min(MOST_ORDERS, most // records.batches)))
    for costs in records.epochs(max(most, _QUEUES * settings.queued_batches), seeds):
        epoch = Epoch(costs, records.loop, settings)
        for removed in without:
            epoch = epoch.without(removed, model.trials[0].records.loop)
        yield epoch


def _pooled(chosen: Known, with_workers: Sequence[Known]) -> Records:
    """Adds to the records of a trial those that other trials have of other batches,
    scaled by ``_ratio``.

    What was stopped is the last choice.
    """
    pooled = list(chosen.records.made)
    for trial in with_workers:
        if trial is not chosen:
            ratio = _ratio(chosen, trial)
            pooled += [scaled(record, ratio) for record in trial.records.made]
    first: dict[Hashable, BatchRecord] = {}
    for record in sorted(pooled, key=lambda record: record.was_stopped):
        first.setdefault(batch_of(record), record)
    return replace(chosen.records, made=tuple(first.values()))


def _ratio(chosen: Known, trial: Known) -> float:
    """Computes the costs of batches of a trial / their costs in another trial: they may
    depend on the num_workers.

    Trials have no batches in common, and all count, if the data are a stream or larger
    than memory. Where batches have places, trials that have none in common have made
    other parts of the epoch: then the costs are not scaled.
    """
    costs_s = chosen.usual_s
    others_s = trial.usual_s
    both = costs_s.keys() & others_s.keys()
    if not costs_s or not others_s or (chosen.records.has_places and not both):
        return 1.0
    mean_s = statistics.fmean(costs_s[batch] for batch in both or costs_s)
    other_s = statistics.fmean(others_s[batch] for batch in both or others_s)
    return mean_s / other_s if mean_s and other_s else 1.0


def with_and_without_others(model: Model) -> tuple[Model, ...]:
    """Returns the model, and if other programs used CPUs, the model of a machine
    without other programs."""
    fewest, *more = model.trials
    if fewest.other_cpus < FEW_CPUS:
        return (model,)
    return model, replace(model, trials=(replace(fewest, other_cpus=0.0), *more))


def model_of(
    trials: Sequence[Trial],
    batches: int | None,
    cpus: float,
    start_method: str,
    epochs: int = 1,
    shuffled: bool = True,
) -> Model | None:
    """Makes the model of all trials with records; None if there are none.

    Args:
        trials: Trials of one configuration that differ in num_workers only.
        batches: Length of an epoch; None if unknown: then an epoch is endless.
        cpus: CPUs that the processes of a trial may use.
        start_method: Of workers.
        epochs: See ``Records.shared_epochs``.
        shuffled: See ``Records``.
    """
    with_costs = []
    for trial in sorted(trials, key=lambda trial: trial.num_workers):
        costs = (
            known_of(trial, batches, cpus, None, epochs, shuffled)
            if trial.records
            else None
        )
        if costs is not None:
            with_costs.append(costs)
    return Model(tuple(with_costs), start_method) if with_costs else None


def is_step(step_s: float, batch_s: float) -> bool:
    """Whether a training step of ``step_s`` per batch does anything; a batch takes
    ``batch_s``, step included."""
    return step_s >= max(_MIN_STEP_S, choice.CLOSE * batch_s)
