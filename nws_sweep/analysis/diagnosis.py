"""Bottlenecks of a configuration at its best setting: its epoch is replayed with one thing taken away. Pure.

A bottleneck is what saves at least a tenth of the epoch when it is taken away. If nothing does, two things may limit
together, such as the CPUs and the training step: then both are bottlenecks. See ``replay.counterfactual`` and
``advice``.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from nws_sweep.replay import choice
from nws_sweep.replay.bottlenecks import REMOVABLE, Bottleneck
from nws_sweep.replay.counterfactual import Counterfactual
from nws_sweep.replay.known import queue_settings
from nws_sweep.replay.model import Model, is_step, model_of
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.results import LoaderSettings, SearchRecord, Trial, TrialState
from nws_sweep.system import processes

_LEAST_SAVED = 0.1  # share of the epoch
_NOISY_STEAL = 0.25  # share of the CPU time that the hypervisor takes, above which the bottleneck is hidden
_DID_NOT_FIT = (TrialState.SKIPPED, TrialState.OUT_OF_MEMORY)
# Parts of the others, with separate remedies: reported first. Start-up if it saves this share of the largest saving.
_SPECIFIC = (Bottleneck.ORDER, Bottleneck.MEMORY, Bottleneck.COMPETITION)
_OF_START = 0.25
_MOST_WORKERS = 64  # at which something is taken away


@dataclass(frozen=True, kw_only=True)  # without slots, for cached properties
class Diagnosis:
    """The bottlenecks of one configuration at its best setting.

    Attributes:
        result: The search.
        best: The recommended trial.
        saved: The share of the epoch that is saved without each bottleneck, 0 to 1, the most important first; empty if
            nothing saves a tenth. Noise saves 0.
        together: Whether only two bottlenecks together save that much.
        replayed: The epoch at the best setting; None if noise is the bottleneck.
    """

    result: SearchRecord = field(repr=False)
    best: Trial = field(repr=False)
    saved: dict[Bottleneck, float]
    together: bool = False
    replayed: Counterfactual | None = field(default=None, repr=False)

    @property
    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        """The bottlenecks, the most important first."""
        return tuple(self.saved)

    @property
    def refused(self) -> tuple[Trial, ...]:
        """Trials with more workers than the best that did not fit, ascending by workers."""
        larger = (trial for trial in worker_trials(self.result) if trial.num_workers > self.best.num_workers)
        return tuple(trial for trial in larger if trial.state in _DID_NOT_FIT)

    @property
    def tried(self) -> set[QueueSettings]:
        """Settings of queues that were measured, the best's included: what others save is known."""
        measured = (trial for trial in self.result.trials if trial.objective_s is not None)
        return {queue_settings(trial.settings, self.result.cpus) for trial in (self.best, *measured)}

    @property
    def has_step(self) -> bool:
        """Whether a training step was given that takes time."""
        replayed = self.replayed
        return (
            replayed is not None
            and self.result.configuration.has_step
            and is_step(replayed.model.loop.step_s, replayed.now_s)
        )

    @property
    def unordered(self) -> QueueSettings | None:
        """The best settings with in_order=False; None if they were measured."""
        found = replace(queue_settings(loader_of(self.result, self.best), self.result.cpus), in_order=False)
        return None if found in self.tried else found

    @cached_property
    def suggestions(self) -> dict[str, float]:
        """Other settings and the share of the epoch that they save, if it is worth measuring."""
        if self.replayed is None or not self.best.num_workers:
            return {}
        own = self.replayed.best
        unordered = [self.unordered] if self.unordered and _is_known_in_order(self.result.host.torch) else []
        like_own = (one for one in self.tried if replace(one, prefetch_factor=own.prefetch_factor) == own)
        longest = max(one.prefetch_factor for one in like_own)
        longer = [replace(own, prefetch_factor=n) for n in choice.PREFETCH_FACTORS if n > longest]
        saved = {f"in_order={found.in_order}": share for found, share in self._promising(unordered)}
        return saved | {f"prefetch_factor={found.prefetch_factor}": share for found, share in self._promising(longer)}

    @cached_property
    def more_workers(self) -> tuple[int, float] | None:
        """More workers than the largest candidate, if that is the best, and the share of the epoch that they save.

        None if they do not promise enough for their price.
        """
        candidates = self.result.configuration.search.candidates
        if self.replayed is None or len(candidates) == 1 or self.best.num_workers != max(candidates):
            return None
        own = self.replayed.best
        more = (replace(own, num_workers=factor * max(1, own.num_workers)) for factor in (2, 4))
        return next(((found.num_workers, share) for found, share in self._promising(more)), None)

    def _promising(self, others: Iterable[QueueSettings]) -> Iterator[tuple[QueueSettings, float]]:
        """Of other settings those that ``replay.choice`` would measure, if any, and the share that they save."""
        if self.replayed is not None:
            hopeful = (other for other in others if self.replayed.most_saved_with(other) >= choice.PROMISING)
            left = {other: 1.0 - self.replayed.with_settings(other) for other in hopeful}
            tolerance = self.result.configuration.search.tolerance
            if found := choice.promising({self.replayed.best: 1.0}, left, tolerance):
                yield found, 1.0 - left[found]


def diagnose(result: SearchRecord, best: Trial | None) -> Diagnosis | None:
    """Identifies the bottlenecks at this best trial; None without its measurement or records of batches."""
    if best is None or best.measurement is None:
        return None
    best = next((trial for trial in result.trials if trial.settings == best.settings), best)  # with its records
    found = Diagnosis(result=result, best=best, saved={Bottleneck.NOISE: 0.0})
    if best.noise and best.noise.steal > _NOISY_STEAL:
        return found
    model = model_of_search(result, best)
    if model is None:
        return None
    replayed = Counterfactual(model, queue_settings(loader_of(result, best), result.cpus), _allowed(found))
    return _with_savings(replace(found, replayed=replayed), replayed)


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


def _is_known_in_order(torch: str) -> bool:
    """Whether DataLoader has in_order in this version of torch."""
    return tuple(map(int, re.findall(r"\d+", torch)[:2])) >= (2, 6)


def _allowed(diagnosis: Diagnosis) -> Sequence[int]:
    """The best, and candidates that fit: none, powers of four, the largest."""
    refused, largest = diagnosis.refused, max(diagnosis.result.configuration.search.candidates)
    most = min([largest, _MOST_WORKERS, *(trial.num_workers - 1 for trial in refused)])
    return sorted({diagnosis.best.num_workers, *(n for n in (0, 1, 4, 16, most) if n <= most)})


def _with_savings(diagnosis: Diagnosis, replayed: Counterfactual) -> Diagnosis:
    own = replayed.best
    unordered = diagnosis.unordered
    applies = {
        Bottleneck.STARTUP: not own.persistent_workers, Bottleneck.COMPETITION: own.num_workers == 0,
        Bottleneck.ORDER: unordered is not None, Bottleneck.STEP: diagnosis.has_step,
        Bottleneck.TRANSFER: own.num_workers > 0,  # without workers there are none to save
    }  # fmt: skip
    removable = [bottleneck for bottleneck in REMOVABLE if applies.get(bottleneck, True)]
    saved = {taken[0]: share for taken, share in _worth_a_replay([(bottleneck,) for bottleneck in removable], replayed)}
    if unordered:
        saved[Bottleneck.ORDER] = replayed.with_settings(unordered)  # as ``suggestions`` says
    refused = (replace(own, num_workers=trial.num_workers) for trial in diagnosis.refused)
    saved[Bottleneck.MEMORY] = max(map(replayed.with_settings, refused), default=0.0)
    is_start_up = saved.get(Bottleneck.STARTUP, 0.0) >= _OF_START * max(saved.values())
    named_first = (*_SPECIFIC, Bottleneck.STARTUP) if is_start_up else _SPECIFIC
    order = sorted(saved, key=lambda each: (each not in named_first, -saved[each]))
    if limiting := {each: saved[each] for each in order if saved[each] >= _LEAST_SAVED}:
        return replace(diagnosis, saved=limiting)
    removable.sort(key=lambda each: each is Bottleneck.STARTUP)  # seldom what to change
    both = dict(_worth_a_replay([*itertools.combinations(removable, 2)], replayed))
    pair = max(both, key=lambda taken: both[taken], default=())
    limiting = dict.fromkeys(pair, both[pair]) if pair and both[pair] >= _LEAST_SAVED else {}
    return replace(diagnosis, saved=limiting, together=bool(limiting))


def _worth_a_replay(
    taken: Iterable[tuple[Bottleneck, ...]], replayed: Counterfactual
) -> Iterator[tuple[tuple[Bottleneck, ...], float]]:
    """What is saved without these bottlenecks, except without any that cannot save ``_LEAST_SAVED``."""
    for bottlenecks in taken:
        if replayed.most_saved(*bottlenecks) >= _LEAST_SAVED:
            yield bottlenecks, replayed.without(*bottlenecks)
