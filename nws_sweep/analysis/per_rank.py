"""What is said of the ranks of a candidate: what each gets, all in sum, and who holds up the others. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from nws_sweep import units
from nws_sweep.results import RankMeasurement, Trial

HEADER = ("rank", "samples/s", "own time", "waits for data", "consumer", "waits for others", "start-up")
# Who is slower than the next by a smaller share is not worth a name.
_WORTH_NAMING = 0.02


def slowest(ranks: Sequence[RankMeasurement]) -> RankMeasurement | None:
    """The rank that the others wait for; None unless it is slower than each of them beyond noise.

    Its interval must lie above all others': they share most of the machine's noise, which makes that a careful answer.
    """
    if len(ranks) < 2:
        return None
    *others, last = sorted(ranks, key=lambda rank: rank.own_s.value)
    if last.own_s.low is None or any(rank.own_s.high is None for rank in others):
        return None
    highest_s = max(rank.own_s.high or 0.0 for rank in others)
    apart = last.own_s.value > (1 + _WORTH_NAMING) * others[-1].own_s.value
    return last if apart and last.own_s.low > highest_s else None


def sentence(trial: Trial, alone: Trial | None = None) -> str:
    """What the ranks get, in sum and each, and which of them is the slowest; empty for one alone.

    With workers a rank that is hardly ahead of another has batches in store, and waits for it as long as one that is
    far ahead: who is slower, and by how much, shows without workers only, in the trial ``alone``.
    """
    found = trial.measurement
    if found is None or not found.ranks:
        return ""
    rates = sorted(rank.samples_per_s or 0.0 for rank in found.ranks)
    least, most = units.number(rates[0]), units.number(rates[-1])
    each = least if least == most else f"{least} to {most}"
    in_sum = f", {units.number(found.samples_per_s)} samples/s in sum and {each} each" if found.samples_per_s else ""
    judged = trial if trial.num_workers == 0 else alone
    judged_ranks = judged.measurement.ranks if judged and judged.measurement else ()
    told = _about_slowest(found.ranks, judged_ranks)
    return f"{len(found.ranks)} ranks with {units.counted(trial.num_workers, 'worker')} each{in_sum}: {told}"


def _about_slowest(ranks: Sequence[RankMeasurement], judged: Sequence[RankMeasurement]) -> str:
    last = slowest(judged)
    step_s = max(rank.own_s.value + rank.barrier_s for rank in ranks)
    if last is None or min(ranks, key=lambda rank: rank.barrier_s).rank != last.rank:
        waits = sum(rank.barrier_s for rank in ranks) / len(ranks) / step_s if step_s > 0 else 0.0
        none = "none is slower than the others beyond noise; " if last is None and judged else ""
        return f"{none}each waits for the last one of a step, what that is, {units.share(waits)} of the time"
    own_s = statistics.fmean(rank.own_s.value for rank in judged if rank is not last)
    barrier_s = statistics.fmean(rank.barrier_s for rank in ranks if rank.rank != last.rank)
    where = "" if judged is ranks else "without workers "
    return (
        f"rank {last.rank} is the slowest, {units.share(last.own_s.value / own_s - 1)} slower than the others: {where}"
        f"it takes {units.seconds(last.own_s.value)} a step and they {units.seconds(own_s)}, and they wait for it "
        f"{units.share(barrier_s / step_s)} of the time"
    )


def rows(ranks: Sequence[RankMeasurement]) -> Iterator[tuple[str, ...]]:
    """A row of text for each, below ``HEADER``."""
    for rank in ranks:
        times = map(units.seconds, (rank.wait_s, rank.consume_s, rank.barrier_s, rank.startup_s))
        yield str(rank.rank), units.number(rank.samples_per_s), units.interval(rank.own_s), *times
