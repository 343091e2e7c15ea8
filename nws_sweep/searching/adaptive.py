"""Predict, then measure: the recorded costs of batches predict every number of workers, and measurements decide.

The profile, a short measurement without workers, predicts the first candidate; the program's own num_workers and
the reference are measured beside it. All records together then predict all candidates. Whichever promises to save a few
percent of the price (``replay.choice``) is measured next, until none does. Rounds end when the expected loss of the
answer is small.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.replay import choice
from nws_sweep.replay.known import queue_settings
from nws_sweep.replay.model import Model, with_and_without_others
from nws_sweep.replay.promise import promised_s
from nws_sweep.results import DatasetFacts, LoaderSettings
from nws_sweep.searching.estimates import FEWEST_ROUNDS, Estimates, estimates_of, undecided
from nws_sweep.searching.observations import Decision, Observation, Round, Stop, Strategy, model_from

_SHORT_WINDOW_S = 0.2  # duration of the windows of the first rounds
_FIRST_STEP, _STEP = 8, 4  # a candidate has at most these workers, twice the CPUs, or times the workers measured
MOST_PREDICTED = 6  # candidates started for their prediction, besides those that the patience allows


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive(Strategy):
    """Compares the candidates that may be the best."""

    cores: float  # CPUs that a candidate may use
    guess: int | None = None  # the best num_workers of a similar configuration; one of the first candidates
    start_method: str = "fork"  # of workers: fork, spawn or forkserver

    def decide(self, observations: Sequence[Observation], facts: DatasetFacts | None = None) -> Decision:
        """The next round, or the reason to stop."""
        profiled = self.rules.candidates[0]
        if all(o.num_workers != profiled for o in observations):  # a resumed search may have others
            return self._round([self.base.with_workers(profiled)])
        if unknown := [o.settings for o in observations if o.may_continue and o.cost_s is None]:
            return self._round(unknown)
        estimates = estimates_of(observations, self.rules.tolerance)
        model = model_from(observations, self.start_method)
        if estimates is None or model is None:
            return self._after_failures(observations)
        new = self._new(observations, estimates, model)
        active = [o for o in estimates.observations if o.may_continue]
        ended = [o for o in active if is_behind(o, estimates)]
        staying = (
            [o for o in active if o.settings == estimates.answer] if new else undecided(estimates, active, self.measure)
        )
        if not new and not staying:
            return Stop(reason=self._reason(observations, estimates, model))
        rounds = max((len(o.paces_s) for o in staying), default=0)
        kept = [o.settings for o in staying if o not in ended]
        return self._round([*new, *kept], ended, rounds=rounds)

    def _round(
        self,
        candidates: Iterable[LoaderSettings],
        ended: Iterable[Observation] = (),
        *,
        rounds: int = 0,
    ) -> Round:
        return Round(
            candidates=tuple(candidates),
            ended=tuple(o.settings for o in ended),
            window_s=min(self.measure.window_s, _SHORT_WINDOW_S * 2 ** max(0, rounds - FEWEST_ROUNDS + 1)),
        )

    def _after_failures(self, observations: Sequence[Observation]) -> Decision:
        """The next candidate after failures only, within the patience."""
        untried = self._untried(observations)
        if len(observations) > self.rules.patience or not untried:
            return Stop(reason=f"{units.counted(len(observations), 'candidate')} could not be measured")
        return self._round([self.base.with_workers(untried[0])])

    def _untried(self, observations: Iterable[Observation]) -> list[int]:
        tried = {o.num_workers for o in observations}
        return [n for n in self._allowed if n not in tried]

    @property
    def _allowed(self) -> Sequence[int]:
        """The candidates, and the program's own num_workers unless the user set a limit."""
        is_limited = self.rules.max_workers is not None
        return self.rules.candidates if is_limited else sorted({*self.rules.candidates, self.base.num_workers})

    def _new(self, observations: Sequence[Observation], estimates: Estimates, model: Model) -> list[LoaderSettings]:
        """The candidates to start."""
        fitting, measured_s = self._fitting(observations), estimates.costs_s
        is_first = len({o.num_workers for o in estimates.observations}) == 1
        most = max(_FIRST_STEP, 2 * self.cores, _STEP * max(settings.num_workers for settings in measured_s))
        if self.rules.max_workers is None:
            most = min(most, choice.most_workers(self.cores, measured_s))
        fits = [n for n in fitting if n <= most] or fitting[:1]
        # What the user or an earlier search names may be larger; a resumed search may lack some of them.
        wanted = {self.guess, self.rules.reference, self.base.num_workers, _most_fed(observations)}
        if is_first:
            # Other programs may end at any moment.
            predictions = (self._predicted(fits, variant) for variant in with_and_without_others(model))
            firsts = (choice.promising({}, predicted_s, self.rules.tolerance) for predicted_s in predictions)
            wanted |= {first.num_workers for first in firsts if first}
        if new := [self.base.with_workers(n) for n in fitting if n in wanted]:
            return new
        if self._enough_measured(observations):
            return []
        predicted_s = self._predicted(fits, model, estimates)
        if self._enough_in_vain(estimates):  # the best may be beside the answer, as with a worker for each disk
            predicted_s = {new: cost_s for new, cost_s in predicted_s.items() if _is_beside_answer(new, estimates)}
        # A prediction is compared with predictions too: else all would be promising after one slow measurement.
        known_s = {
            settings: min(cost_s, model.cost_s(queue_settings(settings, self.cores)))
            for settings, cost_s in measured_s.items()
        }
        best = choice.promising(known_s, predicted_s, self.rules.tolerance)
        return [best] if best else []

    def _enough_measured(self, observations: Sequence[Observation]) -> str:
        """Why no candidate is started, whatever is predicted; empty if some may be."""
        is_enough = len(observations) >= MOST_PREDICTED + self.rules.patience
        return f"{len(observations)} candidates were measured" if is_enough else ""

    def _enough_in_vain(self, estimates: Estimates) -> str:
        """Why a candidate is started beside the answer only, whatever is predicted; empty if any may be."""
        in_vain = _started_since(estimates.observations, estimates.of_answer)
        is_enough = in_vain >= max(1, self.rules.patience)
        return f"the last {in_vain} that were predicted to be faster were not" if is_enough else ""

    def _keeps_the_step_busy(self, estimates: Estimates, model: Model) -> bool:
        """Whether no candidate can be faster than the answer, since the training step never waits for it."""
        return estimates.costs_s[estimates.answer] <= model.loop.step_s * (1 + self.rules.tolerance)

    def _predicted(
        self, numbers: Sequence[int], model: Model, estimates: Estimates | None = None
    ) -> Mapping[LoaderSettings, float]:
        """The predicted costs of some of these values of num_workers, and of those near the best of them.

        With ``estimates``, what a candidate takes beyond the price of the answer does not count: it may be measured,
        but will not be used.
        """

        def cost_s(settings: LoaderSettings) -> float:
            most_s = estimates.as_cheap_s(settings) if estimates else math.inf
            return promised_s(model, queue_settings(settings, self.cores), most_s)

        return choice.costs_near_the_best([*map(self.base.with_workers, numbers)], cost_s, self.rules.tolerance)

    def _fitting(self, observations: Sequence[Observation]) -> list[int]:
        """The untried candidates up to half-way from the most workers that succeeded to the fewest more that failed.

        None has more workers than had batches.
        """
        most = max((o.num_workers for o in observations if o.cost_s is not None), default=0)
        failed = [o.num_workers for o in observations if o.cost_s is None and o.num_workers > most]
        ceiling = min((most + min(failed)) / 2 if failed else math.inf, _most_fed(observations))
        return [n for n in self._untried(observations) if n <= ceiling]

    def _reason(self, observations: Sequence[Observation], estimates: Estimates, model: Model) -> str:
        answer, costs_s = estimates.answer, estimates.costs_s
        reason = f"{_named(answer, self.base)} is the fastest"
        if costs_s[estimates.fastest] < (1 - choice.CLOSE) * costs_s[answer]:
            saved = units.share(1 - costs_s[estimates.fastest] / costs_s[answer])
            reason = f"{_named(answer, self.base)}: {_named(estimates.fastest, self.base)} would save only {saved}"
        if self._keeps_the_step_busy(estimates, model):
            return f"{reason}; no candidate can be faster, since it keeps the training step busy all the time"
        if answer.num_workers == self._allowed[-1]:
            return f"{reason}; it is the largest candidate"
        slower = sorted({o.num_workers for o in estimates.observations if costs_s[o.settings] > costs_s[answer]})
        if more := [n for n in slower if n > answer.num_workers]:
            reason += f"; more workers ({', '.join(map(str, more))}) were not faster"
        if (most_fed := _most_fed(observations)) < math.inf:
            reason += f"; only {units.counted(most_fed, 'worker')} can have batches"
        if failed := sorted({o.num_workers for o in observations if o.cost_s is None}):
            reason += f"; num_workers={', '.join(map(str, failed))} could not be measured"
        enough = self._enough_measured(observations) or self._enough_in_vain(estimates)
        return f"{reason}; {enough or f'no other candidate is predicted to save {units.share(choice.PROMISING)}'}"


def _named(settings: LoaderSettings, base: LoaderSettings) -> str:
    differing = settings.differing(base.with_workers(settings.num_workers))
    return f"num_workers={settings.num_workers}" + (f" {differing}" if differing else "")


def _most_fed(observations: Iterable[Observation]) -> float:
    """The most workers that can have batches; infinite if all had some."""
    return min((o.fed_workers for o in observations if o.fed_workers is not None), default=math.inf)


def _is_beside_answer(settings: LoaderSettings, estimates: Estimates) -> bool:
    """Whether its num_workers is between the answer's and the nearest measured ones."""
    numbers = sorted({o.num_workers for o in estimates.observations})
    place = numbers.index(estimates.answer.num_workers)
    return numbers[max(0, place - 1)] < settings.num_workers < numbers[min(place + 1, len(numbers) - 1)]


def _started_since(observations: Iterable[Observation], answer: Observation) -> int:
    """How many candidates were started after the answer, so that their predictions were wrong."""
    began = min(answer.paces_s, default=0)
    return sum(min(o.paces_s, default=0) > began for o in observations)


def is_behind(observation: Observation, estimates: Estimates) -> bool:
    """Whether further rounds are not expected to make it the answer."""
    if observation.settings == estimates.answer or estimates.needs_another_round(observation):
        return False
    return estimates.loss(observation.settings) <= choice.CLOSE
