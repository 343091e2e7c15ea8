"""What a strategy sees, what that predicts, and what the strategy decides. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nws_sweep.replay.known import Known
from nws_sweep.replay.model import Model
from nws_sweep.results import DatasetFacts, LoaderSettings, MeasureRules, SearchRules, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The measurements of one candidate so far."""

    settings: LoaderSettings  # canonical
    cost_s: float | None = None  # s per batch, start and end of an epoch included; None if it was not measured
    paces_s: Mapping[int, float] = field(default_factory=dict)  # s per batch without start and end, by round
    paced_share: float = 1.0  # of ``cost_s`` that grows with the pace of the rounds
    bias_bound: float = 0.0  # of the pace, from a change of the queue; relative
    batches: int | None = None  # batches of an epoch; None if unknown
    spent_s: float = 0.0  # cost of the measurements so far
    timed_s: float = 0.0  # of the windows that count
    may_continue: bool = False  # True if the candidate can be measured further
    was_ended: bool = False  # True if it was ended because others were better
    known: Known | None = None  # costs of its batches; None before the first one
    fed_workers: int | None = None  # that had batches, if others had none

    @property
    def num_workers(self) -> int:
        """Number of workers of the candidate."""
        return self.settings.num_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Decision: take one time slice of each candidate, then decide again."""

    candidates: tuple[LoaderSettings, ...]  # at least one; new candidates are started
    beside: tuple[LoaderSettings, ...] = ()  # candidates that are measured too, for the comparison, if they are alive
    ended: tuple[LoaderSettings, ...] = ()  # candidates to end before, because others are better or they are precise
    window_s: float = 0.5  # least duration of a window
    # What does not fit beside these candidates waits until some have ended; else the slowest ends at once.
    waits: bool = False
    are_worse: bool = True  # whether candidates are ended because others are better


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Decision: end the search; the reason is one sentence."""

    reason: str


Decision = Round | Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy(ABC):
    """Decides from all observations so far, in any order; it has no state."""

    rules: SearchRules  # the strategy, its candidates and limits
    base: LoaderSettings  # all settings but num_workers
    measure: MeasureRules  # precision and duration of the measurements

    @abstractmethod
    def decide(self, observations: Sequence[Observation], facts: DatasetFacts | None = None) -> Decision:
        """The candidates to measure next, or the reason to stop; ``facts`` are the dataset's, None if unknown."""


def observation_of(trial: Trial, costs: Known | None) -> Observation:
    """What is known of a finished trial of an earlier program; ``costs`` are those of its batches."""
    cost_s = None if trial.objective_s is None else trial.objective_s / (trial.batches or 1)
    return Observation(
        settings=trial.settings, cost_s=cost_s, known=costs, batches=trial.batches, fed_workers=trial.fed_workers
    )


def model_from(observations: Iterable[Observation], start_method: str) -> Model | None:
    """The model from candidates that differ in num_workers only; None if no costs are known."""
    costs = [observation.known for observation in observations if observation.known]
    costs.sort(key=lambda known_costs: known_costs.settings.num_workers)
    return Model(tuple(costs), start_method) if costs else None
