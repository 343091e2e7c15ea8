"""What the bursts of several ranks say of each of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nws_sweep.records import Burst, RankMeasurement
from nws_sweep.stats import estimate_mean


def of_ranks(
    windows: Sequence[Burst], begun: Iterable[Burst], batch_s: float | None, widened_by: float = 1.0
) -> tuple[RankMeasurement, ...]:
    """The quantities of each rank; none for one alone.

    Args:
        windows: The bursts that count, of all ranks together.
        begun: Those that began epochs.
        batch_s: Seconds per step of all ranks together; None without a steady pace.
        widened_by: As ``stats.estimate_mean`` has it.
    """
    windows, begun = [burst for burst in windows if burst.batches], list(begun)
    count = min((len(burst.ranks) for burst in (*windows, *begun)), default=0)
    return tuple(
        _of_rank(number, [burst.ranks[number] for burst in windows], begun, batch_s, widened_by)
        for number in range(count if windows else 0)
    )


def _of_rank(
    number: int, windows: Sequence[Burst], begun: Sequence[Burst], batch_s: float | None, widened_by: float
) -> RankMeasurement:
    taken = sum(burst.batches for burst in windows)
    wait_s, consume_s = sum(sum(burst.wait_s) for burst in windows), sum(sum(burst.consume_s) for burst in windows)
    means_s = [(sum(burst.wait_s) + sum(burst.consume_s)) / burst.batches for burst in windows]
    startups_s = [burst.ranks[number].startup_s or 0.0 for burst in begun]
    return RankMeasurement(
        rank=number,
        startup_s=sum(startups_s) / len(startups_s) if startups_s else 0.0,
        own_s=estimate_mean(means_s, (wait_s + consume_s) / taken, widened_by),
        wait_s=wait_s / taken,
        consume_s=consume_s / taken,
        meet_s=sum(sum(burst.meet_s) for burst in windows) / taken,
        samples_per_s=sum(burst.samples for burst in windows) / taken / batch_s if batch_s else None,
    )
