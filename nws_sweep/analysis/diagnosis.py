"""Bottlenecks of a configuration at its best setting: causes of the parts of its account. Pure.

A bottleneck is what saves at least a tenth of the epoch when it is taken away. If nothing does, two things may limit
together, such as the CPUs and the training step: then both are bottlenecks. See ``model.counterfactual`` and
``advice``.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from nws_sweep.model import choice
from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.counterfactual import Counterfactual
from nws_sweep.model.known import queue_settings
from nws_sweep.model.model import Model, is_step, model_of
from nws_sweep.model.queue import QueueSettings
from nws_sweep.records import Account, LoaderSettings, Measurement, SearchRecord, Trial, TrialState
from nws_sweep.system import processes

_LEAST_SAVED = 0.1  # share of the epoch
_NOISY_STEAL = 0.25  # share of the CPU time that the hypervisor takes, above which the bottleneck is hidden
_DID_NOT_FIT = (TrialState.SKIPPED, TrialState.OUT_OF_MEMORY)
_MOST_WORKERS = 64  # at which something is taken away


@dataclass(frozen=True, kw_only=True)  # without slots, for cached properties
class Diagnosis:
    """The bottlenecks of one configuration at its best setting.

    Attributes:
        result: The search.
        best: The recommended trial.
        saved: The share of the epoch that is saved without each bottleneck, 0 to 1; empty if nothing saves a tenth. The
            bottlenecks of the largest part of the account are the first, of one part those that save most. Noise saves
            0.
        together: Whether only two bottlenecks together save that much.
        measured: Its times.
        replayed: The epoch at the best setting.
    """

    result: SearchRecord = field(repr=False)
    best: Trial = field(repr=False)
    saved: dict[Bottleneck, float]
    together: bool = False
    measured: Measurement = field(repr=False)
    replayed: Counterfactual = field(repr=False)

    @property
    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        """The bottlenecks, the most important first."""
        return tuple(self.saved)

    @property
    def account(self) -> Account:
        """Where an epoch goes at the best setting; nowhere if it is unknown, as in old files."""
        return self.measured.account or Account(step_s=0.0, making_s=0.0)

    @property
    def is_noisy(self) -> bool:
        """Whether noise hides the bottlenecks."""
        return Bottleneck.NOISE in self.saved

    @property
    def has_step(self) -> bool:
        """Whether a training step was given that takes time."""
        step_s = self.replayed.model.loop.step_s
        return self.result.configuration.has_step and is_step(step_s, self.replayed.now_s)

    @property
    def unordered(self) -> QueueSettings | None:
        """The best settings with in_order=False; None if they were measured."""
        settings = replace(self.replayed.best, in_order=False)
        return None if settings in self._tried else settings

    @cached_property
    def _tried(self) -> set[QueueSettings]:
        """Settings of queues that were measured, the best's included: what others save is known."""
        measured = (trial for trial in self.result.trials if trial.objective_s is not None)
        return {self.replayed.best, *(queue_settings(trial.settings, self.result.cpus) for trial in measured)}

    @cached_property
    def suggestions(self) -> dict[str, float]:
        """Other settings and the share of the epoch that they save, if it is worth measuring."""
        best = self.replayed.best
        if not best.num_workers or self.is_noisy:
            return {}
        orders = [False] if self.unordered and _has_in_order(self.result.host.torch) else []
        alike = (queue for queue in self._tried if replace(queue, prefetch_factor=best.prefetch_factor) == best)
        longest = max(queue.prefetch_factor for queue in alike)
        longer = [length for length in choice.PREFETCH_FACTORS if length > longest]
        return self._promising("in_order", orders) | self._promising("prefetch_factor", longer)

    @cached_property
    def more_workers(self) -> dict[str, float]:
        """More workers than the largest candidate, if that is the best, and the share of the epoch that they save.

        Empty if they do not promise enough for their price.
        """
        candidates, best = self.result.configuration.search.candidates, self.best.num_workers
        if self.is_noisy or len(candidates) == 1 or best != max(candidates):
            return {}
        return self._promising("num_workers", [factor * max(1, best) for factor in (2, 4)])

    def _promising(self, name: str, values: Iterable[Any]) -> dict[str, float]:
        """The value of a setting that ``model.choice`` would measure, and what it saves; empty if there is none."""
        variants = {replace(self.replayed.best, **{name: value}): f"{name}={value}" for value in values}
        costs_s = {settings: self.replayed.cost_s(settings) for settings in variants}
        best_s = {self.replayed.best: self.replayed.now_s}
        chosen = choice.promising(best_s, costs_s, self.result.configuration.search.tolerance)
        return {variants[chosen]: self.replayed.saved_with(chosen)} if chosen else {}


def diagnose(result: SearchRecord, best: Trial | None) -> Diagnosis | None:
    """Identifies the bottlenecks at this best trial; None without its measurement or records of batches."""
    measured = best.measurement if best else None
    if best is None or measured is None:
        return None
    best = next((trial for trial in result.trials if trial.settings == best.settings), best)  # with its records
    model = model_of_search(result, best)
    if model is None:
        return None
    queue = queue_settings(loader_of(result, best), result.cpus)
    replayed = Counterfactual(model, queue, _allowed(result, best))
    diagnosis = Diagnosis(result=result, best=best, measured=measured, saved={}, replayed=replayed)
    if best.noise and best.noise.steal > _NOISY_STEAL:
        return replace(diagnosis, saved={Bottleneck.NOISE: 0.0})
    return _with_savings(diagnosis)


def loader_of(result: SearchRecord, best: Trial) -> LoaderSettings:
    """The settings of the best; without workers, with those that workers would have."""
    return best.settings if best.num_workers else replace(result.configuration.loader, num_workers=0)


def worker_trials(result: SearchRecord) -> tuple[Trial, ...]:
    """The trials of the search of num_workers, ascending, without those of settings searched after it."""
    trials = (trial for trial in result.trials if not result.configuration.differing(trial.settings))
    return tuple(sorted(trials, key=lambda trial: trial.num_workers))


def model_of_search(result: SearchRecord, best: Trial) -> Model | None:
    """The model of the search of num_workers; None without records."""
    succeeded = [trial for trial in worker_trials(result) if trial.objective_s is not None]
    method = loader_of(result, best).multiprocessing_context or processes.start_method()
    epochs = result.configuration.measure.shared_epochs
    shuffled = result.facts is None or result.facts.is_shuffled
    return model_of(succeeded, best.batches, result.cpus, method, epochs, shuffled)


def _has_in_order(torch: str) -> bool:
    """Whether DataLoader has in_order in this version of torch."""
    return tuple(map(int, re.findall(r"\d+", torch)[:2])) >= (2, 6)


def refused_by(result: SearchRecord, best: Trial) -> tuple[Trial, ...]:
    """Trials with more workers than the best that did not fit, ascending by workers."""
    larger = (trial for trial in worker_trials(result) if trial.num_workers > best.num_workers)
    return tuple(trial for trial in larger if trial.state in _DID_NOT_FIT)


def _allowed(result: SearchRecord, best: Trial) -> Sequence[int]:
    """The best, and candidates that fit: none, powers of four, the largest."""
    largest, refused = max(result.configuration.search.candidates), refused_by(result, best)
    most = min([largest, _MOST_WORKERS, *(trial.num_workers - 1 for trial in refused)])
    return sorted({best.num_workers, *(n for n in (0, 1, 4, 16, most) if n <= most)})


def _with_savings(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with its bottlenecks."""
    replayed, costs = diagnosis.replayed, _costs(diagnosis)
    saved = {bottleneck: replayed.saved(bottleneck) for bottleneck in costs}
    if diagnosis.unordered:
        saved[Bottleneck.ORDER] = replayed.saved_with(diagnosis.unordered)  # as ``suggestions`` says
    refused = refused_by(diagnosis.result, diagnosis.best)
    more = (replace(replayed.best, num_workers=trial.num_workers) for trial in refused)
    saved[Bottleneck.MEMORY] = max(map(replayed.saved_with, more), default=0.0)

    def rank(bottleneck: Bottleneck) -> tuple[float, float]:
        return -diagnosis.account.share(bottleneck.part), -saved[bottleneck]

    limiting = [bottleneck for bottleneck in sorted(saved, key=rank) if saved[bottleneck] >= _LEAST_SAVED]
    if limiting:
        return replace(diagnosis, saved={bottleneck: saved[bottleneck] for bottleneck in limiting})
    pairs = {pair: replayed.saved(*pair) for pair in itertools.combinations(sorted(costs, key=rank), 2)}
    pair = max(pairs, key=lambda pair: pairs[pair])
    if pairs[pair] < _LEAST_SAVED:
        return diagnosis
    return replace(diagnosis, saved=dict.fromkeys(pair, pairs[pair]), together=True)


def _costs(diagnosis: Diagnosis) -> list[Bottleneck]:
    """The bottlenecks that are costs which the answer still has."""
    costs = [Bottleneck.SAMPLER, Bottleneck.CPU, Bottleneck.LATENCY]
    if diagnosis.has_step:
        costs.append(Bottleneck.STEP)
    if not diagnosis.replayed.best.persistent_workers:
        costs.append(Bottleneck.STARTUP)
    costs.append(Bottleneck.TRANSFER if diagnosis.best.num_workers else Bottleneck.COMPETITION)
    return costs
