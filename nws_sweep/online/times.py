"""What a training has measured of its settings: whole epochs, and the pace between
their start and end. Pure.

Whole epochs are compared with whole epochs, and a pace with a pace: an epoch has the
start and the end of its workers. Where that is impossible, texts say which is which.
What was not measured is unknown.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nws_sweep import units
from nws_sweep.online.loader_clock import LoaderTime
from nws_sweep.records import (
    Account,
    LoaderSettings,
    OtherLoader,
    Trial,
    Window,
    WindowKind,
)
from nws_sweep.searching.timing import starting_s

Epoch = Sequence[Window]


class Measured(NamedTuple):
    """What was measured of one setting.

    Attributes:
        batch_s: Seconds of a batch.
        waiting_share: Share of the time spent waiting for batches.
        is_of_epochs: Whether whole epochs were timed, their start and end included.
    """

    batch_s: float
    waiting_share: float
    is_of_epochs: bool = False


@dataclass(frozen=True, slots=True)
class Times:
    """What was measured of settings.

    Attributes:
        measured: By settings, in whole epochs or at the pace; empty if some setting has
            neither.
        batches: Of an epoch, if whole epochs of a known length were timed; else None.
    """

    measured: Mapping[LoaderSettings, Measured] = field(default_factory=dict)
    batches: int | None = None

    @property
    def batch_s(self) -> Mapping[LoaderSettings, float]:
        """Seconds of a batch by settings."""
        return {
            settings: measured.batch_s for settings, measured in self.measured.items()
        }

    @property
    def is_mixed(self) -> bool:
        """Whether some settings have whole epochs only, others a pace only."""
        return len({measured.is_of_epochs for measured in self.measured.values()}) > 1

    @property
    def unit(self) -> str:
        """What the texts are about."""
        return "an epoch" if self.batches else "a batch"

    def text(self, batch_s: float) -> str:
        """The seconds of a batch as a time of the unit."""
        return units.seconds(batch_s * (self.batches or 1))


def times_of(trials: Collection[Trial]) -> Times:
    """What was measured in whole epochs, if all trials have timed some; else at the
    pace, if all have one; else mixed.

    An epoch may be too short for a pace, and the settings before may have been left
    within an epoch.
    """
    if in_epochs := _of_all(trials, in_whole_epochs):
        lengths = {trial.batches for trial in trials}
        return Times(in_epochs, lengths.pop() if len(lengths) == 1 else None)
    mixed = _of_all(trials, lambda trial: in_whole_epochs(trial) or at_the_pace(trial))
    return Times(_of_all(trials, at_the_pace) or mixed)


def _of_all(
    trials: Collection[Trial], measured_of: Callable[[Trial], Measured | None]
) -> Mapping[LoaderSettings, Measured]:
    """What was measured in this way, by settings; empty unless all trials were."""
    measured = {}
    for trial in trials:
        if figures := measured_of(trial):
            measured[trial.settings] = figures
    return measured if len(measured) == len(trials) else {}


def in_whole_epochs(trial: Trial) -> Measured | None:
    """The mean of the whole epochs, their start and end shared out over their batches;
    None if none was timed.

    Without the start of persistent workers: without the epoch that starts them, if
    there are others.
    """
    epochs = whole_epochs(trial.windows, trial.batches)
    start_s = 0.0
    if trial.settings.persistent_workers and len(epochs) > 1:
        epochs = epochs[1:]
    elif trial.settings.persistent_workers and epochs:
        start_s = starting_s(epochs[0][0], epochs[0])
    windows = [window for epoch in epochs for window in epoch]
    if not windows:
        return None
    elapsed_s = duration_s(windows) - start_s
    waits_s = sum(sum(window.wait_s) for window in windows) - start_s
    return Measured(
        elapsed_s / sum(window.batches for window in windows),
        waits_s / elapsed_s,
        is_of_epochs=True,
    )


def at_the_pace(trial: Trial) -> Measured | None:
    """The figures between the start and the end of an epoch; None if no window of these
    was timed."""
    figures = trial.measurement
    if figures is None or not any(map(is_steady, trial.windows)):
        return None
    if figures.batch_s is None or figures.stall_fraction is None:
        return None
    return Measured(figures.batch_s.value, figures.stall_fraction)


def is_steady(window: Window) -> bool:
    """Whether the window is between the start and the end of an epoch."""
    return window.kind is WindowKind.STEADY and not window.ended_epoch


def whole_epochs(windows: Iterable[Window], batches: int | None) -> list[Epoch]:
    """The windows of each epoch that was timed from its start to its end.

    Args:
        windows: Of a trial.
        batches: Of an epoch; None if unknown: then no epoch is known to be whole.
    """
    epochs: list[Epoch] = []
    epoch: list[Window] = []
    for window in windows:
        epoch = [window] if window.startup_s is not None else [*epoch, window]
        if window.ended_epoch and sum(part.batches for part in epoch) == batches:
            epochs.append(epoch)
    return epochs


def duration_s(windows: Iterable[Window]) -> float:
    """The seconds of windows together."""
    return sum(window.elapsed_s for window in windows)


def account_of_training(
    windows: Sequence[Window],
    lasted_s: float,
    loader: LoaderTime,
    others: Sequence[OtherLoader],
) -> Account:
    """Where the time of a training went.

    Args:
        windows: Of the training DataLoader; at least one.
        lasted_s: Seconds from the beginning of the first window on.
        loader: What it took of them.
        others: What other DataLoaders took of them.
    """
    others_s = sum(other.seconds for other in others)
    in_loop_s = duration_s(windows) + others_s + loader.dropped_s
    receive_s = sum(window.receive_cpu_s or 0.0 for window in windows)
    account = Account(
        step_s=sum(sum(window.step_s) for window in windows),
        making_s=0.0,
        sampler_s=sum(window.sampler_s for window in windows),
        main_s=receive_s if loader.workers else 0.0,
        starting_s=loader.starting_s,
        others=tuple(others),
        unseen_s=max(0.0, lasted_s - in_loop_s),
    )
    return account.lasting(lasted_s)
