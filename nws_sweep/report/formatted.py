"""The figures of a trial as text: the only place that decides which are shown, and with how many digits."""

from __future__ import annotations

from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.results import Configuration, Trial

HEADER = ("num_workers", "per batch", "samples/s", "start-up", "epoch", "waiting", "memory", "windows", "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCells:
    """The figures of a trial as text, under ``HEADER``; a dash if there is none."""

    candidate: str  # num_workers, and settings that differ from the configuration
    batch: str = units.NOTHING
    rate: str = units.NOTHING
    startup: str = units.NOTHING
    epoch: str = units.NOTHING
    waiting: str = units.NOTHING
    memory: str = units.NOTHING
    windows: str = units.NOTHING  # behind the interval
    state: str  # with the reason of a failure


def of_trial(trial: Trial, configuration: Configuration) -> TrialCells:
    """Formats a trial of this configuration."""
    candidate = f"{trial.num_workers} {configuration.differing(trial.settings)}".rstrip()
    state = trial.state.value + (f": {trial.reason}" if trial.reason else "")
    found = trial.measurement
    if found is None:
        return TrialCells(candidate=candidate, state=state)
    uncertainty = units.uncertainty(found.batch_s)
    return TrialCells(
        candidate=candidate,
        state=state,
        batch=units.interval(found.batch_s),
        rate=units.number(found.samples_per_s, uncertainty),
        startup=units.seconds(found.startup_s),
        epoch=units.seconds(found.epoch_s, uncertainty),
        waiting=units.share(found.stall_fraction),
        memory=units.memory(found.memory_bytes),
        windows=str(found.batch_s.n if found.batch_s else 0),
    )
