"""What several ranks report of the same command becomes one answer. Pure.

They go in lockstep, so batch i of all of them is one step, and its time is that of all: from meeting to meeting. Where
the consumer is what makes them wait for each other, as a step of DistributedDataParallel does, its own time is that of
the rank that waited least in it; the rest of the others' is waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from nws_sweep.records import Burst, Usage

Number = TypeVar("Number", int, float)


def merged_burst(ranks: Sequence[Burst]) -> Burst:
    """A burst of steps.

    The time of a step is its mean over the ranks, which meet at its end; its consumer's time likewise; the rest of it
    is waiting, for the own loader or for another rank's.

    Args:
        ranks: What each saw, in their order, with as many batches each.
    """
    ranks = ranks if all(rank.meet_s for rank in ranks) else _with_meetings(ranks)
    steps_s = [_mean(times) for times in zip(*(_steps_s(rank) for rank in ranks), strict=True)]
    consumes_s = [_mean(times) for times in zip(*(rank.consume_s for rank in ranks), strict=True)]
    return Burst(
        kind=ranks[0].kind,
        startup_s=_largest(rank.startup_s for rank in ranks),
        wait_s=tuple(step_s - consume_s for step_s, consume_s in zip(steps_s, consumes_s, strict=True)),
        consume_s=tuple(consumes_s),
        samples=sum(rank.samples for rank in ranks),
        end_s=_largest(rank.end_s for rank in ranks),
        produced=_sum_if_all(rank.produced for rank in ranks),
        batch_bytes=_largest(rank.batch_bytes for rank in ranks),
        batch_tensors=_largest(rank.batch_tensors for rank in ranks),
        ranks=tuple(ranks),
    )


def _with_meetings(ranks: Sequence[Burst]) -> list[Burst]:
    """The same with the time that each waited for the others in its consumer told apart."""
    own_s = tuple(min(times) for times in zip(*(rank.consume_s for rank in ranks), strict=True))
    return [
        replace(
            rank,
            consume_s=own_s,
            meet_s=tuple(both_s - alone_s for both_s, alone_s in zip(rank.consume_s, own_s, strict=True)),
        )
        for rank in ranks
    ]


def _steps_s(rank: Burst) -> list[float]:
    return [sum(parts) for parts in zip(rank.wait_s, rank.consume_s, rank.meet_s, strict=True)]


def merged_usage(ranks: Sequence[Usage]) -> Usage:
    """What all ranks have used together."""
    return Usage(
        cpu_s=sum(rank.cpu_s for rank in ranks),
        memory_bytes=_known_sum(rank.memory_bytes for rank in ranks),
        shm_bytes=_known_sum(rank.shm_bytes for rank in ranks),
        disk_bytes=_known_sum(rank.disk_bytes for rank in ranks),
        major_faults=_known_sum(rank.major_faults for rank in ranks),
    )


def merged_length(ranks: Iterable[int | None]) -> int | None:
    """Batches of an epoch, which ends with that of the first rank whose ends; None if one does not know its own."""
    lengths = list(ranks)
    known = [length for length in lengths if length is not None]
    return min(known) if len(known) == len(lengths) else None


def merged_lines(ranks: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Each line once, in the order in which they came."""
    return tuple(dict.fromkeys(line for lines in ranks for line in lines))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _largest(values: Iterable[Number | None]) -> Number | None:
    return max((value for value in values if value is not None), default=None)


def _known_sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _sum_if_all(values: Iterable[int | None]) -> int | None:
    counted = list(values)
    known = [value for value in counted if value is not None]
    return sum(known) if len(known) == len(counted) else None
