"""Whether the samples that workers made are those of loading without workers. Pure.

Of a map-style dataset samples are compared by index, part by part, since random transforms change some parts only (the
image, not the label). A part that differs is loaded again in workers, one sample at a time: if it differs again, it is
random, or depends on the worker, and cannot be compared. If it is right then, workers that load at the same time
disturb each other. Of an iterable dataset the streams of a candidate's workers are compared with each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from nws_sweep.records import SampleMade, SamplePart

Parts = tuple[SamplePart, ...]
Reference = Mapping[int | str, Parts]

# Samples that are compared where some differ: more than half of them must differ, or two if open files are shared.
MOST_COMPARED = 8
_FEWEST_WITH_HANDLES = 2
# Only samples of so many workers, so that few must be started to load them again.
_MOST_WORKERS = 4
# Share of the streams' samples that another worker must have delivered too; and samples of a stream at least, more of
# them for a single part: a few labels are different in any stream.
_REPEATED = 0.1
_LEAST_STREAM, _LEAST_OF_PART = 2, 32


def candidates(made: Iterable[SampleMade]) -> list[SampleMade]:
    """Those that are worth comparing, the latest of each worker first: by then all workers load at the same time."""
    of_worker: dict[int, list[SampleMade]] = {}
    for sample in made:
        if sample.worker < _MOST_WORKERS:
            of_worker.setdefault(sample.worker, []).insert(0, sample)
    in_turn = zip_longest(*of_worker.values())
    return [sample for samples in in_turn for sample in samples if sample is not None]


def differing(sample: SampleMade, reference: Reference) -> frozenset[int]:
    """Positions of the parts that differ from those of the sample without workers."""
    pairs = enumerate(zip_longest(sample.parts, reference[sample.key]))
    return frozenset(position for position, (mine, theirs) in pairs if not _equal(mine, theirs))


def _equal(mine: SamplePart | None, theirs: SamplePart | None) -> bool:
    if mine is None or theirs is None or mine.form != theirs.form:
        return False
    return mine.content == theirs.content or None in (mine.content, theirs.content)


def wrong(
    first: Sequence[SampleMade], again: Sequence[SampleMade], reference: Reference, *, shares_handles: bool
) -> int:
    """How many of the samples that workers made at the same time are wrong; 0 if that cannot be said.

    Args:
        first: Samples as workers made them at the same time.
        again: The same samples, made by the same workers one at a time.
        reference: The same samples, made without workers.
        shares_handles: Whether the workers share open files.
    """
    variable = varying(again, reference)
    count = sum(bool(differing(sample, reference) - variable) for sample in first)
    return count if count >= (_FEWEST_WITH_HANDLES if shares_handles else len(first) // 2 + 1) else 0


def varying(again: Iterable[SampleMade], reference: Reference) -> frozenset[int]:
    """Positions of the parts that are random or depend on the worker: they differ though nothing loads beside them."""
    return frozenset(position for sample in again for position in differing(sample, reference))


def repeated(made: Iterable[SampleMade]) -> tuple[int, int]:
    """Of the first samples of workers' streams: how many another worker delivered too, and how many were looked at.

    (0, n) where workers share their samples, and where that cannot be said: of one worker, of random samples, and of
    samples that come again and again in a single stream. Parts that identify a sample tell it where others are random.
    """
    streams: dict[int, list[Parts]] = {}
    for sample in made:
        streams.setdefault(sample.worker, []).append(sample.parts)
    length = min((len(stream) for stream in streams.values()), default=0)
    if len(streams) < 2 or length < _LEAST_STREAM:
        return 0, sum(map(len, streams.values()))
    looked_at = len(streams) * length
    return max(map(_repeated, _columns([stream[:length] for stream in streams.values()]))), looked_at


def are_comparable(alone: Iterable[SampleMade], made: Iterable[SampleMade]) -> bool:
    """Whether any part of the samples without workers is among those of the workers: else all of them are random."""
    contents = {(part.form, part.content) for sample in made for part in sample.parts if part.content}
    return any((part.form, part.content) in contents for sample in alone for part in sample.parts)


def _columns(streams: Sequence[Sequence[Parts]]) -> Iterator[list[list[Hashable]]]:
    """Whole samples, then each part by itself: what identifies it in each worker's stream."""
    yield [[tuple((part.form, part.content) for part in parts) for parts in stream] for stream in streams]
    positions = min(len(parts) for stream in streams for parts in stream)
    for position in range(positions if len(streams[0]) >= _LEAST_OF_PART else 0):
        yield [[parts[position].content for parts in stream] for stream in streams]


def _repeated(streams: Sequence[Sequence[Hashable]]) -> int:
    distinct = [set(stream) for stream in streams]
    within = sum(len(stream) - len(kinds) for stream, kinds in zip(streams, distinct, strict=True))
    counts = Counter(value for kinds in distinct for value in kinds)
    across = sum(counts.values()) - len(counts)
    total = sum(map(len, streams))
    return across if across > _REPEATED * total and across > 2 * within else 0
