"""How well and at what cost each method did on each workload. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.catalogue import Workload
from benchmarks.journal import Outcome
from benchmarks.methods import METHODS, is_projected, task_of
from benchmarks.oracle import Projection, Truth
from benchmarks.peers import PEERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One method on one workload, over all repeats.

    Attributes:
        workload: Its name.
        method: Its name.
        picks: What it recommended in each repeat; None where it came to nothing.
        regrets: How much slower than the best that is, as a share; None where that is not known.
        fastest_regrets: The same of what it found to be the fastest; empty where it recommends nothing else.
        costs_s: Wall time of the method in each repeat, s.
        best_s: One epoch at the best setting, s; None without an oracle.
        costs_epochs: The costs in epochs at the best setting, as long as these were in the same repeat.
        trials: Trials in each repeat.
        ambiguous: Repeats that ended with several candidates that may be as good.
        crashes: Trials and methods that broke, a line each.
        left_behind: Processes that it left behind, a line each.
        projected: Whether it was not played, but computed from the oracle's figures.
    """

    workload: str
    method: str
    picks: tuple[int | None, ...]
    regrets: tuple[float | None, ...]
    costs_s: tuple[float, ...]
    best_s: float | None
    costs_epochs: tuple[float, ...] = ()
    fastest_regrets: tuple[float | None, ...] = ()
    trials: tuple[int, ...] = ()
    ambiguous: int = 0
    crashes: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()
    projected: bool = False

    @property
    def regret(self) -> float | None:
        """Median; None if one is not known: to come to nothing is no better than a bad pick."""
        return _share_of(self.regrets, 0.5)

    @property
    def fastest_regret(self) -> float | None:
        """The median of those of the fastest, likewise."""
        return _share_of(self.fastest_regrets, 0.5)

    @property
    def high_regret(self) -> float | None:
        """The 95th percentile, likewise: the largest of fewer than twenty."""
        return _share_of(self.regrets, 0.95)

    @property
    def cost_s(self) -> float:
        """Median, s."""
        return statistics.median(self.costs_s)

    @property
    def cost_epochs(self) -> float | None:
        """Median, in epochs at the best setting."""
        if self.costs_epochs:
            return statistics.median(self.costs_epochs)
        return None if self.best_s is None else self.cost_s / self.best_s


def _share_of(regrets: Sequence[float | None], share: float) -> float | None:
    known = [regret for regret in regrets if regret is not None]
    if not known or len(known) < len(regrets):
        return None
    return statistics.median(known) if share == 0.5 else sorted(known)[math.ceil(share * len(known)) - 1]


def scores_of(
    outcomes: Sequence[Outcome],
    truths: Mapping[str, Truth],
    workloads: Sequence[Workload],
    methods: Sequence[str],
    cpus: int,
) -> list[Score]:
    """A score per workload and method that has one, in their orders.

    Args:
        outcomes: What was played.
        truths: The oracle's, by workload.
        workloads: Those to show.
        methods: Those to show.
        cpus: CPUs that a method that is projected believes in.
    """
    scores = []
    for workload in workloads:
        truth = truths.get(workload.name)
        for method in sorted(methods, key=METHODS.index):
            group = [o for o in outcomes if (o.workload, o.method) == (workload.name, method)]
            if group:
                scores.append(_played(group, truth))
            elif truth and is_projected(method, workload):
                scores.append(_projected(method, workload, truth, cpus))
    return scores


def _played(group: Sequence[Outcome], truth: Truth | None) -> Score:
    return Score(
        workload=group[0].workload,
        method=group[0].method,
        picks=tuple(outcome.pick for outcome in group),
        regrets=tuple(truth.regret(outcome.pick) if truth else None for outcome in group),
        costs_s=tuple(outcome.cost_s for outcome in group),
        best_s=truth.best_s if truth else None,
        costs_epochs=tuple(o.cost_s / (truth.best_s * truth.slowness.get(o.repeat, 1.0)) for o in group)
        if truth
        else (),
        fastest_regrets=tuple(truth.regret(o.fastest) if truth else None for o in group if o.fastest is not None),
        trials=tuple(len(outcome.tried) for outcome in group),
        ambiguous=sum(bool(outcome.tied) for outcome in group),
        crashes=tuple(f"repeat {outcome.repeat}: {line}" for outcome in group for line in outcome.crashes),
        left_behind=tuple(f"repeat {outcome.repeat}: {line}" for outcome in group for line in outcome.left_behind),
    )


def _projected(method: str, workload: Workload, truth: Truth, cpus: int) -> Score:
    timer = Projection(truth.epoch_s, workload.batches)
    pick = PEERS[method](timer, task_of(workload, cpus))
    return Score(
        workload=workload.name,
        method=method,
        picks=(pick,),
        regrets=(truth.epoch_s(pick) / truth.best_s - 1,),
        costs_s=(timer.spent_s,),
        best_s=truth.best_s,
        trials=(len(timer.tried),),
        projected=True,
    )
