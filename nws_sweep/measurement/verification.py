"""Replays the batches of a trial in their order, to compare the time of its windows with the replay's. Pure.

Since the batches are the same, the comparison does not depend on what they cost, on how full the queue was, nor on
batches that held up others. Between windows the processes of a trial are stopped, which the replay need not know: the
times in the records are those in which the processes were not stopped.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from nws_sweep.measurement import costs
from nws_sweep.replay.queue import QueueSettings, replay
from nws_sweep.results import BatchCost, BatchRecord, LoopCosts, Span, TimeSlice, Window, WindowKind


def spans_of(
    slices: Sequence[TimeSlice], records: Sequence[BatchRecord], loop: LoopCosts, settings: QueueSettings
) -> tuple[Span, ...]:
    """One span for each window within an epoch that counts, in their order; none without records.

    Args:
        slices: Of a trial.
        records: Of its batches; those that are missing count with the mean cost.
        loop: Costs of its main process and of its workers' life.
        settings: Of its queue.
    """
    if not records:
        return ()
    spans = []
    for number, placed in enumerate(costs.epochs(slices)):
        ends = itertools.accumulate(window.batches for window, _ in placed)
        counted = [(window, end, each) for (window, each), end in zip(placed, ends, strict=True) if _counts(window)]
        if counted:
            made = [record for record in records if record.epoch == number] or records
            sequence = _costs(made, sum(window.batches for window, _ in placed) + settings.queued_batches)
            returned_s = (0.0, *replay(sequence, loop, settings).returned_s)
            spans += [_span(window, returned_s[end - window.batches], returned_s[end], n) for window, end, n in counted]
    return tuple(spans)


def _counts(window: Window) -> bool:
    return window.kind is WindowKind.STEADY and not window.ended_epoch and window.batches > 0


def _costs(made: Sequence[BatchRecord], count: int) -> list[BatchCost]:
    known = {record.number: record.cost for record in made}
    mean = BatchCost(*map(statistics.fmean, zip(*(one.cost.parts for one in made), strict=True)))
    return [known.get(number, mean) for number in range(count)]


def _span(window: Window, began_s: float, ended_s: float, number: int | None) -> Span:
    return Span(measured_s=window.elapsed_s, replayed_s=ended_s - began_s, batches=window.batches, round=number)
