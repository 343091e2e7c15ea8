"""Bottlenecks of a configuration at its best setting: causes of the parts of its
account. Pure.

A bottleneck is what saves at least a tenth of the epoch when it is taken away. If
nothing does, two things may limit together, such as the CPUs and the training step:
then both are bottlenecks. See ``model.counterfactual`` and ``advice``.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from nws_sweep.analysis import what_if
from nws_sweep.analysis.what_if import WhatIf
from nws_sweep.model import choice
from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.counterfactual import Counterfactual
from nws_sweep.model.known import queue_settings
from nws_sweep.model.queue import QueueSettings
from nws_sweep.records import Account, Measurement, SearchRecord, Trial, TrialState

_LEAST_SAVED = 0.1  # share of the epoch
# share of the CPU time that the hypervisor takes, above which the bottleneck is hidden
_NOISY_STEAL = 0.25
_DID_NOT_FIT = (TrialState.SKIPPED, TrialState.OUT_OF_MEMORY)
_MOST_WORKERS = 64  # at which something is taken away


@dataclass(frozen=True, kw_only=True)  # without slots, for cached properties
class Diagnosis:
    """The bottlenecks of one configuration at its best setting.

    Attributes:
        result: The search.
        best: The recommended trial.
        saved: The share of the epoch that is saved without each bottleneck, 0 to 1;
            empty if nothing saves a tenth. The bottlenecks of the largest part of the
            account are the first, of one part those that save most. Noise saves 0.
        together: Whether only two bottlenecks together save that much.
        measured: Its times.
        replayed: The epoch at the best setting.
        predictions: Of the search.
    """

    result: SearchRecord = field(repr=False)
    best: Trial = field(repr=False)
    saved: dict[Bottleneck, float]
    together: bool = False
    measured: Measurement = field(repr=False)
    replayed: Counterfactual = field(repr=False)
    predictions: WhatIf = field(repr=False)

    @property
    def has_step(self) -> bool:
        """Whether a training step was given that takes time."""
        return self.predictions.step_s > 0

    @property
    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        """The bottlenecks, the most important first."""
        return tuple(self.saved)

    @property
    def account(self) -> Account:
        """Where an epoch goes at the best setting; nowhere if it is unknown, as in old
        files."""
        return self.measured.account or Account(step_s=0.0, making_s=0.0)

    @property
    def batch_s(self) -> float:
        """Seconds of a batch; 0 if unknown."""
        if self.measured.batch_s:
            return self.measured.batch_s.value
        return (self.measured.step_s or 0.0) + (self.measured.wait_s or 0.0)

    @property
    def is_noisy(self) -> bool:
        """Whether noise hides the bottlenecks."""
        return Bottleneck.NOISE in self.saved

    @property
    def unordered(self) -> QueueSettings | None:
        """The best settings with in_order=False; None if they were measured."""
        settings = replace(self.replayed.best, in_order=False)
        return None if settings in self._tried else settings

    @cached_property
    def _tried(self) -> set[QueueSettings]:
        """Settings of queues that were measured, the best's included: what others save
        is known."""
        tried = {self.replayed.best}
        for trial in self.result.trials:
            if trial.objective_s is not None:
                tried.add(queue_settings(trial.settings, self.result.cpus))
        return tried

    @cached_property
    def suggestions(self) -> dict[str, float]:
        """Other settings and the share of the epoch that they save, if it is worth
        measuring."""
        best = self.replayed.best
        if not best.num_workers or self.is_noisy:
            return {}
        orders = (
            [False] if self.unordered and _has_in_order(self.result.host.torch) else []
        )
        longest = best.prefetch_factor
        for queue in self._tried:
            if replace(queue, prefetch_factor=best.prefetch_factor) == best:
                longest = max(longest, queue.prefetch_factor)
        longer = [length for length in choice.PREFETCH_FACTORS if length > longest]
        return self._promising("in_order", orders) | self._promising(
            "prefetch_factor", longer
        )

    @cached_property
    def more_workers(self) -> dict[str, float]:
        """More workers than the largest candidate, if that is the best, and the share
        of the epoch that they save; more than the only one, too.

        Empty if they do not promise enough for their price.
        """
        candidates = self.result.configuration.search.candidates
        best = self.best.num_workers
        if self.is_noisy or best != max(candidates):
            return {}
        base = max(1, best)
        return self._promising("num_workers", [2 * base, 4 * base])

    def _promising(self, name: str, values: Iterable[Any]) -> dict[str, float]:
        """Predicts which value of a setting ``model.choice`` would measure, and what it
        saves; empty without any."""
        variants = {
            replace(self.replayed.best, **{name: value}): f"{name}={value}"
            for value in values
        }
        costs_s = {settings: self.replayed.cost_s(settings) for settings in variants}
        best_s = {self.replayed.best: self.replayed.now_s}
        chosen = choice.promising(
            best_s, costs_s, self.result.configuration.search.tolerance
        )
        if chosen:
            return {variants[chosen]: self.replayed.saved_with(chosen)}
        return {}


def diagnose(result: SearchRecord, best: Trial | None) -> Diagnosis | None:
    """Identifies the bottlenecks at this best trial; None without its measurement or
    records of batches."""
    measured = best.measurement if best else None
    if best is None or measured is None:
        return None
    # with its records
    best = next(
        (trial for trial in result.trials if trial.settings == best.settings), best
    )
    predictions = what_if.of(result, best)
    if predictions is None:
        return None
    diagnosis = Diagnosis(
        result=result,
        best=best,
        saved={},
        measured=measured,
        replayed=Counterfactual(
            predictions.model, predictions.best, _allowed(result, best)
        ),
        predictions=predictions,
    )
    if best.noise and best.noise.steal > _NOISY_STEAL:
        return replace(diagnosis, saved={Bottleneck.NOISE: 0.0})
    return _with_savings(diagnosis)


def _has_in_order(torch: str) -> bool:
    """Whether DataLoader has in_order in this version of torch."""
    return tuple(map(int, re.findall(r"\d+", torch)[:2])) >= (2, 6)


def refused_by(result: SearchRecord, best: Trial) -> tuple[Trial, ...]:
    """Selects the trials with more workers than the best that did not fit, ascending by
    workers; also with the other settings of the best, such as persistent_workers."""
    of_workers = what_if.worker_trials(result)
    refused = {}
    for trial in result.trials:
        like_best = trial.settings == best.settings.with_workers(trial.num_workers)
        has_more = trial.num_workers > best.num_workers
        if (
            trial.state in _DID_NOT_FIT
            and has_more
            and (like_best or trial in of_workers)
        ):
            refused[trial.num_workers] = trial
    return tuple(refused[number] for number in sorted(refused))


def _allowed(result: SearchRecord, best: Trial) -> Sequence[int]:
    """Lists the best, and candidates that fit: none, powers of four, the largest."""
    most = min(_MOST_WORKERS, max(result.configuration.search.candidates))
    for trial in refused_by(result, best):
        most = min(most, trial.num_workers - 1)
    allowed = {best.num_workers, most}
    for number in (0, 1, 4, 16):
        if number <= most:
            allowed.add(number)
    return sorted(allowed)


def _with_savings(diagnosis: Diagnosis) -> Diagnosis:
    """Adds the bottlenecks to a diagnosis."""
    replayed = diagnosis.replayed
    costs = _costs(diagnosis)
    saved = {bottleneck: replayed.saved(bottleneck) for bottleneck in costs}
    if diagnosis.unordered:
        # as ``suggestions`` says
        saved[Bottleneck.ORDER] = replayed.saved_with(diagnosis.unordered)
    refused = refused_by(diagnosis.result, diagnosis.best)
    larger = [
        replace(replayed.best, num_workers=trial.num_workers) for trial in refused
    ]
    saved[Bottleneck.MEMORY] = max(map(replayed.saved_with, larger), default=0.0)

    def rank(bottleneck: Bottleneck) -> tuple[float, float]:
        return -diagnosis.account.share(bottleneck.part), -saved[bottleneck]

    limiting = {
        bottleneck: saved[bottleneck]
        for bottleneck in sorted(saved, key=rank)
        if saved[bottleneck] >= _LEAST_SAVED
    }
    if limiting:
        return replace(diagnosis, saved=limiting)
    pairs = {
        pair: replayed.saved(*pair)
        for pair in itertools.combinations(sorted(costs, key=rank), 2)
    }
    pair = max(pairs, key=lambda pair: pairs[pair])
    if pairs[pair] < _LEAST_SAVED:
        return diagnosis
    return replace(diagnosis, saved=dict.fromkeys(pair, pairs[pair]), together=True)


def _costs(diagnosis: Diagnosis) -> list[Bottleneck]:
    """The bottlenecks that are costs which the answer still has."""
    costs = [Bottleneck.SAMPLER, Bottleneck.CPU, Bottleneck.LATENCY]
    if diagnosis.has_step:
        costs.append(Bottleneck.STEP)
    # what workers cost is known if some were measured
    has_started = any(diagnosis.result.measured_numbers)
    if has_started and not diagnosis.replayed.best.persistent_workers:
        costs.append(Bottleneck.STARTUP)
    if diagnosis.best.num_workers:
        return [*costs, Bottleneck.TRANSFER]
    return [*costs, Bottleneck.COMPETITION]
