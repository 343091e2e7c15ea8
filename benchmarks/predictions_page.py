"""The page of ``scripts/benchmark predictions``: ratios of predicted to measured epochs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.catalogue import Workload
from benchmarks.journal import Forecast
from benchmarks.targets import percent, verdict

MOST_MEDIAN, MOST_HIGH, MOST_REPLAY_S = 0.05, 0.12, 0.1
_WORST = 15

_INTRODUCTION = """\
Epochs predicted by replaying records of a short look at the loader, compared with the same epochs in a plain loop.

- Recorded: per workload and repeat, one exhaustive search by nws_sweep with 2, 8 and 0 workers, prefetch_factor 2, in
  order, one window of 0.15 s each after the warm-up. Trials are used in this order as long as all their windows, with
  warm-up and start-up, last at most 2 s together (the first trial always); the others are dropped.
- Predicted: epochs with 0, 1, 2, 4, 8, 16, 32 and 64 workers, prefetch_factor 1, 2, 4 and 8, in order and not. From
  these, settings are drawn at random for each workload, each number of workers once before one is drawn again.
  Epochs predicted to take more than 12 s, and queues of more than 4 GB, are left out.
- Measured: the whole loop, with start and end of the workers, after a first batch that is not counted, in a fresh
  process for each setting; epochs shorter than 1 s are repeated. Both are done for one workload after the other.
- predicted / measured: 1 is right. error: its distance from 1. inside: share of measured epochs within the predicted
  interval."""

_HEAD = (
    "epochs | recorded (s) | predicted / measured: median | 10 % | 90 % | error: median | 90 % | inside |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def page(found: Sequence[Forecast], workloads: Sequence[Workload], origin: str, replayed_s: float) -> str:
    """The whole page, in Markdown; ``replayed_s`` is the time of a replay of 10,000 batches, s."""
    worst = sorted(found, key=lambda one: -one.error)[:_WORST]
    parts = [
        "# Predicted and measured epochs",
        _INTRODUCTION,
        origin,
        "## Targets\n\n" + "\n".join(f"- {line}" for line in verdicts(found, replayed_s)),
        "## Workloads\n\n" + _table("workload", found, lambda one: one.workload),
        "## Settings\n\n" + _table("workers", sorted(found, key=lambda one: one.workers), lambda one: str(one.workers)),
        _table("prefetch_factor", sorted(found, key=lambda o: o.prefetch_factor), lambda o: str(o.prefetch_factor)),
        _table("order", found, lambda one: "in order" if one.in_order else "as they come"),
        "## Largest errors\n\n" + "\n".join(f"- {one.workload}, {one.about}" for one in worst),
        "## About the workloads\n\n" + "\n".join(workload.line for workload in workloads),
    ]
    return "\n\n".join(parts) + "\n"


def verdicts(found: Sequence[Forecast], replayed_s: float) -> list[str]:
    """One sentence per target: met or missed, with the figures."""
    median, high = np.quantile([one.error for one in found], [0.5, 0.9])
    inside = sum(one.is_inside for one in found)
    return [
        verdict(f"error, median at most {percent(MOST_MEDIAN)}", [("all", median)], MOST_MEDIAN, percent),
        verdict(f"error, 90th percentile at most {percent(MOST_HIGH)}", [("all", high)], MOST_HIGH, percent),
        verdict(f"replay of 10,000 batches with 64 workers in at most {MOST_REPLAY_S:g} s, found {replayed_s:.3f} s",
                [("all", replayed_s)], MOST_REPLAY_S, "{:.3f} s".format),
        f"measured epochs within the predicted 95 % interval: {inside} of {len(found)}",
    ]  # fmt: skip


def _table(name: str, found: Sequence[Forecast], key: Callable[[Forecast], str]) -> str:
    """A line per value of ``key``, in order of appearance, and one for all."""
    groups: dict[str, list[Forecast]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    lines = [_line(value, group) for value, group in groups.items()]
    return "\n".join([f"| {name} | {_HEAD}", *lines, _line("**all**", found)])


def _line(name: str, group: Sequence[Forecast]) -> str:
    low, median, high = np.quantile([one.ratio for one in group], [0.1, 0.5, 0.9])
    error, high_error = np.quantile([one.error for one in group], [0.5, 0.9])
    cells = (
        name, str(len(group)), f"{max(one.recorded_s for one in group):.1f}", f"{median:.3f}", f"{low:.3f}",
        f"{high:.3f}", percent(error), percent(high_error), percent(sum(o.is_inside for o in group) / len(group)),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"
