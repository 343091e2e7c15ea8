"""Expected times of candidates that were measured in the same rounds, and what a choice among them may lose. Pure.

One fit (``stats``) of all candidates and rounds gives the time of each candidate in a usual round, the interval of its
row, the interval of each ratio and the expected loss of the answer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nws_sweep.replay import choice
from nws_sweep.results import LoaderSettings, MeasureRules, Verdict
from nws_sweep.searching import stats
from nws_sweep.searching.observations import Observation
from nws_sweep.searching.timing import Comparison

# Stopping at a narrow interval selects intervals that are too narrow, and the least of several times is too small. With
# this factor a nominal 95 % covers 93 to 97 % of simulated searches.
SEQUENTIAL = 1.3
FEWEST_ROUNDS = 3  # of an answer
_FAR_BEHIND = 1.4  # times the answer: one round is enough, unless it has up to twice the workers
_DISTURBED = 1.25  # slower round of two / the faster one
_SHORT_SEARCH_S = 15.0  # within it, losses above ``choice.CLOSE`` are decided, later those above ``choice.PROMISING``
_SHORT_EPOCH_S, _ALL_BUT = 2.0, 0.9  # shorter ones are measured several times; share of one that counts as all


@dataclass(frozen=True)
class Fitted:
    """The times of candidates in a usual round.

    Attributes:
        observations: Of all candidates that have a cost: at least one.
    """

    observations: tuple[Observation, ...]

    @cached_property
    def _fit(self) -> stats.Fit | None:
        """Of the candidates with rounds; None if there are none."""
        paces_s = [observation.paces_s for observation in self.observations if observation.paces_s]
        return stats.fit(paces_s) if paces_s else None

    @cached_property
    def _places(self) -> Mapping[LoaderSettings, int]:
        """The place of each candidate in the fit."""
        timed = [observation for observation in self.observations if observation.paces_s]
        return {observation.settings: place for place, observation in enumerate(timed)}

    def factor(self, settings: LoaderSettings) -> float:
        """Pace of a usual round / pace of the rounds that the candidate was measured in; 1 without rounds."""
        if self._fit is None or settings not in self._places:
            return 1.0
        paces_s = next(o.paces_s for o in self.observations if o.settings == settings)
        usual_s = [pace_s / math.exp(self._fit.effects[number]) for number, pace_s in paces_s.items()]
        return math.fsum(usual_s) / math.fsum(paces_s.values())

    @cached_property
    def costs_s(self) -> Mapping[LoaderSettings, float]:
        """Expected seconds per batch in a usual round, by settings; start and end of an epoch included."""
        return {
            observation.settings: (observation.cost_s or 0.0)
            * (1 + observation.paced_share * (self.factor(observation.settings) - 1))
            for observation in self.observations
        }

    @property
    def noise(self) -> float:
        """Standard deviation of the logarithm of one time, without the drift; 0 without rounds."""
        return self._fit.noise if self._fit else 0.0

    def half_width(self, settings: LoaderSettings) -> float | None:
        """Half the width of the 95 % interval of the logarithm of a candidate's pace; None without rounds."""
        if self._fit is None or settings not in self._places:
            return None
        return SEQUENTIAL * self._fit.quantile * self._fit.spread(self._places[settings])


@dataclass(frozen=True)
class Estimates(Fitted):
    """The answer of the candidates, and what it may lose.

    Attributes:
        tolerance: Share of the time that twice as many workers must save.
    """

    tolerance: float

    @cached_property
    def answer(self) -> LoaderSettings:
        """The settings to recommend."""
        return choice.choose(self._eligible_s, self.tolerance)

    @cached_property
    def of_answer(self) -> Observation:
        """The observation of the answer."""
        return next(observation for observation in self.observations if observation.settings == self.answer)

    @cached_property
    def fastest(self) -> LoaderSettings:
        """The settings with the least time."""
        return min(self._eligible_s, key=lambda settings: (self.costs_s[settings], choice.size(settings)))

    @cached_property
    def _eligible_s(self) -> Mapping[LoaderSettings, float]:
        """The expected times, without candidates that were ended before they had enough rounds, if others remain.

        Their few rounds can no longer be corrected; if the noise grows after their end, one may seem to be the best.
        """
        settled = [o.settings for o in self.observations if not o.was_ended or len(o.paces_s) >= FEWEST_ROUNDS]
        return {settings: self.costs_s[settings] for settings in settled or self.costs_s}

    def as_cheap_s(self, settings: LoaderSettings) -> float:
        """Seconds per batch with which other settings would have the price of the answer."""
        answer_s = choice.price(self.costs_s[self.answer], self.answer.num_workers, self.tolerance)
        return answer_s / choice.price(1.0, settings.num_workers, self.tolerance)

    def loss(self, settings: LoaderSettings) -> float:
        """Expected share of the price that is lost by choosing ``answer`` if ``settings`` are better."""
        return choice.expected_loss(self._excess(settings), self.spread(settings))

    def is_undecided(self, observation: Observation) -> bool:
        """Whether more rounds are worth their time; a loss too small for a new candidate is worth a short time."""
        pair, loss = (self.of_answer, observation), self.loss(observation.settings)
        # Beside one that has ended, as many rounds are enough.
        ended = [len(of_pair.paces_s) for of_pair in pair if not of_pair.may_continue]
        if ended and all(len(of_pair.paces_s) >= max(ended) for of_pair in pair if of_pair.may_continue):
            return False
        spent_s = sum(candidate.spent_s for candidate in self.observations)
        longer_s = self.seconds_to_decide(observation.settings)
        is_soon = loss > choice.CLOSE and spent_s + longer_s <= _SHORT_SEARCH_S
        return loss > choice.PROMISING or is_soon or self.needs_another_round(observation)

    def needs_another_round(self, observation: Observation) -> bool:
        """Whether its only round is short, so that it may be wrong by much, and it is not far behind the answer.

        With up to twice the workers of the answer it is repeated however far behind: predictions of more depend on it.
        Likewise if it has two rounds of which one was probably disturbed, however far behind: reports compare with it.
        """
        if _is_long(observation):
            return False
        paces_s = observation.paces_s.values()
        if len(paces_s) == 2:
            return max(paces_s) > _DISTURBED * min(paces_s)
        is_near = self.costs_s[observation.settings] < _FAR_BEHIND * self.costs_s[self.answer]
        is_next = self.answer.num_workers < observation.num_workers <= 2 * self.answer.num_workers
        return (is_near or is_next) and len(paces_s) == 1

    def _excess(self, settings: LoaderSettings) -> float:
        """Logarithm of the price of ``answer`` / the price of ``settings``, beyond what counts as equal for more
        workers.
        """
        prices = [choice.price(self.costs_s[s], s.num_workers, self.tolerance) for s in (self.answer, settings)]
        is_larger = choice.size(settings) > choice.size(self.answer)
        return math.log(prices[0] / prices[1]) - (math.log1p(choice.CLOSE) if is_larger else 0.0)

    def spread(self, settings: LoaderSettings) -> float:
        """Standard deviation of the logarithm of the cost of ``settings`` / the cost of ``answer``."""
        if settings == self.answer or self._fit is None:
            return 0.0
        places = [self._places.get(pair) for pair in (settings, self.answer)]
        if places[0] is None or places[1] is None:  # one was measured by an earlier program
            return self._fit.noise
        shares = [o.paced_share for o in self.observations if o.settings in (settings, self.answer)]
        return max(shares) * self._fit.spread(places[0], places[1])

    def ratio_half_width(self, settings: LoaderSettings) -> float | None:
        """Likewise of the logarithm of its cost / the cost of the answer; None without rounds of both."""
        if self._fit is None or settings not in self._places or self.answer not in self._places:
            return None
        return SEQUENTIAL * self._fit.quantile * self.spread(settings)

    def comparison(self, settings: LoaderSettings) -> Comparison:
        """What the row of a candidate needs of the others."""
        return Comparison(self.factor(settings), self.half_width(settings), self.ratio_half_width(settings))

    def verdict(self) -> Verdict:
        """The answer, and the candidates whose choice may be worth more than what counts as equal."""
        tied = tuple(o.settings for o in self.observations if self.loss(o.settings) > choice.CLOSE)
        return Verdict(
            recommended=self.answer,
            fastest=self.fastest,
            tied=tied,
            seconds_to_decide=max(map(self.seconds_to_decide, tied), default=None),
        )

    def seconds_to_decide(self, settings: LoaderSettings) -> float:
        """Further seconds, at the pace so far, until the loss is negligible if the times stay as they are."""
        pair = [o for o in self.observations if o.settings in (settings, self.answer)]
        # Half the spread is lost at most if the times are equal; two spreads decide if they are not.
        needed = max(2 * choice.CLOSE, abs(self._excess(settings)) / 2)
        rounds = max(1, min(len(observation.paces_s) for observation in pair))
        longer = (self.spread(settings) / needed) ** 2
        round_s = sum(observation.spent_s / max(1, len(observation.paces_s)) for observation in pair)
        return max(1.0, (longer - 1) * rounds) * round_s


def undecided(estimates: Estimates, candidates: Sequence[Observation], measure: MeasureRules) -> list[Observation]:
    """The candidates that need more rounds, with the answer; none if the expected loss of the answer is small."""
    unclear = [candidate for candidate in candidates if estimates.is_undecided(candidate)]
    if not unclear and _has_enough_rounds(estimates.of_answer, measure):
        return []
    return [candidate for candidate in candidates if candidate in unclear or candidate is estimates.of_answer]


def is_precise(observation: Observation, estimates: Estimates, measure: MeasureRules) -> bool:
    """Whether a candidate is as precise as ``measure`` wants it: by its epochs, else by the interval of its pace."""
    if measure.mode == "epoch":
        return len(observation.paces_s) >= measure.epochs
    if len(observation.paces_s) < measure.windows or observation.bias_bound > measure.precision:
        return False
    half_width = estimates.half_width(observation.settings)
    return half_width is not None and math.expm1(half_width) <= measure.precision


def estimates_of(observations: Sequence[Observation], tolerance: float) -> Estimates | None:
    """The estimates of the candidates that have a cost; None if there are none."""
    measured = tuple(observation for observation in observations if observation.cost_s is not None)
    return Estimates(measured, tolerance) if measured else None


def _has_enough_rounds(answer: Observation, measure: MeasureRules) -> bool:
    """Whether its interval needs no more rounds: it has three, or was measured for an epoch that is not short."""
    if measure.mode == "epoch":
        return len(answer.paces_s) >= measure.epochs
    return _is_long(answer) or len(answer.paces_s) >= FEWEST_ROUNDS


def _is_long(observation: Observation) -> bool:
    """Whether an epoch that is not short was timed, or as many batches."""
    least_s = max(_SHORT_EPOCH_S, _ALL_BUT * (observation.cost_s or 0.0) * (observation.batches or 0))
    return observation.batches is not None and observation.timed_s >= least_s
