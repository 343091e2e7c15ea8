"""Predict, then measure: the recorded costs of batches predict every number of workers,
and measurements decide.

The profile, a short measurement without workers, predicts the first candidate; the
program's own num_workers and the reference are measured beside it. All records together
then predict all candidates. Whichever promises to save a few percent of the price
(``model.choice``) is measured next, until none does. Rounds end when the expected loss
of the answer is small.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.model import choice
from nws_sweep.model.known import queue_settings
from nws_sweep.model.model import Model, with_and_without_others
from nws_sweep.model.promise import promised_s
from nws_sweep.records import DatasetFacts, LoaderSettings, SearchRules
from nws_sweep.searching.estimates import (
    FEWEST_ROUNDS,
    Estimates,
    estimates_of,
    needs_another_round,
    undecided,
)
from nws_sweep.searching.observations import (
    Decision,
    Observation,
    Round,
    Stop,
    Strategy,
    model_from,
    most_fed,
)

_SHORT_WINDOW_S = 0.2  # duration of the windows of the first rounds
_FIRST_STEP = 8  # workers that any candidate may have; also twice the CPUs,
_STEP = 4  # and this many times the workers of the largest measured candidate
# candidates started for their prediction, besides those that the patience allows
MOST_PREDICTED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive(Strategy):
    """Compares the candidates that may be the best.

    Attributes:
        cores: CPUs that a candidate may use.
        guess: The best num_workers of a similar configuration, a candidate of the first
            rounds; None for no guess.
        start_method: How workers start: fork, spawn or forkserver.
    """

    cores: float
    guess: int | None = None
    start_method: str = "fork"

    def decide(
        self, observations: Sequence[Observation], facts: DatasetFacts | None = None
    ) -> Decision:
        """Decides on the next round, or why to stop."""
        profiled = self.rules.candidates[0]
        # a resumed search may have others
        if all(observation.num_workers != profiled for observation in observations):
            return self._round([self.base.with_workers(profiled)])
        untimed = [
            o.settings for o in observations if o.may_continue and o.cost_s is None
        ]
        if untimed:
            return self._round(untimed)
        estimates = estimates_of(observations, self.rules.tolerance)
        model = model_from(observations, self.start_method)
        if estimates is None or model is None:
            return self._after_failures(observations)
        new = self._new(observations, estimates, model)
        active = [
            observation
            for observation in estimates.observations.values()
            if observation.may_continue
        ]
        if new:  # further rounds wait for what the new candidates show
            staying = [
                observation
                for observation in active
                if observation.settings == estimates.answer
            ]
        else:
            staying = undecided(estimates, active, self.measure)
        if not new and not staying:
            return Stop(reason=self._reason(observations, estimates, model))
        ended = [
            observation for observation in active if _is_behind(observation, estimates)
        ]
        kept = [
            observation.settings for observation in staying if observation not in ended
        ]
        rounds = max((len(observation.paces_s) for observation in staying), default=0)
        return self._round([*new, *kept], ended, rounds=rounds)

    def _round(
        self,
        candidates: Iterable[LoaderSettings],
        ended: Iterable[Observation] = (),
        *,
        rounds: int = 0,
    ) -> Round:
        """Decides on a round, whose windows double with each of the ``rounds`` so far
        that are more than enough."""
        window_s = _SHORT_WINDOW_S * 2 ** max(0, rounds - FEWEST_ROUNDS + 1)
        return Round(
            candidates=tuple(candidates),
            ended=tuple(observation.settings for observation in ended),
            window_s=min(self.measure.window_s, window_s),
        )

    def _after_failures(self, observations: Sequence[Observation]) -> Decision:
        """Decides on the next candidate if all have failed, within the patience."""
        untried = self._untried(observations)
        if len(observations) > self.rules.patience or not untried:
            return Stop(
                reason=f"{units.counted(len(observations), 'candidate')} could not be measured"
            )
        return self._round([self.base.with_workers(untried[0])])

    def _untried(self, observations: Iterable[Observation]) -> list[int]:
        tried = {observation.num_workers for observation in observations}
        return [n for n in self._allowed if n not in tried]

    @property
    def _allowed(self) -> Sequence[int]:
        """The candidates, and the program's own num_workers unless the user set a
        limit."""
        if self.rules.max_workers is not None:
            return self.rules.candidates
        return sorted({*self.rules.candidates, self.base.num_workers})

    def _fitting(self, observations: Sequence[Observation]) -> list[int]:
        """Lists the untried numbers up to half-way from the most workers that succeeded
        to the fewest more that failed.

        No number is larger than the number of workers that had batches.
        """
        succeeded = [
            observation.num_workers
            for observation in observations
            if observation.cost_s is not None
        ]
        most = max(succeeded, default=0)
        failed = [
            o.num_workers
            for o in observations
            if o.cost_s is None and o.num_workers > most
        ]
        ceiling = most_fed(observations)
        if failed:
            ceiling = min(ceiling, (most + min(failed)) / 2)
        return [n for n in self._untried(observations) if n <= ceiling]

    def _new(
        self, observations: Sequence[Observation], estimates: Estimates, model: Model
    ) -> list[LoaderSettings]:
        """Lists the candidates to start: all that are named or predicted to be the
        first, else the most promising."""
        fitting = self._fitting(observations)
        predictions = Predictions(
            model=model,
            estimates=estimates,
            rules=self.rules,
            base=self.base,
            cores=self.cores,
        )
        predictable = predictions.predictable(fitting)
        # What the user or an earlier search names may be larger; a resumed search may
        # lack some of them.
        wanted = {
            self.guess,
            self.rules.reference,
            self.base.num_workers,
            most_fed(observations),
        }
        if len({settings.num_workers for settings in estimates.observations}) == 1:
            wanted |= predictions.first(predictable)
        new = [self.base.with_workers(n) for n in fitting if n in wanted]
        if new or self._enough_measured(observations):
            return new
        promising = predictions.most_promising(predictable)
        return [promising] if promising else []

    def _enough_measured(self, observations: Sequence[Observation]) -> str:
        """Says why no candidate is started, whatever is predicted; empty if some may
        be."""
        is_enough = len(observations) >= MOST_PREDICTED + self.rules.patience
        return f"{len(observations)} candidates were measured" if is_enough else ""

    def _reason(
        self, observations: Sequence[Observation], estimates: Estimates, model: Model
    ) -> str:
        """Says why the search stops: the answer, and what speaks against further
        candidates."""
        answer, costs_s = estimates.answer, estimates.costs_s
        reason = _answer_in_words(estimates, self.base)
        # No candidate can be faster than one for which the training step never waits.
        if costs_s[answer] <= model.loop.step_s * (1 + self.rules.tolerance):
            return f"{reason}; no candidate can be faster, since it keeps the training step busy all the time"
        if answer.num_workers == self._allowed[-1]:
            return f"{reason}; it is the largest candidate"
        slower = {
            settings.num_workers
            for settings, cost_s in costs_s.items()
            if cost_s > costs_s[answer]
        }
        more = [n for n in slower if n > answer.num_workers]
        if more:
            reason += f"; more workers ({_listed(more)}) were not faster"
        fed = most_fed(observations)
        if fed < math.inf:
            reason += f"; only {units.counted(fed, 'worker')} can have batches"
        failed = {
            observation.num_workers
            for observation in observations
            if observation.cost_s is None
        }
        if failed:
            reason += f"; num_workers={_listed(failed)} could not be measured"
        enough = self._enough_measured(observations) or _enough_in_vain(
            estimates, self.rules.patience
        )
        return f"{reason}; {enough or f'no other candidate is predicted to save {units.share(choice.PROMISING)}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """What the costs of batches promise of candidates that were not measured.

    Attributes:
        model: Replays an epoch of any candidate.
        estimates: The times of the measured candidates.
        rules: The candidates and the limits.
        base: All settings but num_workers.
        cores: CPUs that a candidate may use.
    """

    model: Model
    estimates: Estimates
    rules: SearchRules
    base: LoaderSettings
    cores: float

    def predictable(self, fitting: Sequence[int]) -> Sequence[int]:
        """Selects the numbers that are not too far from what was measured for a
        prediction; at least the least."""
        measured = self.estimates.costs_s
        most = max(
            _FIRST_STEP,
            2 * self.cores,
            _STEP * max(settings.num_workers for settings in measured),
        )
        if self.rules.max_workers is None:
            most = min(most, choice.most_workers(self.cores, measured))
        return [n for n in fitting if n <= most] or fitting[:1]

    def first(self, numbers: Sequence[int]) -> set[int]:
        """Predicts the best numbers from the profile alone: with other programs, and
        without, since they may end."""
        firsts = set()
        for profiled in with_and_without_others(self.model):
            first = choice.promising(
                {}, self._predicted(numbers, profiled), self.rules.tolerance
            )
            if first:
                firsts.add(first.num_workers)
        return firsts

    def most_promising(self, numbers: Sequence[int]) -> LoaderSettings | None:
        """Selects the candidate that promises to save most; None if no candidate
        promises enough."""
        estimates, model = self.estimates, self.model
        predicted_s = self._predicted(numbers, model, estimates)
        # the best may be beside the answer, as with a worker for each disk
        if _enough_in_vain(estimates, self.rules.patience):
            beside = [
                settings
                for settings in predicted_s
                if _is_beside_answer(settings, estimates)
            ]
            predicted_s = {settings: predicted_s[settings] for settings in beside}
        measured_s = {}
        for settings, cost_s in estimates.costs_s.items():
            # A prediction is compared with predictions too: else all would be
            # promising after one slow measurement.
            measured_s[settings] = min(
                cost_s, model.cost_s(queue_settings(settings, self.cores))
            )
        return choice.promising(measured_s, predicted_s, self.rules.tolerance)

    def _predicted(
        self, numbers: Sequence[int], model: Model, estimates: Estimates | None = None
    ) -> Mapping[LoaderSettings, float]:
        """Predicts seconds per batch for some of these values of num_workers, and for
        those near the best of them.

        With ``estimates``, what a candidate takes beyond the price of the answer does
        not count: it may be measured, but will not be used.
        """

        def cost_s(settings: LoaderSettings) -> float:
            most_s = estimates.as_cheap_s(settings) if estimates else math.inf
            return promised_s(model, queue_settings(settings, self.cores), most_s)

        candidates = [self.base.with_workers(num_workers) for num_workers in numbers]
        return choice.costs_near_the_best(candidates, cost_s, self.rules.tolerance)


def _enough_in_vain(estimates: Estimates, patience: int) -> str:
    """Says why a candidate is started beside the answer only, whatever is predicted;
    empty if any may be."""
    answer_round = min(estimates.observations[estimates.answer].paces_s, default=0)
    first_rounds = [
        min(observation.paces_s, default=0)
        for observation in estimates.observations.values()
    ]
    # started after the answer
    in_vain = sum(first_round > answer_round for first_round in first_rounds)
    if in_vain < max(1, patience):
        return ""
    return f"the last {in_vain} that were predicted to be faster were not"


def _answer_in_words(estimates: Estimates, base: LoaderSettings) -> str:
    """Says which candidate is the answer, and what the fastest would save; settings as
    far as they differ from base."""

    def named(settings: LoaderSettings) -> str:
        differing = settings.differing(base.with_workers(settings.num_workers))
        return f"num_workers={settings.num_workers} {differing}".rstrip()

    answer, fastest = estimates.answer, estimates.fastest
    answer_s, fastest_s = estimates.costs_s[answer], estimates.costs_s[fastest]
    if fastest_s < (1 - choice.CLOSE) * answer_s:
        return f"{named(answer)}: {named(fastest)} would save only {units.share(1 - fastest_s / answer_s)}"
    return f"{named(answer)} is the fastest"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _is_beside_answer(settings: LoaderSettings, estimates: Estimates) -> bool:
    """Whether its num_workers lies between the measured numbers below and above the
    answer's."""
    numbers = sorted({settings.num_workers for settings in estimates.observations})
    place = numbers.index(estimates.answer.num_workers)
    below, above = numbers[max(0, place - 1)], numbers[min(place + 1, len(numbers) - 1)]
    return below < settings.num_workers < above


def _is_behind(observation: Observation, estimates: Estimates) -> bool:
    """Whether further rounds are not expected to make the candidate the answer."""
    if observation.settings == estimates.answer or needs_another_round(
        observation, estimates
    ):
        return False
    return estimates.loss(observation.settings) <= choice.CLOSE
