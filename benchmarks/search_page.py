"""The page of ``scripts/benchmark search``, in Markdown. Pure."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.catalogue import Workload
from benchmarks.methods import OTHER, PLAIN, about
from benchmarks.oracle import Truth
from benchmarks.scores import Score, pooled, quantile
from benchmarks.targets import advantages, percent, verdicts

_INTRODUCTION = """\
How much slower than the best is the num_workers that a search method picks, and what does the search cost?
*plain* is `nws_sweep.search` with default arguments, which searches prefetch_factor after num_workers; where it
recommends another one than 2, the picks have it in brackets. *adaptive* is the same search with `prefetch_factor=2`,
which all other methods have. The others are methods of other projects, and rules of thumb, which cost nothing."""

_MEASURING = """\
In each repeat every method runs once on every workload, in random order. Then an oracle times long plain loops, each in
a fresh process and in random order: first its own values of num_workers, then neighbours of the best one (a tenth fewer
and more, then one fewer and more) until the best no longer changes, and last the values that methods picked. The best
is one of the oracle's own values. Values that are four times slower than the best after one run, or half again as slow
after two, are left out of later passes. The oracle's own values have prefetch_factor=2; a pick with another one is
timed with it.

- regret: price of the value that the method picked / lowest price of the oracle's own values - 1. Only values that at
  least half of the oracle's passes measured count. 0 is the best; a negative regret says that the pick was better. The
  price is the median epoch x 1.03^log2(1 + workers): twice as many workers must save 3 %. Epochs are divided by the
  slowness of the machine in their pass, estimated from the values that all passes measured. In brackets: the 95th
  percentile over the repeats (of fewer than 20, the largest). The first table pools the repeats of all workloads; its
  column *largest* is the largest regret.
- slower: epoch with the pick / epoch with the fastest of the oracle's own values, - 1, negative if the pick was faster;
  median over the repeats, in the first table also the 95th percentile.
- processes: the most that ran at a time. Those of other programs count only if they were started meanwhile.
- cost: wall time of the method with its processes and their start-up (all are forked from one fork server that has
  imported torch), in seconds and in epochs at the best setting in the same repeat; median over the repeats.
- noise floor: the regret, by one half of the oracle's passes, of the best num_workers by the other half. Smaller
  regrets are not significant. There are few passes, so that 0.0 % does not mean that there is no noise.
- An epoch is the time of the whole loop, with start and end of the workers, after a first batch that is not counted.
  Long epochs are stopped and projected: start + steady pace x remaining batches + end."""

_HEAD = (
    "| workload | method | picks | regret | slower | cost (epochs) | cost (s) | processes | trials | ambiguous | "
    "failures |\n|---|---|---|---|---|---|---|---|---|---|---|"
)
_ORACLE_HEAD = (
    "*best* is the fastest of the oracle's own values. Values that only a method picked, and those that fewer than\n"
    "half of the passes measured, are in the last column alone.\n\n"
    "| workload | best | epoch (s) | passes | noise floor | epoch (s) by num_workers |\n|---|---|---|---|---|---|"
)


def page(
    scores: Sequence[Score],
    truths: Mapping[str, Truth],
    workloads: Sequence[Workload],
    origin: str,
) -> str:
    """The whole page."""
    methods = dict.fromkeys(score.method for score in scores)
    parts = [
        "# Regret and cost of search methods for num_workers",
        f"{_found(scores)}{origin}",
        _INTRODUCTION,
        "## All workloads together\n\n" + totals(scores),
        *cost_ratios(scores),
        "## Scores\n\n" + table(scores),
        "## Where other methods are better than plain\n\nRules of thumb have no cost; their regret is compared.\n\n"
        + _list(
            advantages(scores, truths)
            or ["nowhere" if PLAIN in methods else "plain did not run"]
        ),
        "## How it was measured\n\n" + _MEASURING,
        "## Methods\n\n" + _list(f"{method}: {about(method)}" for method in methods),
        "## Workloads\n\n" + "\n".join(workload.line for workload in workloads),
        "## The oracle\n\n" + oracle_table(truths),
        "## Targets of plain\n\n" + _list(verdicts(scores, truths)),
    ]
    return "\n\n".join(parts) + "\n"


def _found(scores: Sequence[Score]) -> str:
    """The figures of the search with default arguments; empty if it did not run."""
    own = [score for score in scores if score.method == PLAIN]
    if not own:
        return ""
    slower = [score.slower for score in own]
    median, high, worst = (percent(pooled(slower, share)) for share in (0.5, 0.95, 1.0))
    cost_s = statistics.median(score.cost_s for score in own)
    if pooled(slower, 0.5) is None:
        return f"`nws_sweep.search` with default arguments (*plain*) takes {cost_s:.1f} s in the median.\n\n"
    return (
        "With the answer of `nws_sweep.search` with default arguments (*plain*) an epoch takes "
        f"{median} longer than with the fastest num_workers in the median of {len(own)} workloads, {high} in the 95th "
        f"percentile and {worst} at most; the search takes {cost_s:.1f} s in the median.\n\n"
    )


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def totals(scores: Sequence[Score]) -> str:
    """A line per method over all its workloads; the cost is the median of those of the
    workloads."""
    lines = [
        "| method | workloads | regret | largest | slower | cost (epochs) | cost (s) |",
        f"|{'---|' * 7}",
    ]
    for method in dict.fromkeys(score.method for score in scores):
        own = [score for score in scores if score.method == method]
        regrets, slower = (
            [score.regrets for score in own],
            [score.slower for score in own],
        )
        regret, longer = (
            _quantiles(pooled(each, 0.5), pooled(each, 0.95))
            for each in (regrets, slower)
        )
        epochs = [score.cost_epochs for score in own if score.cost_epochs is not None]
        cost_epochs = f"{statistics.median(epochs):.2f}" if epochs else ""
        cost_s = statistics.median(score.cost_s for score in own)
        cells = (
            method,
            str(len(own)),
            regret,
            percent(pooled(regrets, 1.0)),
            longer,
            cost_epochs,
            f"{cost_s:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def cost_ratios(scores: Sequence[Score]) -> list[str]:
    """The part about costs / costs of another version in the same repeat of the same
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


def _cost_ratios_of(method: str, compared: Sequence[tuple[Score, Score]]) -> str:
    ratios = [_ratios(new, old) for new, old in compared]
    pooled_ratios = sorted(ratio for of_workload in ratios for ratio in of_workload)
    low, high = (quantile(pooled_ratios, share) for share in (0.1, 0.9))
    lines = [
        f"## Costs / costs of {method}",
        "",
        f"{len(pooled_ratios)} pairs of searches, each of the same workload in the same repeat: median "
        f"{statistics.median(pooled_ratios):.2f}, 10th to 90th percentile {low:.2f} to {high:.2f}, "
        f"lowest to highest {pooled_ratios[0]:.2f} to {pooled_ratios[-1]:.2f}.",
        "",
        f"| workload | cost (s) | cost (s) of {method} | ratio | lowest to highest |",
        "|---|---|---|---|---|",
    ]
    for (new, old), values in zip(compared, ratios, strict=True):
        spread = f"{min(values):.2f} to {max(values):.2f}"
        median = statistics.median(values)
        lines.append(
            f"| {new.workload} | {new.cost_s:.1f} | {old.cost_s:.1f} | {median:.2f} | {spread} |"
        )
    return "\n".join(lines)


def _ratios(new: Score, old: Score) -> list[float]:
    return [
        new_s / old_s for new_s, old_s in zip(new.costs_s, old.costs_s, strict=False)
    ]


def table(scores: Sequence[Score]) -> str:
    """A line per score, and a line per crash and per process left behind."""
    lines = [_HEAD, *(_line(score) for score in scores)]
    faults = [
        f"- {s.method} on {s.workload}, {line}"
        for s in scores
        for line in (*s.crashes, *s.left_behind)
    ]
    return "\n".join([*lines, "", *faults] if faults else lines)


def _line(score: Score) -> str:
    picks = Counter(pick or "none" for pick in score.picks).most_common()
    cells = (
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
    return f"| {' | '.join(cells)} |"


def _quantiles(median: float | None, high: float | None) -> str:
    return (
        "no value"
        if median is None or high is None
        else f"{percent(median)} ({percent(high)})"
    )


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers, default=0), max(numbers, default=0)
    return "" if not high else f"{low} to {high}" if low < high else str(low)


def oracle_table(truths: Mapping[str, Truth]) -> str:
    """A line per workload."""
    return "\n".join(
        [_ORACLE_HEAD, *(_oracle_line(name, truth) for name, truth in truths.items())]
    )


def _oracle_line(workload: str, truth: Truth) -> str:
    floor = "" if truth.noise_floor is None else percent(truth.noise_floor)
    all_s = ", ".join(
        f"{workers}: {epoch_s:.3g}" for workers, epoch_s in truth.epochs_s.items()
    )
    remark = "" if truth.whole else "; some projected"
    return f"| {workload} | {truth.best} | {truth.best_s:.3g} | {truth.passes} | {floor} | {all_s}{remark} |"
