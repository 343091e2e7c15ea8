"""The results of ``scripts/benchmark search``. Pure."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.catalogue import Workload
from benchmarks.methods import OTHER, PLAIN, about
from benchmarks.oracle import Truth
from benchmarks.results import Results, Table, bullets
from benchmarks.scores import Score, pooled, quantile
from benchmarks.targets import advantages, percent, verdicts

_ABOUT = """\
How much slower than the best is the num_workers that a search method picks, and what does the search cost?
*plain* is `nws_sweep.search` with default arguments, which searches prefetch_factor and persistent_workers after
num_workers; the picks have in brackets what it recommends besides. *adaptive* is the same search with
`prefetch_factor=2`, which most other methods have. The others are methods of other projects, and rules of thumb, which
cost nothing."""

_MEASURING = """\
In each repeat every method runs once on every workload, in random order. Then an oracle times long plain loops, each in
a fresh process and in random order: first its own values of num_workers, then neighbours of the best one (a tenth fewer
and more, then one fewer and more) until the best no longer changes. Where an epoch with the best takes less than five
seconds, the same with persistent_workers=True, from this number up until more workers cost a tenth more; last come the
values that methods picked. The best is one of the oracle's own values. Values that are four times slower than the best
after one run, or half again as slow after two, are left out of later passes. The oracle's own values have
prefetch_factor=2; a pick with another one is timed with it.

- regret: price of the value that the method picked / lowest price of the oracle's own values - 1. Only values that at
  least half of the oracle's passes measured count. 0 is the best; a negative regret says that the pick was better. The
  price is the median epoch x 1.03^log2(1 + workers): twice as many workers must save 3 %. Epochs are divided by the
  slowness of the machine in their pass, estimated from the values that all passes measured. In brackets: the 95th
  percentile over the repeats (of fewer than 20, the largest). methods.csv pools the repeats of all workloads; its
  column *largest* is the largest regret.
- slower: epoch with the pick / epoch with the fastest of the oracle's own values, - 1, negative if the pick was faster;
  median over the repeats, in methods.csv also the 95th percentile.
- processes: the most that ran at a time. Those of other programs count only if they were started meanwhile.
- cost: wall time of the method with its processes and their start-up (all are forked from one fork server that has
  imported torch), in seconds and in epochs at the best setting in the same repeat; median over the repeats.
- noise floor: the regret, by one half of the oracle's passes, of the best num_workers by the other half. Smaller
  regrets are not significant. There are few passes, so that 0.0 % does not mean that there is no noise.
- An epoch is the time of the whole loop, with start and end of the workers, after a first batch that is not counted.
  With persistent_workers=True it is the mean of a training of ten epochs: one with the start, nine as later ones. Long
  epochs are stopped and projected: start + steady pace x remaining batches + end."""

_SCORES = (
    "workload", "method", "picks", "regret", "slower", "cost (epochs)", "cost (s)", "processes", "trials", "ambiguous",
    "failures",
)  # fmt: skip
_METHODS = (
    "method", "workloads", "regret", "largest", "slower", "cost (epochs)", "cost (s)",
)  # fmt: skip
ORACLE = (
    "workload",
    "best",
    "epoch (s)",
    "passes",
    "noise floor",
    "epoch (s) by num_workers",
)
_ABOUT_ORACLE = """\
In oracle.csv *best* is the fastest of the oracle's own values. Values that only a method picked, and those that fewer
than half of the passes measured, are in the last column alone."""


def results_of(
    scores: Sequence[Score], truths: Mapping[str, Truth], workloads: Sequence[Workload]
) -> Results:
    """All scores, by method and by workload."""
    methods = dict.fromkeys(score.method for score in scores)
    better = advantages(scores, truths)
    if not better:
        better = ["nowhere" if PLAIN in methods else "plain did not run"]
    parts = [
        _ABOUT,
        _MEASURING,
        "Methods:\n\n" + bullets(f"{method}: {about(method)}" for method in methods),
        "Workloads:\n\n" + "\n".join(workload.line for workload in workloads),
        _ABOUT_ORACLE,
        "Where other methods are better than plain (rules of thumb have no cost; their regret is compared):\n\n"
        + bullets(better),
        "Targets of plain:\n\n" + bullets(verdicts(scores, truths)),
        *faults(scores),
    ]
    return Results(
        title="Regret and cost of search methods for num_workers",
        headline=_headline(scores),
        about="\n\n".join(parts),
        tables=[
            Table("methods", _METHODS, totals(scores)),
            Table("scores", _SCORES, [_row(score) for score in scores]),
            Table("oracle", ORACLE, oracle_rows(truths)),
            *cost_ratios(scores),
        ],
    )


def _headline(scores: Sequence[Score]) -> str:
    """The figures of the search with default arguments; empty if it did not run."""
    of_plain = [score for score in scores if score.method == PLAIN]
    if not of_plain:
        return ""
    slower = [score.slower for score in of_plain]
    median, high, worst = (percent(pooled(slower, share)) for share in (0.5, 0.95, 1.0))
    cost_s = statistics.median(score.cost_s for score in of_plain)
    if pooled(slower, 0.5) is None:
        return f"`nws_sweep.search` with default arguments (*plain*) takes {cost_s:.1f} s in the median.\n\n"
    return (
        "With the answer of `nws_sweep.search` with default arguments (*plain*) an epoch takes "
        f"{median} longer than with the fastest num_workers in the median of {len(of_plain)} workloads, {high} in the "
        f"95th percentile and {worst} at most; the search takes {cost_s:.1f} s in the median.\n\n"
    )


def totals(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    """A row per method over all its workloads; the cost is the median of those of the
    workloads."""
    rows = list[tuple[str, ...]]()
    for method in dict.fromkeys(score.method for score in scores):
        of_method = [score for score in scores if score.method == method]
        regrets, slower = (
            [score.regrets for score in of_method],
            [score.slower for score in of_method],
        )
        regret, longer = (
            _quantiles(pooled(values, 0.5), pooled(values, 0.95))
            for values in (regrets, slower)
        )
        epochs = [
            score.cost_epochs for score in of_method if score.cost_epochs is not None
        ]
        cost_epochs = f"{statistics.median(epochs):.2f}" if epochs else ""
        cost_s = statistics.median(score.cost_s for score in of_method)
        cells = (
            method,
            str(len(of_method)),
            regret,
            percent(pooled(regrets, 1.0)),
            longer,
            cost_epochs,
            f"{cost_s:.1f}",
        )
        rows.append(cells)
    return rows


def cost_ratios(scores: Sequence[Score]) -> list[Table]:
    """The costs / costs of another version in the same repeat of the same
    workload; empty without one."""
    by_key = {(score.method, score.workload): score for score in scores}
    pairs: dict[str, list[tuple[Score, Score]]] = {}
    for score in scores:
        method, _, version = score.method.partition(OTHER)
        if version and (method, score.workload) in by_key:
            pairs.setdefault(score.method, []).append(
                (by_key[method, score.workload], score)
            )
    return [_cost_ratios_of(method, compared) for method, compared in pairs.items()]


def _cost_ratios_of(method: str, compared: Sequence[tuple[Score, Score]]) -> Table:
    ratios = [_ratios(new, old) for new, old in compared]
    rows = []
    for (new, old), values in zip(compared, ratios, strict=True):
        costs = f"{new.cost_s:.1f}", f"{old.cost_s:.1f}"
        rows.append((new.workload, *costs, *_median_and_spread(values)))
    pooled_ratios = sorted(ratio for of_workload in ratios for ratio in of_workload)
    rows.append(
        (f"all {len(pooled_ratios)} pairs", "", "", *_median_and_spread(pooled_ratios))
    )
    low, high = (quantile(pooled_ratios, share) for share in (0.1, 0.9))
    rows.append(("10th to 90th percentile", "", "", "", f"{low:.2f} to {high:.2f}"))
    header = (
        "workload",
        "cost (s)",
        f"cost (s) of {method}",
        "ratio",
        "lowest to highest",
    )
    return Table("costs_of_another_version", header, rows)


def _median_and_spread(ratios: Sequence[float]) -> tuple[str, str]:
    return f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"


def _ratios(new: Score, old: Score) -> list[float]:
    return [
        new_s / old_s for new_s, old_s in zip(new.costs_s, old.costs_s, strict=False)
    ]


def faults(scores: Sequence[Score]) -> list[str]:
    """A list of crashes and of processes left behind; empty without any."""
    lines = [
        f"{score.method} on {score.workload}, {line}"
        for score in scores
        for line in (*score.crashes, *score.left_behind)
    ]
    return [f"Faults:\n\n{bullets(lines)}"] if lines else []


def _row(score: Score) -> tuple[str, ...]:
    picks = Counter(pick or "none" for pick in score.picks).most_common()
    return (
        score.workload,
        score.method,
        ", ".join(f"{pick} x{count}" if count > 1 else pick for pick, count in picks),
        _quantiles(score.regret, score.high_regret),
        percent(quantile(score.slower, 0.5)),
        "" if score.cost_epochs is None else f"{score.cost_epochs:.2f}",
        f"{score.cost_s:.1f}",
        str(score.most_processes or ""),
        _range(score.trials),
        str(score.ambiguous or ""),
        str(len(score.crashes) + len(score.left_behind) or ""),
    )


def _quantiles(median: float | None, high: float | None) -> str:
    return (
        "no value"
        if median is None or high is None
        else f"{percent(median)} ({percent(high)})"
    )


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers, default=0), max(numbers, default=0)
    return "" if not high else f"{low} to {high}" if low < high else str(low)


def oracle_rows(truths: Mapping[str, Truth]) -> list[tuple[str, ...]]:
    """A row per workload."""
    rows = list[tuple[str, ...]]()
    for workload, truth in truths.items():
        floor = "" if truth.noise_floor is None else percent(truth.noise_floor)
        all_s = ", ".join(
            f"{setting}: {epoch_s:.3g}" for setting, epoch_s in truth.epochs_s.items()
        )
        remark = "" if truth.whole else "; some projected"
        best = str(truth.best), f"{truth.best_s:.3g}"
        rows.append((workload, *best, str(truth.passes), floor, f"{all_s}{remark}"))
    return rows
