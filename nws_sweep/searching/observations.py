"""What a strategy sees of each candidate, and what the strategy decides. Pure."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nws_sweep.model.epochs import Records
from nws_sweep.model.known import Known, known_of
from nws_sweep.model.model import Model
from nws_sweep.records import (
    DatasetFacts,
    LoaderSettings,
    MeasureRules,
    SearchRules,
    Trial,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The measurements of one candidate so far.

    Attributes:
        settings: Canonical.
        cost_s: Seconds per batch, start and end of an epoch included; None if the
            candidate was not measured.
        paces_s: Seconds per batch without start and end of an epoch, by round.
        paced_share: Share of ``cost_s`` that grows with the pace of the rounds.
        bias_bound: Bound of the relative error of the pace from a change of the queue.
        batches: Batches of an epoch; None if unknown.
        spent_s: Seconds that all measurements of the candidate took so far.
        timed_s: Seconds of the windows that count.
        may_continue: Whether the candidate can be measured further.
        was_ended: Whether the candidate was ended because other candidates were better.
        costs: Costs of the batches; None before the first batch.
        fed_workers: How many workers had batches, if some workers had none; else None.
    """

    settings: LoaderSettings
    cost_s: float | None = None
    paces_s: Mapping[int, float] = field(default_factory=dict)
    paced_share: float = 1.0
    bias_bound: float = 0.0
    batches: int | None = None
    spent_s: float = 0.0
    timed_s: float = 0.0
    may_continue: bool = False
    was_ended: bool = False
    costs: Known | None = None
    fed_workers: int | None = None

    @property
    def num_workers(self) -> int:
        """Number of workers of the candidate."""
        return self.settings.num_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Decision: take one time slice of each candidate, then decide again.

    Attributes:
        candidates: At least one; new candidates are started.
        beside: Candidates that are measured too, for the comparison, if they have trial
            processes.
        ended: Candidates to end before the round; with fewer than three rounds they can
            no longer be the answer.
        window_s: Least seconds of a window.
        are_rivals: Whether candidates compete: they are ended because other candidates
            are better, and where a new one does not fit, the slowest ends at once. If
            not, all become precise: candidates are ended because they are, and a new
            one that does not fit waits until some of ``candidates`` have ended.
    """

    candidates: tuple[LoaderSettings, ...]
    beside: tuple[LoaderSettings, ...] = ()
    ended: tuple[LoaderSettings, ...] = ()
    window_s: float = 0.5
    are_rivals: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Decision: end the search; the reason is one sentence."""

    reason: str


Decision = Round | Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy(ABC):
    """Decides from all observations so far, in any order; it has no state.

    Attributes:
        rules: The strategy, the candidates and the limits.
        base: All settings but num_workers.
        measure: Precision and duration of the measurements.
    """

    rules: SearchRules
    base: LoaderSettings
    measure: MeasureRules

    @abstractmethod
    def decide(
        self, observations: Sequence[Observation], facts: DatasetFacts | None = None
    ) -> Decision:
        """Decides which candidates to measure next, or why to stop; ``facts`` are the
        dataset's, None if unknown."""


def observation_of(trial: Trial) -> Observation:
    """Makes the observation of a finished trial of an earlier program, without the
    costs of its batches."""
    cost_s = (
        None if trial.objective_s is None else trial.objective_s / (trial.batches or 1)
    )
    return Observation(
        settings=trial.settings,
        cost_s=cost_s,
        batches=trial.batches,
        fed_workers=trial.fed_workers,
    )


def costs_of_trials(
    trials: Iterable[Trial], *, cores: float, epochs: int, is_shuffled: bool
) -> Mapping[LoaderSettings, Known | None]:
    """Collects the costs of the batches of all trials, with the arguments of
    ``known_of``.

    The costs of the trial with the fewest workers that has some serve all trials.
    """
    costs: dict[LoaderSettings, Known | None] = {}
    first_records: Records | None = None
    for trial in sorted(trials, key=lambda trial: trial.num_workers):
        costs_of_trial = known_of(
            trial, trial.batches, cores, first_records, epochs, is_shuffled
        )
        if first_records is None and costs_of_trial is not None:
            first_records = costs_of_trial.records
        costs[trial.settings] = costs_of_trial
    return costs


def model_from(observations: Iterable[Observation], start_method: str) -> Model | None:
    """Makes the model from candidates that differ in num_workers only; None if no costs
    are known."""
    costs = [observation.costs for observation in observations if observation.costs]
    costs.sort(key=lambda candidate_costs: candidate_costs.num_workers)
    return Model(tuple(costs), start_method) if costs else None


def most_fed(observations: Iterable[Observation]) -> float:
    """Says how many workers can have batches at most; infinite if all had some."""
    return min(
        (o.fed_workers for o in observations if o.fed_workers is not None),
        default=math.inf,
    )
