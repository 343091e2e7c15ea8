"""What a strategy sees, what that predicts, and what the strategy decides. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nws_sweep.replay.known import Known
from nws_sweep.replay.model import Model
from nws_sweep.results import LoaderSettings, MeasureRules, SearchRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The measurements of one candidate so far."""

    settings: LoaderSettings  # canonical
    cost_s: float | None = None  # s per batch, start and end of an epoch included; None if it was not measured
    by_round: Mapping[int, float] = field(default_factory=dict)  # the same at the pace of each round, by round
    batches: int | None = None  # batches of an epoch; None if unknown
    spent_s: float = 0.0  # cost of the measurements so far
    timed_s: float = 0.0  # of the windows that count
    may_continue: bool = False  # True if the candidate can be measured further
    eliminated: bool = False  # True if it was ended because others were better
    known: Known | None = None  # costs of its batches; None before the first one

    @property
    def num_workers(self) -> int:
        """Number of workers of the candidate."""
        return self.settings.num_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Decision: measure new candidates until they have converged, in interleaved time slices."""

    candidates: tuple[LoaderSettings, ...]  # without observations, at least one
    beside: tuple[LoaderSettings, ...] = ()  # candidates with observations, measured further for the comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRound:
    """Decision: measure one short time slice of each candidate, then decide again."""

    candidates: tuple[LoaderSettings, ...]  # at least one; new candidates are started
    dropped: tuple[LoaderSettings, ...] = ()  # candidates to end, because they are eliminated
    displaced: tuple[LoaderSettings, ...] = ()  # candidates to end, because the new ones have many workers
    window_s: float = 0.5  # least duration of a window


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Decision: end the search; the reason is one sentence."""

    reason: str


Decision = Measure | MeasureRound | Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy(ABC):
    """Decides from all observations so far, in any order; it has no state."""

    rules: SearchRules  # the strategy, its candidates and limits
    base: LoaderSettings  # all settings but num_workers
    measure: MeasureRules  # precision and duration of the measurements

    @abstractmethod
    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The candidates to measure next, or the reason to stop."""


def model_from(observations: Iterable[Observation], start_method: str) -> Model | None:
    """The model from candidates that differ in num_workers only; None if no costs are known."""
    known = sorted((o.known for o in observations if o.known), key=lambda one: one.settings.num_workers)
    return Model(tuple(known), start_method) if known else None


def for_the_whole_epoch(observation: Observation, model: Model) -> Observation:
    """The observation with the time of the batches of the whole epoch, where the batches of its trial differ much.

    Each round, and each candidate, takes other batches. Their measured time is divided by their replayed time and
    multiplied by the replayed time of the epoch (the ratio estimator: Cochran, Sampling Techniques, 1977, section 6.2).

    Whether batches differ is asked of the trial alone: the records of other trials are scaled to it, and equal batches
    seem to differ then. Where the product is less than any schedule can reach, the measured times stay.
    """
    known = observation.known
    if known is None or not known.spans or not observation.by_round or not known.records.varies:
        return observation
    cost_s = known.measured_factor * model.cost_s(known.settings) / model.factors.at(observation.num_workers)
    if cost_s < known.least_s:
        return observation
    by_round = {n: cost_s * ratio for n, ratio in known.round_ratios.items() if n in observation.by_round}
    return replace(observation, cost_s=cost_s, by_round=by_round)
