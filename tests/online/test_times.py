"""What was measured of settings in a training: whole epochs with whole epochs, a pace
with a pace."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from nws_sweep.online import texts
from nws_sweep.online.loader_clock import LoaderTime
from nws_sweep.online.times import Measured, account_of_training, times_of
from nws_sweep.records import BatchCost, OtherLoader, Part, Trial, Window, WindowKind
from tests import factories
from tests.factories import estimate, loader_settings, measurement, recorded_trial

PACE = Measured(0.25, 0.75)


def epoch(batch_s: float, batches: int = 4) -> list[Window]:
    """A warm-up and the rest of an epoch, a quarter of it waiting."""
    halves = [
        factories.window(WindowKind.WARM_UP, batches // 2),
        factories.window(WindowKind.STEADY, batches // 2),
    ]
    waits, steps = (
        (0.25 * batch_s,) * (batches // 2),
        (0.75 * batch_s,) * (batches // 2),
    )
    first, last = (replace(half, wait_s=waits, step_s=steps) for half in halves)
    return [replace(first, startup_s=waits[0]), replace(last, end_s=0.0)]


def trial_with(
    num_workers: int, windows: Sequence[Window], *, persistent_workers: bool = False
) -> Trial:
    figures = measurement(
        1.0, batch_s=estimate(PACE.batch_s), stall_fraction=PACE.waiting_share
    )
    settings = loader_settings(num_workers, persistent_workers=persistent_workers)
    trial = recorded_trial(num_workers, BatchCost(0.0, 0.1))
    return replace(
        trial, settings=settings, measurement=figures, windows=tuple(windows), batches=4
    )


def test_whole_epochs_count_where_all_settings_have_some() -> None:
    first, second = trial_with(1, [*epoch(1.0), *epoch(2.0)]), trial_with(2, epoch(0.5))
    times = times_of([first, second])
    assert times.measured == {
        first.settings: Measured(1.5, 0.25, True),
        second.settings: Measured(0.5, 0.25, True),
    }
    assert (times.unit, times.text(1.5)) == ("an epoch", "6.00 s")


def test_a_single_epoch_counts_without_the_start_of_workers_that_persist() -> None:
    first, last = epoch(1.0)
    began = factories.batch_record(0, BatchCost(0.0, 0.1), began_s=0.2)
    first = replace(first, records=(began,))
    once, again = (
        trial_with(2, windows, persistent_workers=True)
        for windows in ([first, last], [first, last, *epoch(0.5)])
    )
    (measured,) = times_of([once]).measured.values()
    assert measured.batch_s == pytest.approx(0.95)
    assert measured.waiting_share == pytest.approx(0.8 / 3.8)
    (later,) = times_of([again]).measured.values()
    assert later.batch_s == 0.5


def test_a_pace_is_compared_with_a_pace_and_with_nothing_else() -> None:
    steady = factories.window(WindowKind.STEADY, 4)
    both, pace = trial_with(1, [*epoch(1.0), steady]), trial_with(2, [steady])
    times = times_of([both, pace])
    assert times.measured == {both.settings: PACE, pace.settings: PACE}
    assert (times.unit, times.text(0.25)) == ("a batch", "250 ms")
    assert not times.is_mixed


def test_an_epoch_too_short_for_a_pace_beside_settings_left_within_an_epoch_is_said_to_be_one() -> (
    None
):
    steady = factories.window(WindowKind.STEADY, 4)
    pace, short = trial_with(2, [steady]), trial_with(4, epoch(0.125))
    times = times_of([pace, short])
    assert times.is_mixed


def test_of_settings_that_have_both_the_whole_epochs_count_beside_a_mixture() -> None:
    """Else the pace would wait for a whole epoch to compare with, for ever; a text
    names what it compares only."""
    steady = factories.window(WindowKind.STEADY, 4)
    pace, short, both = (
        trial_with(2, [steady]),
        trial_with(4, epoch(0.125)),
        trial_with(8, [*epoch(0.0625), steady]),
    )
    times = times_of([pace, short, both])
    assert times.measured[both.settings].is_of_epochs
    assert texts.took(times, short.settings, both.settings) == (
        "a batch took 125 ms with num_workers=4"
    )


@pytest.mark.parametrize(
    "windows",
    [[], epoch(1.0)[1:], epoch(1.0, 2), [factories.window(WindowKind.WARM_UP, 4)]],
)
def test_what_was_not_measured_is_unknown(windows: Sequence[Window]) -> None:
    """The end of an epoch, a shorter epoch, a warm-up."""
    assert not times_of([trial_with(1, windows)]).measured


@pytest.mark.parametrize(("persistent_workers", "batch_s"), [(False, 2.0), (True, 1.0)])
def test_the_epoch_that_starts_persistent_workers_does_not_count_beside_others(
    persistent_workers: bool, batch_s: float
) -> None:
    trial = trial_with(
        1, [*epoch(3.0), *epoch(1.0)], persistent_workers=persistent_workers
    )
    assert times_of([trial]).batch_s == {trial.settings: batch_s}


def test_the_account_of_a_training_has_each_second_once() -> None:
    """A validation, and 2 s that nothing explains, are in the epoch."""
    windows = [
        factories.window(WindowKind.WARM_UP, 2, startup_s=1.0, began_s=10.0, wait_s=(1.0, 0.5), step_s=(0.25, 0.25)),
        factories.window(
            WindowKind.STEADY, 2, wait_s=(0.5, 0.5), step_s=(0.25, 0.25), sampler_s=0.5,
            receive_cpu_s=0.125, end_s=0.25,
        ),
    ]  # fmt: skip
    validation = OtherLoader(name="Val", seconds=3.0)
    loader = LoaderTime(workers=2, starting_s=1.0)
    account = account_of_training(windows, 8.75, loader, [validation])
    assert account.total_s == 8.75
    assert account.seconds == pytest.approx({
        Part.OTHERS: 3.0, Part.UNSEEN: 2.0, Part.MAKING: 1.125, Part.STEP: 1.0, Part.STARTING: 1.0, Part.SAMPLER: 0.5,
        Part.MAIN: 0.125,
    })  # fmt: skip
    left = account_of_training(
        windows,
        8.75,
        LoaderTime(workers=2, starting_s=2.5, dropped_s=1.5),
        [validation],
    )
    changed_s = {part: left.seconds[part] - account.seconds[part] for part in Part}
    assert changed_s == {
        **dict.fromkeys(Part, 0.0),
        Part.STARTING: 1.5,
        Part.UNSEEN: -1.5,
    }
