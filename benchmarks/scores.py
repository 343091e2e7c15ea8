"""Regret and cost of each method on each workload. Pure."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.catalogue import Workload
from benchmarks.journal import Outcome
from benchmarks.oracle import Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One method on one workload, with a value per repeat."""

    workload: str
    method: str
    picks: tuple[str | None, ...]  # recommended settings; None where the method failed
    # prices of the picks / the least - 1; None if unknown
    regrets: tuple[float | None, ...]
    costs_s: tuple[float, ...]  # wall time of the method
    best_s: float | None  # epoch at the best setting; None without an oracle
    # costs / length of an epoch at the best setting in the same repeat
    costs_epochs: tuple[float, ...] = ()
    slower: tuple[float | None, ...] = ()  # epochs with the picks / the fastest - 1
    most_processes: int = 0  # at a time
    trials: tuple[int, ...] = ()  # number of trials
    ambiguous: int = 0  # repeats that ended with tied candidates
    crashes: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()  # processes

    @property
    def regret(self) -> float | None:
        """Median; None if one is unknown, since a method that fails must not look
        better."""
        return quantile(self.regrets, 0.5)

    @property
    def high_regret(self) -> float | None:
        """The 95th percentile, the largest of fewer than twenty; None if one is
        unknown."""
        return quantile(self.regrets, 0.95)

    @property
    def cost_s(self) -> float:
        """Median cost, s."""
        return statistics.median(self.costs_s)

    @property
    def cost_epochs(self) -> float | None:
        """Median cost in epochs at the best setting."""
        if self.costs_epochs:
            return statistics.median(self.costs_epochs)
        return None if self.best_s is None else self.cost_s / self.best_s


def quantile(regrets: Sequence[float | None], share: float) -> float | None:
    """The smallest regret that at least ``share`` of them do not exceed, for 0.5 the
    median; None if one is unknown."""
    values = [regret for regret in regrets if regret is not None]
    if not values or len(values) < len(regrets):
        return None
    return (
        statistics.median(values)
        if share == 0.5
        else sorted(values)[math.ceil(share * len(values)) - 1]
    )


def pooled(regrets: Iterable[Sequence[float | None]], share: float) -> float | None:
    """A quantile of the regrets of all repeats on all workloads; None if one is
    unknown."""
    return quantile(
        [regret for of_workload in regrets for regret in of_workload], share
    )


def scores_of(
    outcomes: Sequence[Outcome],
    truths: Mapping[str, Truth],
    workloads: Sequence[Workload],
    methods: Sequence[str],
) -> list[Score]:
    """A score per workload and method that has outcomes; ``truths`` has the oracle's
    results."""
    scores = []
    for workload in workloads:
        truth = truths.get(workload.name)
        for method in methods:
            group = [
                o for o in outcomes if (o.workload, o.method) == (workload.name, method)
            ]
            if group:
                scores.append(_measured(group, truth))
    return scores


def _measured(group: Sequence[Outcome], truth: Truth | None) -> Score:
    return Score(
        workload=group[0].workload,
        method=group[0].method,
        picks=tuple(outcome.label for outcome in group),
        regrets=tuple(
            truth.regret(outcome.setting) if truth else None for outcome in group
        ),
        costs_s=tuple(outcome.cost_s for outcome in group),
        best_s=truth.best_s if truth else None,
        costs_epochs=tuple(
            o.cost_s / (truth.best_s * truth.slowness.get(o.repeat, 1.0)) for o in group
        )
        if truth
        else (),
        slower=tuple(
            truth.slowness_of(outcome.setting) if truth else None for outcome in group
        ),
        most_processes=max(outcome.most_processes for outcome in group),
        trials=tuple(len(outcome.tried) for outcome in group),
        ambiguous=sum(bool(outcome.tied) for outcome in group),
        crashes=tuple(
            f"repeat {outcome.repeat}: {line}"
            for outcome in group
            for line in outcome.crashes
        ),
        left_behind=tuple(
            f"repeat {outcome.repeat}: {line}"
            for outcome in group
            for line in outcome.left_behind
        ),
    )
