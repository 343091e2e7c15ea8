"""Bottlenecks of a configuration at its best setting: its epoch is replayed with one thing taken away. Pure.

A bottleneck is what saves at least a tenth of the epoch when it is taken away. If nothing does, two things may limit
together, such as the CPUs and the consumer: then both are bottlenecks. See ``replay.counterfactual`` and ``advice``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from nws_sweep.measurement.stats import half_width
from nws_sweep.replay.counterfactual import Bottleneck, Counterfactual, Saving
from nws_sweep.replay.model import model_of, queue_settings
from nws_sweep.results import Configuration, Noise, SearchRecord, Trial, TrialState

_LEAST_SAVED = 0.1  # share of the epoch
# Noise above these limits hides the bottleneck: relative half-width, steal, and CPUs as a share of the usable ones.
_NOISY_INTERVAL, _NOISY_STEAL, _NOISY_CPUS = 0.5, 0.25, 0.5
_DID_NOT_FIT = (TrialState.SKIPPED, TrialState.OUT_OF_MEMORY)
# Parts of the others, which have remedies of their own: they are reported first.
_SPECIFIC = (Bottleneck.STARTUP, Bottleneck.ORDER, Bottleneck.MEMORY, Bottleneck.COMPETITION)
_MOST_WORKERS = 64  # at which something is taken away
_LARGER_PREFETCH = (4, 8)


@dataclass(frozen=True, slots=True)
class Cause:
    """A bottleneck, and the share of the epoch that is saved without it: 0 to 1, 0 for noise."""

    bottleneck: Bottleneck
    saved: float = 0.0


@dataclass(frozen=True, kw_only=True)  # without slots, for cached properties
class Diagnosis:
    """The bottlenecks of one configuration at its best setting.

    Attributes:
        causes: The bottlenecks, the most important first; empty if nothing saves a tenth of the epoch.
        together: Whether only the two causes together save something, as much as is said of each.
        best: The recommended trial.
        configuration: The settings that were held fixed.
        cores: Usable CPUs.
        other_cpus: The most CPUs that other programs used while any candidate was measured.
        refused: Trials with more workers than the best that did not fit, ascending by workers.
        replayed: The epoch at the best setting; None if noise is the bottleneck.
    """

    causes: tuple[Cause, ...]
    together: bool = False
    best: Trial
    configuration: Configuration
    cores: float
    other_cpus: float = 0.0
    refused: tuple[Trial, ...] = ()
    replayed: Counterfactual | None = field(default=None, repr=False)

    @property
    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        """The bottlenecks, the most important first."""
        return tuple(cause.bottleneck for cause in self.causes)

    @cached_property
    def suggestions(self) -> tuple[tuple[str, float], ...]:
        """Other settings and the share of the epoch that they save, if it exceeds the tolerance."""
        if self.replayed is None or not self.best.num_workers:
            return ()
        tolerance, found = self.configuration.search.tolerance, []
        if self.replayed.best.in_order:
            saved = self.replayed.with_settings(replace(self.replayed.best, in_order=False)).share
            found += [("in_order=False", saved)] if saved > tolerance else []
        larger = [factor for factor in _LARGER_PREFETCH if factor > self.replayed.best.prefetch_factor]
        savings = [self.replayed.with_settings(replace(self.replayed.best, prefetch_factor=n)).share for n in larger]
        for factor, saved in zip(larger, savings, strict=True):
            if saved > tolerance and saved > max(savings) - tolerance:  # the smallest of those that save as much
                return (*found, (f"prefetch_factor={factor}", saved))
        return tuple(found)

    @cached_property
    def more_workers(self) -> Saving | None:
        """What more workers than the largest candidate save; None if the best is not the largest candidate."""
        largest = max(self.configuration.search.candidates)
        if self.replayed is None or self.best.num_workers != largest:
            return None
        more = (replace(self.replayed.best, num_workers=factor * max(1, largest)) for factor in (2, 4))
        return max(map(self.replayed.with_settings, more), key=lambda saving: saving.share)


def diagnose(result: SearchRecord, best: Trial | None) -> Diagnosis | None:
    """Identifies the bottlenecks at this best trial; None without its measurement or records of batches."""
    if best is None or best.measurement is None:
        return None
    trials = worker_trials(result)
    others = [trial.noise.other_cpus for trial in trials if trial.noise and trial.objective_s is not None]
    start = Diagnosis(
        causes=(Cause(Bottleneck.NOISE),),
        best=best,
        configuration=result.configuration,
        cores=result.host.usable_cpus,
        other_cpus=max(others, default=0.0),
        refused=tuple(t for t in trials if t.num_workers > best.num_workers and t.state in _DID_NOT_FIT),
    )
    if _is_too_noisy(start):
        return start
    recorded = [trial for trial in trials if trial.records and trial.objective_s is not None]
    batches = result.facts.batches_of(best.settings, 1) if result.facts else None
    model = model_of(recorded, batches, start.cores) if recorded and result.configuration.ranks == 1 else None
    if model is None:
        return None
    replayed = Counterfactual(model, queue_settings(best.settings, start.cores), _allowed(start))
    found = replace(start, causes=(), replayed=replayed)
    causes = _causes(found, replayed)
    return replace(found, causes=causes) if causes else _limiting_together(found, replayed)


def worker_trials(result: SearchRecord) -> tuple[Trial, ...]:
    """The trials of the search of num_workers, ascending, without those of settings searched after it."""
    trials = (trial for trial in result.trials if not result.configuration.differing(trial.settings))
    return tuple(sorted(trials, key=lambda trial: trial.num_workers))


def _is_too_noisy(diagnosis: Diagnosis) -> bool:
    """Other programs count if any candidate met them: with many workers of its own the best may seem undisturbed.

    A wide interval is noise if no records show that the batches differ.
    """
    noise, found = diagnosis.best.noise or Noise(), diagnosis.best.measurement
    batch = found.batch_s if found and not diagnosis.best.records else None
    wide = batch is not None and batch.low is not None and half_width(batch) > _NOISY_INTERVAL
    return wide or noise.steal > _NOISY_STEAL or diagnosis.other_cpus > _NOISY_CPUS * diagnosis.cores


def _allowed(diagnosis: Diagnosis) -> Sequence[int]:
    """The best, and candidates that fit: powers of four and no workers."""
    candidates = diagnosis.configuration.search.candidates
    refused = min((trial.num_workers for trial in diagnosis.refused), default=_MOST_WORKERS + 1)
    powers = [0, *itertools.takewhile(lambda n: n <= max(candidates), (1, 4, 16, 64))]
    fitting = {n for n in (*powers, max(candidates)) if n < refused and n <= _MOST_WORKERS}
    return sorted(fitting | {diagnosis.best.num_workers})


def _causes(diagnosis: Diagnosis, replayed: Counterfactual) -> tuple[Cause, ...]:
    found = [Cause(bottleneck, replayed.without(bottleneck).share) for bottleneck in replayed.removable]
    more = [replayed.with_settings(replace(replayed.best, num_workers=t.num_workers)) for t in diagnosis.refused]
    found.append(Cause(Bottleneck.MEMORY, max((saving.share for saving in more), default=0.0)))
    limiting = [cause for cause in found if cause.saved >= _LEAST_SAVED]
    return tuple(sorted(limiting, key=lambda cause: (cause.bottleneck not in _SPECIFIC, -cause.saved)))


def _limiting_together(diagnosis: Diagnosis, replayed: Counterfactual) -> Diagnosis:
    # Start-up comes last: it is seldom what to change.
    names = sorted(replayed.removable, key=lambda bottleneck: bottleneck is Bottleneck.STARTUP)
    saved, pair = max((replayed.without(*pair).share, pair) for pair in itertools.combinations(names, 2))
    if saved < _LEAST_SAVED:
        return diagnosis
    return replace(diagnosis, causes=tuple(Cause(each, saved) for each in pair), together=True)
