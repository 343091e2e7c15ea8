"""Decides which settings a running training tries next, or keeps: the rule of a search
(``model.choice``). Pure.

What was measured decides which settings stay; what is predicted decides which are
tried, as long as predictions come true. Predictions are compared with predictions,
since those of measured settings agree with their measurements as far as noise allows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from nws_sweep.model import choice
from nws_sweep.records import LoaderSettings, SearchRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a decision depends on: what was measured, what is predicted, and which
    settings may be tried.

    Attributes:
        base: Settings of the loader as the program made it.
        current: Settings in use.
        measured_s: Times of the settings that were measured, all alike and in turn; the
            current settings are among them.
        predict_s: Predicts the seconds of a batch of those ahead with any settings.
        rules: Of the search.
        workers: Allowed values of num_workers, ascending.
        prefetches: Whether ``prefetch_factor`` may change.
        reorders: Whether ``in_order`` may become False.
        must_save_time: Whether a change has to save time, not only workers; such a
            change can wait for a new epoch.
        refusal: Says why settings do not fit into memory, shared memory and the limits
            of the system; empty if they do.
    """

    base: LoaderSettings
    current: LoaderSettings
    measured_s: Mapping[LoaderSettings, float]
    predict_s: Callable[[LoaderSettings], float]
    rules: SearchRules
    workers: range
    prefetches: bool = False
    reorders: bool = False
    must_save_time: bool = False
    refusal: Callable[[LoaderSettings], str] = lambda _: ""

    @property
    def answer(self) -> LoaderSettings:
        """The best of the measured settings."""
        return choice.choose(self.measured_s, self.rules.tolerance)

    @property
    def has_patience(self) -> bool:
        """Whether predictions may be wrong once more; as in a search, settings in turn
        are in vain after the answer."""
        in_turn = [*self.measured_s]
        return len(in_turn) - 1 - in_turn.index(self.answer) < self.rules.patience


@dataclass(frozen=True, slots=True)
class Try:
    """Decision: try other settings, with the predicted seconds of a batch with them and
    with the current ones."""

    settings: LoaderSettings
    predicted_s: float
    current_s: float


@dataclass(frozen=True, slots=True)
class Keep:
    """Decision: no other settings are tried; the best that were measured, which may be
    earlier ones, are kept.

    Attributes:
        settings: The best that were measured.
        refusal: Why better settings are not tried; empty if none are predicted to be
            better.
    """

    settings: LoaderSettings
    refusal: str = ""


def decide(situation: Situation) -> Try | Keep:
    """The settings to try next; without any, the settings to keep as measured, with why
    no others are tried."""
    if not situation.has_patience:
        return Keep(situation.answer)
    better, refusal = _promising(situation, must_fit=False), ""
    if better is not None and (refusal := situation.refusal(better)):
        better = _promising(situation, must_fit=True)
    if better is not None:
        return Try(
            better, situation.predict_s(better), situation.predict_s(situation.current)
        )
    return Keep(situation.answer, refusal)


def _promising(situation: Situation, *, must_fit: bool) -> LoaderSettings | None:
    """The number of workers that promises most; without any, another length of the
    queue of the best measured.

    Batches in any order come first if that promises more than all of these in the order
    of the sampler.
    """
    base, best, tolerance = situation.base, situation.answer, situation.rules.tolerance
    measured_s = {
        settings: situation.predict_s(settings) for settings in situation.measured_s
    }
    most_s = (1 - choice.PROMISING) * measured_s[situation.current]

    def cost_s(settings: LoaderSettings) -> float | None:
        if must_fit and situation.refusal(settings):
            return None
        predicted_s = situation.predict_s(settings)
        saves_none = situation.must_save_time and predicted_s > most_s
        return None if saves_none else predicted_s

    candidates = [
        _with_queue(base, number, base.prefetched) for number in situation.workers
    ]
    predicted_s = choice.costs_near_the_best(candidates, cost_s, tolerance)
    if situation.reorders:
        unordered = replace(situation.current, in_order=False).canonical()
        unordered_s = cost_s(unordered)
        in_order_s = predicted_s | measured_s
        if unordered_s is not None and choice.promising(
            in_order_s, {unordered: unordered_s}, tolerance
        ):
            return unordered
    better = choice.promising(measured_s, predicted_s, tolerance)
    if better or not situation.prefetches or not best.num_workers:
        return better
    queues_s = {}
    for settings in _other_queues(best, situation.workers):
        queue_s = cost_s(settings)
        if settings not in measured_s and queue_s is not None:
            queues_s[settings] = queue_s
    return choice.promising({best: measured_s[best]}, queues_s, tolerance)


def _other_queues(best: LoaderSettings, workers: range) -> Iterator[LoaderSettings]:
    """Settings with another length of the queue: a longer queue may need fewer workers,
    a shorter one allow more."""
    number = best.num_workers
    numbers = {number, number // 2 or 1, 2 * number} & {*workers}
    for factor in choice.PREFETCH_FACTORS:
        for workers_of_queue in sorted(numbers):
            settings = _with_queue(best, workers_of_queue, factor)
            is_longer = settings.queued_batches > best.queued_batches
            has_more = workers_of_queue > number
            if factor != best.prefetched and not (is_longer and has_more):
                yield settings


def _with_queue(
    settings: LoaderSettings, num_workers: int, prefetch_factor: int
) -> LoaderSettings:
    return replace(
        settings, num_workers=num_workers, prefetch_factor=prefetch_factor
    ).canonical()
