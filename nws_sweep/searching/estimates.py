"""Expected times of candidates that were measured in the same rounds, and what a choice
among them may lose. Pure.

One fit (``stats``) of all candidates and rounds gives the time of each candidate in a
usual round, the interval of its row, the interval of each ratio and the expected loss
of the answer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nws_sweep.model import choice, stats
from nws_sweep.records import LoaderSettings, MeasureRules, Verdict
from nws_sweep.searching.observations import Observation
from nws_sweep.searching.timing import Comparison

# Stopping at a narrow interval selects intervals that are too narrow, and the least
# of several times is too small. With this factor a nominal 95 % covers 93 to 97 % of
# simulated searches.
SEQUENTIAL = 1.3
FEWEST_ROUNDS = 3  # of an answer
# times the answer: one round is enough, unless it has up to twice the workers
_FAR_BEHIND = 1.4
_DISTURBED = 1.25  # slower round of two / the faster one
# within it, losses above ``choice.CLOSE`` are decided, later those above
# ``choice.PROMISING``
_SHORT_SEARCH_S = 15.0
_SHORT_EPOCH_S = 2.0  # shorter epochs are measured several times
_ALL_BUT = 0.9  # share of an epoch that counts as a whole epoch


@dataclass(frozen=True)
class Estimates:
    """The times of candidates in a usual round, the answer, and what the answer may
    lose.

    Attributes:
        observations: Of all candidates that have a cost, by settings: at least one.
        tolerance: Share of the time that twice as many workers must save.
    """

    observations: Mapping[LoaderSettings, Observation]
    tolerance: float

    @cached_property
    def _fit(self) -> stats.Fit:
        """Fits the candidates that have rounds."""
        return stats.fit(
            {
                settings: observation.paces_s
                for settings, observation in self.observations.items()
            }
        )

    def factor(self, settings: LoaderSettings) -> float:
        """Pace of a usual round / pace of the rounds that the candidate was measured
        in; 1 without rounds."""
        paces_s = self.observations[settings].paces_s
        if not paces_s:
            return 1.0
        usual_s = [
            pace_s / math.exp(self._fit.effects[number])
            for number, pace_s in paces_s.items()
        ]
        return math.fsum(usual_s) / math.fsum(paces_s.values())

    @cached_property
    def costs_s(self) -> Mapping[LoaderSettings, float]:
        """Expected seconds per batch in a usual round, by settings; start and end of an
        epoch included."""
        costs_s = {}
        for settings, observation in self.observations.items():
            longer = 1 + observation.paced_share * (self.factor(settings) - 1)
            costs_s[settings] = (observation.cost_s or 0.0) * longer
        return costs_s

    @cached_property
    def _eligible_s(self) -> Mapping[LoaderSettings, float]:
        """The expected times, without candidates that were ended before they had enough
        rounds, if others remain.

        Their few rounds can no longer be corrected; if the noise grows after their end,
        one may seem to be the best.
        """
        settled = [
            o.settings
            for o in self.observations.values()
            if not o.was_ended or len(o.paces_s) >= FEWEST_ROUNDS
        ]
        return {
            settings: self.costs_s[settings] for settings in settled or self.costs_s
        }

    @cached_property
    def answer(self) -> LoaderSettings:
        """The settings to recommend."""
        return choice.choose(self._eligible_s, self.tolerance)

    @cached_property
    def fastest(self) -> LoaderSettings:
        """The settings with the least time."""
        return min(
            self._eligible_s,
            key=lambda settings: (self.costs_s[settings], choice.size(settings)),
        )

    def as_cheap_s(self, settings: LoaderSettings) -> float:
        """Seconds per batch with which settings would have the price of the answer."""
        return self._price(self.answer) / choice.price(
            1.0, settings.num_workers, self.tolerance
        )

    def loss(self, settings: LoaderSettings) -> float:
        """Expected share of the price that is lost by choosing ``answer`` if
        ``settings`` are better.

        About 0 if ``settings`` are surely worse, by however much: it ranks no
        candidates, ``costs_s`` does.
        """
        excess, spread = self._excess(settings), self._spread(settings)
        return choice.expected_loss(excess, spread, self._fit.freedom)

    def _excess(self, settings: LoaderSettings) -> float:
        """Logarithm of the price of ``answer`` / the price of ``settings``; more
        workers must save ``choice.CLOSE``."""
        excess = math.log(self._price(self.answer) / self._price(settings))
        if choice.size(settings) > choice.size(self.answer):
            excess -= math.log1p(choice.CLOSE)
        return excess

    def _price(self, settings: LoaderSettings) -> float:
        return choice.price(
            self.costs_s[settings], settings.num_workers, self.tolerance
        )

    def _spread(self, settings: LoaderSettings) -> float:
        """Standard deviation of the logarithm of the cost of ``settings`` / the cost of
        ``answer``."""
        if settings == self.answer:
            return 0.0
        pair = (settings, self.answer)
        # an earlier program measured one of them
        if not self._fit.logs.keys() >= set(pair):
            return self._fit.noise
        paced_share = max(self.observations[compared].paced_share for compared in pair)
        return paced_share * self._fit.spread(*pair)

    def half_width(self, settings: LoaderSettings) -> float | None:
        """Half the width of the 95 % interval of the logarithm of a candidate's pace;
        None without rounds."""
        if settings not in self._fit.logs:
            return None
        return SEQUENTIAL * self._fit.quantile * self._fit.spread(settings)

    def comparison(self, settings: LoaderSettings) -> Comparison:
        """Compares the row of a candidate with the other candidates."""
        ratio_half_width = None
        if self._fit.logs.keys() >= {settings, self.answer}:
            ratio_half_width = SEQUENTIAL * self._fit.quantile * self._spread(settings)
        return Comparison(
            self.factor(settings), self.half_width(settings), ratio_half_width
        )

    def seconds_to_decide(self, settings: LoaderSettings) -> float:
        """Further seconds, at the pace so far, until the loss is negligible if the
        times stay as they are."""
        # Half the spread is lost at most if the times are equal; two spreads decide
        # if they are not.
        needed = max(2 * choice.CLOSE, abs(self._excess(settings)) / 2)
        longer = (self._spread(settings) / needed) ** 2
        round_s, fewest_rounds = 0.0, math.inf
        for compared in {settings, self.answer}:
            rounds = max(1, len(self.observations[compared].paces_s))
            round_s += self.observations[compared].spent_s / rounds
            fewest_rounds = min(fewest_rounds, rounds)
        return max(1.0, (longer - 1) * fewest_rounds) * round_s

    def verdict(self) -> Verdict:
        """Returns the answer, and the candidates whose choice may be worth more than
        what counts as equal."""
        tied = tuple(
            settings
            for settings in self.observations
            if self.loss(settings) > choice.CLOSE
        )
        return Verdict(
            recommended=self.answer,
            fastest=self.fastest,
            tied=tied,
            seconds_to_decide=max(map(self.seconds_to_decide, tied), default=None),
        )


def estimates_of(
    observations: Sequence[Observation], tolerance: float
) -> Estimates | None:
    """Estimates the times of the candidates that have a cost; None if no candidate has
    one."""
    measured = {
        observation.settings: observation
        for observation in observations
        if observation.cost_s is not None
    }
    return Estimates(measured, tolerance) if measured else None


def undecided(
    estimates: Estimates, candidates: Sequence[Observation], measure: MeasureRules
) -> list[Observation]:
    """Lists the candidates that need more rounds, with the answer; none if the expected
    loss of the answer is small."""
    answer = estimates.observations[estimates.answer]
    unclear = [
        candidate for candidate in candidates if is_undecided(candidate, estimates)
    ]
    if not unclear and _has_enough_rounds(answer, measure):
        return []
    return [
        candidate
        for candidate in candidates
        if candidate in unclear or candidate is answer
    ]


def is_undecided(candidate: Observation, estimates: Estimates) -> bool:
    """Whether more rounds are worth their time; a loss too small for a new candidate is
    worth a short time."""
    if _has_caught_up(candidate, estimates.observations[estimates.answer]):
        return False
    loss = estimates.loss(candidate.settings)
    spent_s = sum(
        observation.spent_s for observation in estimates.observations.values()
    )
    is_soon = (
        spent_s + estimates.seconds_to_decide(candidate.settings) <= _SHORT_SEARCH_S
    )
    return loss > (
        choice.CLOSE if is_soon else choice.PROMISING
    ) or needs_another_round(candidate, estimates)


def _has_caught_up(candidate: Observation, answer: Observation) -> bool:
    """Whether the candidate or the answer has ended, and whichever goes on has as many
    rounds, which are enough."""
    pair = (candidate, answer)
    rounds_of_ended = [
        len(observation.paces_s) for observation in pair if not observation.may_continue
    ]
    rounds_of_active = [
        len(observation.paces_s) for observation in pair if observation.may_continue
    ]
    if not rounds_of_ended:
        return False
    return not rounds_of_active or min(rounds_of_active) >= max(rounds_of_ended)


def needs_another_round(candidate: Observation, estimates: Estimates) -> bool:
    """Whether the only round of a candidate is short, so that it may be wrong by much,
    and not far behind the answer, even if the queue had the other end's pace.

    With up to twice the workers of the answer the round is repeated however far behind:
    predictions of more workers depend on it. After two rounds of which one was probably
    disturbed a third follows, however far behind: reports compare with the candidate.
    """
    if _is_long(candidate):
        return False
    paces_s = candidate.paces_s.values()
    if len(paces_s) == 2:
        return max(paces_s) > _DISTURBED * min(paces_s)
    answer = estimates.answer
    least_s = estimates.costs_s[candidate.settings] / (1 + candidate.bias_bound)
    is_near = least_s < _FAR_BEHIND * estimates.costs_s[answer]
    is_next = answer.num_workers < candidate.num_workers <= 2 * answer.num_workers
    return len(paces_s) == 1 and (is_near or is_next)


def is_precise(
    observation: Observation, estimates: Estimates, measure: MeasureRules
) -> bool:
    """Whether a candidate is as precise as ``measure`` wants it: by its epochs, else by
    the interval of its pace."""
    if measure.mode == "epoch":
        return len(observation.paces_s) >= measure.epochs
    if (
        len(observation.paces_s) < measure.windows
        or observation.bias_bound > measure.precision
    ):
        return False
    half_width = estimates.half_width(observation.settings)
    return half_width is not None and math.expm1(half_width) <= measure.precision


def _has_enough_rounds(answer: Observation, measure: MeasureRules) -> bool:
    """Whether its interval needs no more rounds: it has three, or was measured for an
    epoch that is not short."""
    if measure.mode == "epoch":
        return len(answer.paces_s) >= measure.epochs
    return _is_long(answer) or len(answer.paces_s) >= FEWEST_ROUNDS


def _is_long(observation: Observation) -> bool:
    """Whether an epoch that is not short was timed, or as many batches."""
    if observation.batches is None:
        return False
    epoch_s = (observation.cost_s or 0.0) * observation.batches
    return observation.timed_s >= max(_SHORT_EPOCH_S, _ALL_BUT * epoch_s)
