"""What disturbed a trial, from the machine's counters round its turns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nws_sweep.quantities import all_bursts
from nws_sweep.records import Noise, Turn
from nws_sweep.stats import outliers


def of_turns(turns: Sequence[Turn], cores: float, first_burst: int = 0) -> Noise | None:
    """The disturbances over all turns; None without turns.

    Args:
        turns: All turns of a trial.
        cores: CPUs that the trial may use.
        first_burst: Number of the first of their bursts in the trial.
    """
    elapsed_s = sum(turn.elapsed_s for turn in turns)
    if elapsed_s <= 0:
        return None
    own_s = sum(turn.after.cpu_s - turn.before.cpu_s for turn in turns)
    return Noise(
        other_cpus=max(0.0, sum(turn.machine.busy_s for turn in turns) - own_s) / elapsed_s,
        steal=sum(turn.machine.steal_s for turn in turns) / (elapsed_s * cores),
        throttled=min(1.0, sum(turn.machine.throttled_s for turn in turns) / elapsed_s),
        outliers=tuple(first_burst + number for number in _outlying_bursts(turns)),
    )


def _outlying_bursts(turns: Sequence[Turn]) -> tuple[int, ...]:
    measured = [
        (number, burst.elapsed_s / burst.batches)
        for number, burst in enumerate(all_bursts(turns))
        if burst.counts and burst.batches
    ]
    return tuple(measured[index][0] for index in outliers([mean_s for _, mean_s in measured]))
