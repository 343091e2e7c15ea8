"""Differences between the ranks of a candidate: throughput, waiting times, the slowest rank. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from nws_sweep import units
from nws_sweep.results import RankMeasurement, Trial

HEADER = ("rank", "samples/s", "own time", "data wait", "training_step", "barrier wait", "start-up")
_WORTH_NAMING = 0.02  # slower than the next rank by at least this share


def slowest(ranks: Sequence[RankMeasurement]) -> RankMeasurement | None:
    """The rank that is slower than each of the others beyond noise; None if there is none.

    Its interval must lie above all others': ranks share most of the noise of a machine, so this is conservative.
    """
    if len(ranks) < 2:
        return None
    *others, last = sorted(ranks, key=lambda rank: rank.own_s.value)
    highest_s = max(rank.own_s.high or math.inf for rank in others)  # without an interval no rank is slower
    apart = last.own_s.value > (1 + _WORTH_NAMING) * others[-1].own_s.value
    return last if apart and (last.own_s.low or 0.0) > highest_s else None


def sentence(trial: Trial, alone: Trial | None = None) -> str:
    """The throughput of the ranks, and the slowest one; empty for a single rank.

    With workers, a rank that is slightly faster has batches in its queue and waits as long as one that is far faster.
    The slowest rank is therefore identified without workers, in the trial ``alone``.
    """
    found = trial.measurement
    if found is None or not found.ranks:
        return ""
    rates = sorted(rank.samples_per_s or 0.0 for rank in found.ranks)
    least, most = units.number(rates[0]), units.number(rates[-1])
    each = least if least == most else f"{least} to {most}"
    total = f", {units.number(found.samples_per_s)} samples/s in total ({each} per rank)" if found.samples_per_s else ""
    judged = trial if trial.num_workers == 0 else alone
    judged_ranks = judged.measurement.ranks if judged and judged.measurement else ()
    workers = units.counted(trial.num_workers, "worker")
    return f"{len(found.ranks)} ranks with {workers} each{total}: {_about_slowest(found.ranks, judged_ranks)}"


def _about_slowest(ranks: Sequence[RankMeasurement], judged: Sequence[RankMeasurement]) -> str:
    last = slowest(judged)
    step_s = max(rank.own_s.value + rank.barrier_s for rank in ranks)
    if last is None or min(ranks, key=lambda rank: rank.barrier_s).rank != last.rank:
        waits = sum(rank.barrier_s for rank in ranks) / len(ranks) / step_s if step_s > 0 else 0.0
        none = "no rank is slower than the others beyond noise; " if last is None and judged else ""
        return f"{none}a rank waits at the barrier {units.share(waits)} of the time on average"
    own_s = statistics.fmean(rank.own_s.value for rank in judged if rank is not last)
    barrier_s = statistics.fmean(rank.barrier_s for rank in ranks if rank.rank != last.rank)
    where = "" if judged is ranks else "without workers "
    return (
        f"rank {last.rank} is the slowest, {units.share(last.own_s.value / own_s - 1)} slower than the others: {where}"
        f"its step takes {units.seconds(last.own_s.value)} instead of {units.seconds(own_s)}, and the others wait at "
        f"the barrier {units.share(barrier_s / step_s)} of the time"
    )


def rows(ranks: Sequence[RankMeasurement]) -> Iterator[tuple[str, ...]]:
    """The cells of each rank under ``HEADER``."""
    for rank in ranks:
        times = map(units.seconds, (rank.wait_s, rank.step_s, rank.barrier_s, rank.startup_s))
        yield str(rank.rank), units.number(rank.samples_per_s), units.interval(rank.own_s), *times
