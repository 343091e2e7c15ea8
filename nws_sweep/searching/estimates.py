"""Expected times of candidates that were measured in the same rounds, and what a choice among them may lose. Pure.

The logarithm of a time is the sum of the candidate's, the round's and noise: a drift from round to round affects all
candidates of a round equally. Candidates and rounds are fitted together by least squares. The effect of a round counts
less the fewer candidates it has and the noisier they are (Gelman et al., Bayesian Data Analysis, 2013, section 5.4).
Each candidate has only a few rounds, so the noise is pooled over all of them, with a weak prior.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nws_sweep.replay import choice
from nws_sweep.results import LoaderSettings, MeasureRules, Verdict
from nws_sweep.searching.observations import Observation
from nws_sweep.searching.quantities import SEQUENTIAL
from nws_sweep.searching.stats import student_t_975

# Prior of the noise: standard deviation of the logarithm of the time of a window, and its weight in windows.
_PRIOR_SPREAD, _PRIOR_WEIGHT = 0.025, 3
_PRIOR_WEIGHT_OF_INTERVALS = 1  # printed intervals of short searches would be too narrow with more
FEWEST_ROUNDS = 3  # of an answer: an interval needs three
_FAR_BEHIND = 1.4  # times the answer: one round is enough, unless it has up to twice the workers
_DISTURBED = 1.25  # slower round of two / the faster one
_SHORT_SEARCH_S = 15.0  # within it, losses above ``choice.CLOSE`` are decided, later those above ``choice.PROMISING``
_SHORT_EPOCH_S, _ALL_BUT = 2.0, 0.9  # shorter ones are measured several times; share of one that counts as all
_NORMAL_975 = statistics.NormalDist().inv_cdf(0.975)
_PASSES = 20  # of the fit, which converges geometrically
_MOST_LONGER = 1000.0  # upper bound of further rounds / rounds so far in ``seconds_to_decide``


@dataclass(frozen=True)
class Estimates:
    """The candidates that have a time: at least one.

    Attributes:
        observations: Of all candidates, each with a cost.
        tolerance: Share of the time that twice as many workers must save.
    """

    observations: tuple[Observation, ...]
    tolerance: float

    @cached_property
    def costs_s(self) -> Mapping[LoaderSettings, float]:
        """Expected seconds per batch, by settings."""
        fitted = self._fit[0]
        costs_s = {one.settings: one.cost_s for one in self.observations if one.cost_s is not None}
        # The fit compares; the scale is that of all rounds together.
        scale = statistics.fmean(math.log(costs_s[one]) - log for one, log in fitted.items()) if fitted else 0.0
        return costs_s | {one: math.exp(log + scale) for one, log in fitted.items()}

    @cached_property
    def answer(self) -> LoaderSettings:
        """The settings to recommend."""
        return choice.choose(self._eligible_s, self.tolerance)

    @cached_property
    def of_answer(self) -> Observation:
        """The observation of the answer."""
        return next(one for one in self.observations if one.settings == self.answer)

    @cached_property
    def fastest(self) -> LoaderSettings:
        """The settings with the least time."""
        return min(self._eligible_s, key=lambda one: (self.costs_s[one], choice.size(one)))

    @cached_property
    def _eligible_s(self) -> Mapping[LoaderSettings, float]:
        """The expected times, without candidates that were eliminated before they had an interval, if others remain.

        Their few rounds can no longer be corrected; if the noise grows after their end, one may seem to be the best.
        """
        settled = [o.settings for o in self.observations if not o.eliminated or len(o.by_round) >= FEWEST_ROUNDS]
        return {one: self.costs_s[one] for one in settled or self.costs_s}

    def loss(self, other: LoaderSettings) -> float:
        """Expected share of the price that is lost by choosing ``answer`` if ``other`` is better."""
        return choice.expected_loss(self._excess(other), self.spread(other))

    def is_undecided(self, other: Observation) -> bool:
        """Whether more rounds are worth their time; a loss too small for a new candidate is worth a short time."""
        pair, loss = (self.of_answer, other), self.loss(other.settings)
        # Beside one that has ended, as many rounds are enough.
        ended = [len(one.by_round) for one in pair if not one.may_continue]
        if ended and all(len(one.by_round) >= max(ended) for one in pair if one.may_continue):
            return False
        spent_s = sum(one.spent_s for one in self.observations)
        is_soon = loss > choice.CLOSE and spent_s + self.seconds_to_decide(other.settings) <= _SHORT_SEARCH_S
        return loss > choice.PROMISING or is_soon or self.needs_another_round(other)

    def needs_another_round(self, one: Observation) -> bool:
        """Whether its only round is short, so that it may be wrong by much, and it is not far behind the answer.

        With up to twice the workers of the answer it is repeated however far behind: predictions of more depend on it.
        Likewise if it has two rounds of which one was probably disturbed, however far behind: reports compare with it.
        """
        if _is_long(one):
            return False
        if len(one.by_round) == 2:
            return max(one.by_round.values()) > _DISTURBED * min(one.by_round.values())
        is_near = self.costs_s[one.settings] < _FAR_BEHIND * self.costs_s[self.answer]
        is_next = self.answer.num_workers < one.num_workers <= 2 * self.answer.num_workers
        return (is_near or is_next) and len(one.by_round) == 1

    def _excess(self, other: LoaderSettings) -> float:
        """Logarithm of the price of ``answer`` / that of ``other``, beyond what counts as equal for more workers."""
        mine, theirs = (choice.price(self.costs_s[s], s.num_workers, self.tolerance) for s in (self.answer, other))
        is_larger = choice.size(other) > choice.size(self.answer)
        return math.log(mine / theirs) - (math.log1p(choice.CLOSE) if is_larger else 0.0)

    def spread(self, other: LoaderSettings) -> float:
        """Standard deviation of the logarithm of the time of ``other`` / that of ``answer``."""
        if other == self.answer:
            return 0.0
        rounds = {one.settings: max(1, len(one.by_round)) for one in self.observations}
        return self.noise * math.sqrt(1 / rounds[other] + 1 / rounds[self.answer])

    def half_width(self, one: Observation) -> float:
        """Half the width of the 95 % interval of the logarithm of its time, which has rounds."""
        noise = _noise(self.observations, *self._fit, _PRIOR_WEIGHT_OF_INTERVALS)
        return SEQUENTIAL * _NORMAL_975 * noise / math.sqrt(len(one.by_round))

    @cached_property
    def noise(self) -> float:
        """Standard deviation of the logarithm of the time of one round.

        It is larger, as the quantile of Student's t to that of the normal distribution, the fewer rounds it comes from.
        """
        return _noise(self.observations, *self._fit, _PRIOR_WEIGHT)

    @cached_property
    def _fit(self) -> tuple[Mapping[LoaderSettings, float], Mapping[int, float], float]:
        """Logarithms of the times of candidates with rounds, the effects of the rounds, and their degrees of freedom.

        An effect that counts less has less than one degree (Hastie et al., The Elements of Statistical Learning, 2009,
        section 7.6); one is the candidates' if all rounds differ alike.
        """
        seen = [one for one in self.observations if one.by_round]
        logs = {one.settings: {number: math.log(s) for number, s in one.by_round.items()} for one in seen}
        effects = dict.fromkeys(sorted({number for own in logs.values() for number in own}), 0.0)
        fitted: dict[LoaderSettings, float] = {}
        share = 1.0  # variance of the noise / that of the effects
        for _ in range(_PASSES):
            fitted = {one: statistics.fmean(log - effects[n] for n, log in own.items()) for one, own in logs.items()}
            for number in effects:
                left = [own[number] - fitted[one] for one, own in logs.items() if number in own]
                effects[number] = sum(left) / (len(left) + share)
            rest = [log - fitted[one] - effects[n] for one, own in logs.items() for n, log in own.items()]
            share = _variance(rest) / _variance([*effects.values()])
        numbers = [number for own in logs.values() for number in own]
        degrees = [(n := numbers.count(number)) / (n + share) for number in effects]
        return fitted, effects, sum(degrees) - (statistics.fmean(degrees) if degrees else 0.0)

    def verdict(self) -> Verdict:
        """The answer, and the candidates whose choice may be worth more than what counts as equal."""
        tied = tuple(one.settings for one in self.observations if self.loss(one.settings) > choice.CLOSE)
        return Verdict(
            recommended=self.answer,
            fastest=self.fastest,
            tied=tied,
            seconds_to_decide=max(map(self.seconds_to_decide, tied), default=None),
        )

    def seconds_to_decide(self, other: LoaderSettings) -> float:
        """Further seconds, at the pace so far, until the loss is negligible if the times stay as they are."""
        seen = {one.settings: one for one in self.observations}
        pair = [seen[other], seen[self.answer]]
        # Half the spread is lost at most if the times are equal; two spreads decide if they are not.
        needed = max(2 * choice.CLOSE, abs(self._excess(other)) / 2)
        rounds = max(1, min(len(one.by_round) for one in pair))
        longer = min(_MOST_LONGER, (self.spread(other) / needed) ** 2)
        round_s = sum(one.spent_s / max(1, len(one.by_round)) for one in pair)
        return max(1.0, (longer - 1) * rounds) * round_s


def undecided(found: Estimates, candidates: Sequence[Observation], measure: MeasureRules) -> list[Observation]:
    """The candidates that need more rounds, with the answer; none if the expected loss of the answer is small."""
    unclear = [one for one in candidates if found.is_undecided(one)]
    if not unclear and _has_enough_rounds(found.of_answer, measure):
        return []
    return [one for one in candidates if one in unclear or one is found.of_answer]


def _noise(
    observations: Iterable[Observation],
    fitted: Mapping[LoaderSettings, float],
    effects: Mapping[int, float],
    freedom: float,
    prior_weight: int,
) -> float:
    """See ``Estimates.noise``; the others are those of ``Estimates._fit``."""
    residuals = [
        math.log(cost_s) - fitted[one.settings] - effects[number]
        for one in observations
        for number, cost_s in one.by_round.items()
    ]
    squares = sum(residual**2 for residual in residuals) + prior_weight * _PRIOR_SPREAD**2
    degrees = max(0.0, len(residuals) - len(fitted) - freedom) + prior_weight
    return math.sqrt(squares / degrees) * student_t_975(max(2, int(degrees))) / _NORMAL_975


def _variance(values: Sequence[float]) -> float:
    """Of values whose mean is 0, with the prior."""
    squares = sum(value**2 for value in values) + _PRIOR_WEIGHT * _PRIOR_SPREAD**2
    return squares / (len(values) + _PRIOR_WEIGHT)


def estimates_of(observations: Sequence[Observation], tolerance: float) -> Estimates | None:
    """The estimates of the candidates that have a cost; None if there are none."""
    measured = tuple(one for one in observations if one.cost_s is not None)
    return Estimates(measured, tolerance) if measured else None


def _has_enough_rounds(answer: Observation, measure: MeasureRules) -> bool:
    """Whether its interval needs no more rounds: it has three, or was measured for an epoch that is not short."""
    if measure.mode == "epoch":
        return len(answer.by_round) >= measure.epochs
    return _is_long(answer) or len(answer.by_round) >= FEWEST_ROUNDS


def _is_long(one: Observation) -> bool:
    """Whether an epoch that is not short was timed, or as many batches."""
    least_s = max(_SHORT_EPOCH_S, _ALL_BUT * (one.cost_s or 0.0) * (one.batches or 0))
    return one.batches is not None and one.timed_s >= least_s
