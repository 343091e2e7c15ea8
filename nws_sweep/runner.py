"""The search of one configuration: asks the strategy, runs the trial, tells it, until the strategy says stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from nws_sweep.errors import TrialError, TrialOutOfMemory, TrialTimeout
from nws_sweep.records import (
    Burst,
    BurstKind,
    BurstRequest,
    Configuration,
    DatasetFacts,
    LoaderSettings,
    SearchResult,
    Trial,
    TrialState,
)
from nws_sweep.strategies import Measure, Observation, make
from nws_sweep.trial import next_request, summarise

Clock = Callable[[], float]


class TrialArm(Protocol):
    """Where a trial is measured: an arm in a process of its own, or a simulated one."""

    facts: DatasetFacts
    batches_per_epoch: int | None

    def open(self, settings: LoaderSettings) -> None:
        """Makes the DataLoader."""

    def burst(self, request: BurstRequest) -> Burst:
        """Takes a burst of batches."""
        ...

    def warned(self) -> tuple[str, ...]:
        """The distinct warnings issued so far."""
        ...


ArmFactory = Callable[[Configuration], AbstractContextManager[TrialArm]]


class Observer(Protocol):
    """Is told what happens while it happens: the files and the terminal."""

    def trial_started(self, num_workers: int) -> None:
        """A candidate is about to be measured."""

    def trial_finished(self, result: SearchResult) -> None:
        """A trial is done; it is the last of ``result.trials``."""

    def search_finished(self, result: SearchResult) -> None:
        """The search came to its own end."""


def search(
    start: SearchResult,
    open_arm: ArmFactory,
    observer: Observer,
    clock: Clock = time.perf_counter,
) -> SearchResult:
    """Searches num_workers for one configuration.

    Args:
        start: The result so far, usually without trials; those that it has are not measured again.
        open_arm: Starts an arm for a configuration and ends it.
        observer: Told of every trial as soon as it is done.
        clock: Seconds from any fixed point.

    Returns:
        The result with all trials, and why the search stopped.
    """
    began = clock()
    configuration = start.configuration
    strategy = make(configuration.search)
    result = start
    while isinstance(decision := strategy.decide(_observations(result)), Measure):
        result = _with_trial(result, decision.num_workers, open_arm, observer, clock)
    reference = configuration.search.reference
    if reference is not None and reference not in {trial.num_workers for trial in result.trials}:
        result = _with_trial(result, reference, open_arm, observer, clock)
    reason = decision.reason + _about_reference(result)
    result = replace(result, stop_reason=reason, cost_s=start.cost_s + clock() - began)
    observer.search_finished(result)
    return result


def _about_reference(result: SearchResult) -> str:
    """What the reference, measured after the strategy had stopped, says about the strategy's answer."""
    *before, last = result.trials
    costs = [trial.objective_s for trial in before if trial.objective_s is not None]
    if last.num_workers != result.configuration.search.reference or last.objective_s is None or not costs:
        return ""
    between = [
        n for n in result.configuration.search.candidates if n not in {trial.num_workers for trial in result.trials}
    ]
    if last.objective_s >= min(costs) or not between:
        return ""
    return (
        f"; then the reference num_workers={last.num_workers} was faster, and {len(between)} other candidates were not "
        "tried: more patience may find a better one"
    )


def _observations(result: SearchResult) -> list[Observation]:
    return [Observation(trial.num_workers, trial.objective_s) for trial in result.trials]


def _with_trial(
    result: SearchResult, num_workers: int, open_arm: ArmFactory, observer: Observer, clock: Clock
) -> SearchResult:
    observer.trial_started(num_workers)
    trial, facts = run_trial(result.configuration, num_workers, open_arm, clock)
    result = replace(result, trials=(*result.trials, trial), facts=facts or result.facts)
    observer.trial_finished(result)
    return result


def run_trial(
    configuration: Configuration, num_workers: int, open_arm: ArmFactory, clock: Clock = time.perf_counter
) -> tuple[Trial, DatasetFacts | None]:
    """Measures one candidate. Whatever goes wrong in its process becomes the trial's state and reason."""
    began = clock()
    asked = replace(configuration.loader, num_workers=num_workers)
    trial = Trial(settings=asked.canonical(), state=TrialState.OK, notes=_canonical_notes(asked))
    bursts: list[Burst] = []
    facts = None
    try:
        with open_arm(configuration) as arm:
            facts = arm.facts
            _take_bursts(arm, trial.settings, configuration, bursts)
            measurement = summarise(bursts, trial.settings, configuration.measure, arm.batches_per_epoch)
            trial = replace(trial, measurement=measurement, warnings=arm.warned())
    except TrialError as error:
        trial = replace(trial, state=_state(error), reason=str(error))
    return replace(trial, bursts=tuple(bursts), cost_s=clock() - began), facts


def _take_bursts(arm: TrialArm, settings: LoaderSettings, configuration: Configuration, bursts: list[Burst]) -> None:
    arm.open(settings)
    while request := next_request(bursts, settings, configuration.measure, arm.batches_per_epoch):
        burst = arm.burst(request)
        bursts.append(burst)
        if burst.ended_epoch and not burst.batches and (len(bursts) == 1 or burst.kind is BurstKind.EPOCH):
            raise TrialError(f"the loader gave no batch of {settings.batch_size} (drop_last={settings.drop_last})")


def _canonical_notes(asked: LoaderSettings) -> tuple[str, ...]:
    """What was asked for but has no meaning without workers."""
    used = asked.canonical()
    names = [
        name
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
        if getattr(asked, name) != getattr(used, name)
    ]
    return (f"num_workers=0 has no {', '.join(names)}",) if names else ()


def _state(error: TrialError) -> TrialState:
    if isinstance(error, TrialTimeout):
        return TrialState.TIMEOUT
    if isinstance(error, TrialOutOfMemory):
        return TrialState.OUT_OF_MEMORY
    return TrialState.FAILED
