"""Which windows a trial takes, on simulated loaders with a known truth."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.records import (
    LoaderSettings,
    Measurement,
    MeasureRules,
    TimeSlice,
    Window,
    WindowKind,
)
from nws_sweep.searching import slices
from nws_sweep.searching.candidate import Candidate, observation_of_candidate
from nws_sweep.searching.counters import all_windows
from nws_sweep.searching.estimates import Estimates, is_precise
from nws_sweep.searching.schedule import Conditions, next_request
from nws_sweep.searching.timing import Timing
from nws_sweep.trials.on_demand import OnDemandProcess, Turns
from tests import factories
from tests.fakes import FakeClock, FakeMachine, SimulatedLoader

RULES: dict[str, Any] = {"windows": 3, "window_s": 10.0, "trial_limit_s": 1000.0}


class Simulation:
    """A candidate on a simulated loader."""

    def __init__(
        self, num_workers: int, *, batches: int = 10_000, declared: int | None = -1, step_s: float = 0.0,
        rules: MeasureRules | None = None, **loader: Any,
    ) -> None:  # fmt: skip
        self.clock, length = FakeClock(), batches if declared == -1 else declared
        sizes = {
            "batch_size": loader.get("batch_size", 1),
            "prefetch_factor": loader.get("prefetch_factor", 2),
        }
        settings = LoaderSettings(num_workers=num_workers, **sizes).canonical()
        simulated = SimulatedLoader(
            self.clock, batches, **{"make_s": 1.0, "num_workers": num_workers, **loader}
        )
        self.machine = machine = FakeMachine(
            lambda _: simulated, length, self.clock, step_s
        )
        held = factories.configuration(measure=rules or MeasureRules(**RULES))
        self.rules = held.measure
        self.turns = Turns(0.0, math.inf)
        self.candidate = Candidate(
            OnDemandProcess(settings, held, machine.environment(), self.turns)
        )

    def stalled(self, window: Window) -> Window:
        """The window, in which the process has stalled."""
        next(iter(self.machine.running)).stall()
        return window

    def take_slice(self) -> None:
        slices.take_slice(self.candidate, len(self.candidate.slices), math.inf, None)

    def run(self, pause_s: float) -> tuple[list[Window], Measurement]:
        """A whole trial, with a pause between its time slices."""
        while not self.is_precise and not self.candidate.limit:
            self.take_slice()
            self.clock.advance(pause_s)
        return all_windows(self.candidate.slices), figures(
            self.candidate.slices, self.candidate.conditions
        )

    @property
    def is_precise(self) -> bool:
        observation = observation_of_candidate(self.candidate)
        if observation.cost_s is None:
            return False
        return is_precise(
            observation,
            Estimates({observation.settings: observation}, 0.03),
            self.rules,
        )


def simulate(
    num_workers: int, *, pause_s: float = 7.0, **changes: Any
) -> tuple[list[Window], Measurement]:
    return Simulation(num_workers, **changes).run(pause_s)


def kinds(windows: list[Window]) -> list[str]:
    return [window.kind.value for window in windows]


def figures(slices: Sequence[TimeSlice], conditions: Conditions) -> Measurement:
    found = Timing(slices, conditions).measurement()
    assert found is not None
    return found


def pace(found: Measurement) -> float:
    assert found.batch_s is not None
    return found.batch_s.value


@pytest.mark.parametrize("num_workers", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("step_s", [0.0, 0.1, 0.3, 2.0])
@pytest.mark.parametrize("prefetch_factor", [1, 2, 8])
def test_steady_time_is_the_slower_of_workers_and_step(
    num_workers: int, step_s: float, prefetch_factor: int
) -> None:
    """A steady batch takes max(m / n, y): n workers make a batch in m, the training
    step takes y."""
    windows, found = simulate(
        num_workers, step_s=step_s, prefetch_factor=prefetch_factor
    )
    assert pace(found) == pytest.approx(max(1.0 / num_workers, step_s), rel=0.02)
    assert {
        window.batches % num_workers
        for window in windows
        if window.kind is WindowKind.STEADY
    } == {0}


def test_without_workers_loader_and_training_step_add_up_and_no_batch_is_discarded_after_a_pause() -> (
    None
):
    windows, found = simulate(0, step_s=0.25)
    assert (pace(found), found.wait_s, found.step_s) == pytest.approx((1.25, 1.0, 0.25))
    assert found.stall_fraction == pytest.approx(0.8)
    assert kinds(windows[1:]) == ["warm_up", *["steady"] * (len(windows) - 2)]


# in the short epoch the start-up is measured twice
@pytest.mark.parametrize("batches", [60, 10_000])
def test_the_warm_up_of_a_fresh_epoch_covers_the_whole_queue(batches: int) -> None:
    """The queue holds 16 batches: the first ten would measure the queue only."""
    windows, _ = simulate(8, batches=batches)
    discarded = 0
    for window in windows[: kinds(windows).index("steady")]:
        discarded = window.batches + (0 if window.startup_s is not None else discarded)
    assert discarded >= 16


def test_batches_that_became_ready_before_a_slice_are_discarded() -> None:
    """16 batches are ready. Eight workers make a batch in 0.64 s each, 80 ms a batch;
    the ready batches take 0 s."""
    simulated = Simulation(8, make_s=0.64, rules=MeasureRules(window_s=0.5))
    simulated.take_slice()
    assert simulated.candidate.process.running
    simulated.candidate.process.running.resume()
    simulated.clock.advance(60.0)
    simulated.take_slice()
    *warm_up, last = simulated.candidate.slices[1].windows
    assert sum(window.batches for window in warm_up) >= 16
    alone = [simulated.candidate.slices[0], TimeSlice(windows=(last,))]
    assert pace(figures(alone, simulated.candidate.conditions)) == pytest.approx(0.08)


@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("num_workers", [1, 2, 8])
def test_samples_that_a_pause_completes_are_not_counted(
    num_workers: int, batch_size: int
) -> None:
    """A sleep continues during a pause: one sample of each worker takes no time."""
    _, found = simulate(
        num_workers,
        batch_size=batch_size,
        pause_s=60.0,
        rules=MeasureRules(window_s=2.0),
    )
    assert pace(found) == pytest.approx(1.0 / num_workers, rel=0.01)


def test_after_a_pause_one_multiple_is_discarded_or_the_whole_queue_without_counts() -> (
    None
):
    windows, _ = simulate(4)
    assert kinds(windows[:5]) == ["warm_up", "warm_up", "steady", "warm_up", "steady"]
    assert windows[3].batches == 4
    uncounted = Window(
        kind=WindowKind.STEADY,
        startup_s=1.0,
        wait_s=(1.0,) * 24,
        step_s=(0.0,) * 24,
        samples=24,
    )
    conditions = Simulation(4, prefetch_factor=5, declared=None).candidate.conditions
    request = next_request([uncounted], conditions, was_paused=True)
    assert (request.kind, request.min_batches) == (WindowKind.WARM_UP, 20)


@pytest.mark.parametrize("others_are_paused", [True, False])
def test_after_a_stall_the_time_slice_is_discarded_and_the_next_one_begins_an_epoch(
    others_are_paused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader is further in its epoch than the windows that are left say."""
    simulated = Simulation(4)
    monkeypatch.setattr(simulated.turns, "resume_others", lambda _: others_are_paused)
    simulated.take_slice()
    simulated.machine.distort = simulated.stalled
    simulated.take_slice()
    assert len(simulated.candidate.slices) == (1 if others_are_paused else 2)
    assert bool(simulated.candidate.notes) is others_are_paused
    simulated.machine.distort = lambda window: window
    simulated.take_slice()
    assert (
        simulated.candidate.slices[-1].windows[0].startup_s is not None
    ) is others_are_paused


def test_after_a_stall_of_persistent_workers_their_process_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise they would make the rest of their epoch first, in which nothing is
    timed."""
    simulated = Simulation(4)
    simulated.candidate.process.settings = replace(
        simulated.candidate.process.settings, persistent_workers=True
    )
    monkeypatch.setattr(simulated.turns, "resume_others", lambda _: True)
    simulated.machine.distort = simulated.stalled
    simulated.take_slice()
    simulated.take_slice()
    assert len(simulated.machine.opened) == 2


def test_windows_end_before_the_workers_run_out_of_work() -> None:
    rules = MeasureRules(windows=5, window_s=20.0, trial_limit_s=1000.0)
    windows, found = simulate(4, batches=200, start_s=5.0, rules=rules)
    position = 0
    for window in windows:
        position = (
            window.batches
            if window.startup_s is not None
            else position + window.batches
        )
        assert position <= 200 - 8
    # an epoch has room for two windows of 80
    assert sum(window.startup_s is not None for window in windows) == 3
    assert {window.kind for window in windows if window.startup_s is not None} == {
        WindowKind.WARM_UP
    }
    # the start-up is no batch
    assert (found.startup_s, pace(found)) == pytest.approx((6.0, 0.25))


@pytest.mark.parametrize(
    ("changes", "batches"),
    [
        # 10 s of warm-up after the first batch
        ({"window_s": 10.0, "trial_limit_s": 25.0}, [1, 10, 10, 10]),
        ({"window_s": 0.5, "trial_limit_s": 0.001}, [1, 1, 1]),  # at least one window
    ],
)
def test_after_the_limit_of_a_trial_no_window_starts(
    changes: dict[str, Any], batches: list[int]
) -> None:
    simulated = Simulation(0, rules=MeasureRules(windows=10, **changes))
    windows, _ = simulated.run(7.0)
    assert [window.batches for window in windows] == batches
    assert (
        simulated.candidate.limit
        == f"stopped at measure.trial_limit_s={changes['trial_limit_s']:g}"
    )


def test_an_epoch_without_room_for_warm_up_and_windows_is_measured_whole() -> None:
    """Its end counts, which windows do not reach."""
    whole, in_whole = simulate(4, batches=20, end_s=5.0)
    by_window, in_windows = simulate(4, batches=20, end_s=5.0, prefetch_factor=1)
    assert ({*kinds(whole)}, kinds(by_window)[0]) == ({"epoch"}, "warm_up")
    assert in_whole.epoch_s == pytest.approx(5.0 + 5.0)
    assert in_windows.epoch_s == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("rules", "first", "second"),
    [
        (MeasureRules(window_s=10.0), 2, 1),
        (MeasureRules(window_s=1.0), 1, 1),  # an epoch of 3 s
        (MeasureRules(window_s=10.0, mode="epoch"), 1, 1),  # epochs are counted
    ],
)
def test_after_the_epoch_that_starts_persistent_workers_a_short_one_is_timed_at_once(
    rules: MeasureRules, first: int, second: int
) -> None:
    """Four batches arrive each second, and workers start in 7 s: the first epoch shows
    no other one."""
    simulated = Simulation(4, batches=12, start_s=7.0, rules=rules)
    simulated.candidate.process.settings = replace(
        simulated.candidate.process.settings, persistent_workers=True
    )
    for _ in range(2):
        simulated.take_slice()
    epochs = [kinds([*time_slice.windows]) for time_slice in simulated.candidate.slices]
    assert epochs == [["epoch"] * first, ["epoch"] * second]


# 16 batches of 4 workers arrive at 1 s, 2 s, ..., 4 each: 0.25 s a batch. Those of 3
# workers arrive at 1, 1, 1, 2, 2, 2, ..., 5 s: the multiples of the workers after the
# first are steady.
@pytest.mark.parametrize(
    ("num_workers", "batches", "batch_s"), [(4, 16, 0.25), (3, 13, 1 / 3)]
)
def test_neither_the_first_multiple_nor_a_remainder_counts(
    num_workers: int, batches: int, batch_s: float
) -> None:
    _, found = simulate(num_workers, batches=batches)
    assert (pace(found), found.startup_s) == pytest.approx((batch_s, 1.0))


@pytest.mark.parametrize("batches", [4, 8, 15])
def test_a_batch_of_an_epoch_shorter_than_two_queues_takes_its_share_of_the_epoch(
    batches: int,
) -> None:
    _, found = simulate(4, batches=batches, end_s=0.5)
    assert found.epoch_s == pytest.approx(math.ceil(batches / 4) + 0.5)
    assert pace(found) == pytest.approx((math.ceil(batches / 4) + 0.5) / batches)


def test_a_window_is_at_most_as_long_as_an_epoch() -> None:
    """An epoch of 200 batches takes 0.8 s, a window should take 1 s."""
    windows, found = simulate(
        0, make_s=0.004, batches=200, rules=MeasureRules(windows=3, window_s=1.0)
    )
    assert {
        *[window.batches for window in windows if window.kind is WindowKind.STEADY][1:]
    } == {199}
    assert pace(found) == pytest.approx(0.004)


def test_a_short_epoch_is_measured_whole_once_its_time_is_known() -> None:
    """An epoch of 200 batches takes 0.2 s; the first one of the process does not
    count."""
    windows, found = simulate(
        2, make_s=0.002, batches=200, rules=MeasureRules(windows=3)
    )
    assert [(window.kind.value, window.batches) for window in windows[:3]] == [
        ("warm_up", 4), ("warm_up", 200), ("epoch", 200)
    ]  # fmt: skip
    assert pace(found) == pytest.approx(0.001, rel=0.02)


@pytest.mark.parametrize(
    ("num_workers", "batches", "declared"), [(2, 12, 1000), (8, 10, None)]
)
def test_an_epoch_shorter_than_declared_is_measured_whole(
    num_workers: int, batches: int, declared: int | None
) -> None:
    windows, _ = simulate(num_workers, batches=batches, declared=declared)
    assert kinds(windows)[-3:] == ["epoch"] * 3


def test_a_window_cut_short_by_the_end_of_an_epoch_of_unknown_length_does_not_count() -> (
    None
):
    rules = MeasureRules(windows=3, window_s=20.0, trial_limit_s=1000.0)
    windows, found = simulate(2, batches=100, declared=None, rules=rules)
    cut = [
        window
        for window in windows
        if window.kind is WindowKind.STEADY and window.ended_epoch
    ]
    assert cut
    assert found.batch_s is not None
    assert found.batch_s.n == kinds(windows).count("steady") - len(cut)
    assert sum(window.startup_s is not None for window in windows) == 1 + len(cut)


def test_mode_epoch_takes_its_epochs_only_for_any_length() -> None:
    rules = MeasureRules(mode="epoch", epochs=3, trial_limit_s=1.0)
    windows, found = simulate(2, batches=20, start_s=3.0, end_s=0.5, rules=rules)
    assert kinds(windows) == ["epoch"] * 3
    assert (found.startup_s, found.epoch_s) == pytest.approx((4.0, 13.5))
