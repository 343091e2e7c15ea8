"""Windows of an observation, by readings of clocks that a test makes."""

import math
from collections.abc import Callable, Sequence

import pytest

from nws_sweep.dataloading.recording import BatchLog
from nws_sweep.dataloading.windows import Moment
from nws_sweep.online.observation import TrainingTrial
from nws_sweep.records import BatchCost, BatchRecord, WindowKind
from tests.factories import loader_settings

WAIT_S, STEP_S, START_S = 0.03, 0.02, 0.5


class Log(BatchLog):
    """Has the records that a test gives."""

    def __init__(self) -> None:
        super().__init__(1)
        self.times.starts.add(0, 0.1)
        self.records: Sequence[BatchRecord] = ()

    def new(
        self,
        position_of: Callable[[int], float | None] = lambda number: None,
        *,
        has_ended: bool = False,
    ) -> tuple[BatchRecord, ...]:
        return tuple(self.records)


def observed(
    batches: int,
    step_s: Callable[[int], float] = lambda _: STEP_S,
    wait_s: float = WAIT_S,
    waited_s: float = math.inf,
) -> TrainingTrial:
    """Of a training that waits for the same time before each step; windows end as in a
    training."""
    seen, asked_s = TrainingTrial(loader_settings(1), batches_per_epoch=None), 100.0
    seen.begin(0, START_S, 0.0)
    for number in range(batches):
        seen.batches.asked(Moment(asked_s, 0.0, 0.0))
        if seen.ends_window:
            seen.cut()
        seen.given(Moment(asked_s + wait_s, 0.0, 0.0), None, waited_s=waited_s)
        asked_s += wait_s + step_s(number)
    return seen


def test_each_window_begins_when_its_first_batch_was_asked_for() -> None:
    first, *others = observed(60).windows
    assert first.began_s == pytest.approx(100 - START_S)
    assert len(others) > 3
    for before, after in zip([first, *others], others, strict=False):
        assert after.began_s == pytest.approx(
            before.began_s + sum(before.wait_s) + sum(before.step_s)
        )


@pytest.mark.parametrize("usual_s", [0.05, 0.2])
def test_a_validation_pass_is_not_the_length_of_a_step(usual_s: float) -> None:
    seen = observed(20, lambda number: 60.0 if number == 10 else usual_s)
    steps_s = [step_s for window in seen.windows for step_s in window.step_s]
    assert steps_s == pytest.approx([usual_s] * len(steps_s))


def test_a_longer_step_now_and_then_as_for_logging_is_a_step() -> None:
    seen = observed(60, lambda number: 0.15 if number % 20 == 19 else 0.005)
    assert max(
        step_s for window in seen.windows for step_s in window.step_s
    ) == pytest.approx(0.15)


def test_a_validation_pass_after_the_last_batch_is_no_step_either() -> None:
    """The last window of the epoch has this step only."""
    seen = observed(17, lambda _: 0.05)
    seen.batches.asked(Moment(200.0, 0.0, 0.0))
    seen.cut(200.0)
    assert seen.windows[-1].step_s == pytest.approx((0.05,))


def test_steps_of_a_loop_that_takes_eight_batches_at_once_are_no_pauses() -> None:
    seen = observed(40, lambda number: 0.8 if number % 8 == 7 else 1e-4)
    steps_s = [step_s for window in seen.windows for step_s in window.step_s]
    assert [step_s for step_s in steps_s if step_s > 0.1] == pytest.approx([0.8] * 4)


def test_batches_of_seconds_are_observed_until_enough_were_timed_and_not_for_a_minute_only() -> (
    None
):
    warming_up, seen = observed(10, lambda _: 10.0), observed(18, lambda _: 10.0)
    assert [window.kind for window in warming_up.windows] == [WindowKind.WARM_UP]
    assert (warming_up.is_long, warming_up.is_full) == (False, False)
    assert (seen.is_long, seen.is_full) == (True, False)


def test_an_epoch_whose_end_is_never_requested_is_timed_whole() -> None:
    seen = TrainingTrial(loader_settings(8), batches_per_epoch=5)
    seen.begin(0, START_S, 0.0, log=Log())
    for number in range(5):
        seen.batches.asked(Moment(100.0 + number, 0.0, 0.0))
        seen.given(Moment(100.8 + number, 0.0, 0.0), None, is_last=number == 4)
    assert seen.leave_epoch(Moment(300.0, 0.0, 0.0))
    (window,) = seen.windows
    assert (window.kind, window.worker_start) == (WindowKind.EPOCH, BatchCost(0.1, 0.0))
    assert window.step_s == pytest.approx([0.2] * 5)
    assert not seen.leave_epoch(Moment(301.0, 0.0, 0.0))


def test_the_last_window_of_an_epoch_that_is_left_counts_with_a_step_as_usual() -> None:
    """Saving, which may follow, is no step. After an only batch all is its step,
    without other loaders."""
    seen = observed(3)
    assert not seen.leave_epoch(Moment(200.0, 0.0, 0.0))
    assert seen.windows[0].step_s == pytest.approx([STEP_S] * 3)
    single = observed(1)
    single.leave_epoch(Moment(101.0 + WAIT_S, 0.0, 0.0, others_s=0.25))
    assert single.windows[0].step_s == pytest.approx([0.75])


def test_epochs_that_are_left_without_end_do_not_fill_the_memory() -> None:
    seen = TrainingTrial(loader_settings(1), batches_per_epoch=None)
    for _ in range(700):
        seen.begin(0, START_S, 0.0)
        seen.batches.asked(Moment(100.0, 0.0, 0.0))
        seen.given(Moment(100.5, 0.0, 0.0), None)
        seen.leave_epoch(Moment(101.0, 0.0, 0.0))
    assert len(seen.windows) == 600


def test_a_step_on_an_accelerator_goes_on_while_the_host_waits() -> None:
    """The host is back after 2 ms and waits for 48; the device works for 40 ms of
    them."""
    seen = observed(40, lambda _: 0.002, wait_s=0.048, waited_s=0.008)
    # the last step of the last one goes on
    later = [window for window in seen.windows if window.counts][:-1]
    assert sum(window.batches for window in later) > 10
    for before, window in zip(seen.windows, later, strict=False):
        assert window.wait_s == pytest.approx([0.008] * window.batches)
        assert window.step_s == pytest.approx([0.042] * window.batches)
        assert window.began_s == pytest.approx(before.began_s + before.elapsed_s)


def test_a_look_in_the_middle_of_an_epoch_has_records_of_its_own_batches() -> None:
    seen = TrainingTrial(loader_settings(1), batches_per_epoch=100)
    log = Log()
    seen.begin(40, 0.0, 0.0, earlier_batches=30, log=log)
    for number in range(6):
        seen.batches.asked(Moment(100 + number, 0.0, 0.0))
        seen.given(Moment(100.5 + number, 0.0, 0.0), None)
    seen.batches.asked(Moment(107.0, 0.0, 0.0))
    log.records = [
        BatchRecord(number=n, began_s=0.0, ended_s=0.0, cost=BatchCost(0.0, 0.5))
        for n in (31, 32)
    ]
    seen.cut()
    assert [(record.number, record.position) for record in seen.windows[0].records] == [
        (1, 0.41),
        (2, 0.42),
    ]


def test_without_workers_the_waits_of_the_process_are_the_costs_of_batches() -> None:
    """The first batch contains the start."""
    seen = TrainingTrial(loader_settings(0), batches_per_epoch=100)
    seen.begin(40, 0.0, 0.0)
    for number in range(7):
        seen.batches.asked(Moment(100 + number, 0.0, 0.0))
        if number in (3, 6):
            seen.cut()
        seen.given(Moment(100.5 + number, 0.0, 0.0), None)
    records = [record for window in seen.windows for record in window.records]
    assert [(record.number, record.position) for record in records] == [
        (n, (40 + n) / 100) for n in range(1, 6)
    ]
    assert {record.cost for record in records} == {BatchCost(cpu_s=0.0, wait_s=0.5)}


def trained(
    seen: TrainingTrial, batches: int, wait_s: float = WAIT_S, began_s: float = 100.0
) -> None:
    """An epoch to its end."""
    seen.begin(0, START_S, 0.0)
    asked_s = began_s
    for _ in range(batches):
        seen.batches.asked(Moment(asked_s, 0.0, 0.0))
        if seen.ends_window:
            seen.cut()
        seen.given(Moment(asked_s + wait_s, 0.0, 0.0), None)
        asked_s += wait_s + STEP_S
    seen.batches.asked(Moment(asked_s, 0.0, 0.0))
    if seen.ends_window:
        seen.cut()
    seen.cut(asked_s + 0.25)


def test_records_of_a_worker_that_had_more_than_others_are_kept_though_the_last_window_is_empty() -> (
    None
):
    seen, log = TrainingTrial(loader_settings(2), batches_per_epoch=None), Log()
    seen.begin(0, START_S, 0.0, log=log)
    for number in range(8):
        seen.batches.asked(Moment(100.0 + number, 0.0, 0.0))
        seen.given(Moment(100.5 + number, 0.0, 0.0), None)
    seen.batches.asked(Moment(108.0, 0.0, 0.0))
    numbers = range(0, 12, 2)
    records = [
        BatchRecord(number=n, began_s=0.0, ended_s=0.5, cost=BatchCost(0.0, 0.5))
        for n in numbers
    ]
    log.records = records[:4]
    seen.cut()
    log.records = records[4:]
    seen.cut(108.25)
    assert [record.number for window in seen.windows for record in window.records] == [
        *numbers
    ]


def test_what_looking_at_a_window_takes_is_in_no_window() -> None:
    seen = TrainingTrial(loader_settings(1), batches_per_epoch=None)
    calls_s = 0.0
    for epoch_s in (100.0, 200.0):
        seen.begin(0, START_S, 0.0)
        for number in range(3):
            seen.batches.asked(Moment(epoch_s + number, 0.0, 0.0, calls_s=calls_s))
            seen.batches.asked(
                Moment(epoch_s + number + 0.25, 0.0, 0.0, calls_s=calls_s)
            )
            seen.given(Moment(epoch_s + number + 0.5, 0.0, 0.0, calls_s=calls_s), None)
            calls_s += 0.125  # until the call returns
        seen.batches.asked(Moment(epoch_s + 3.0, 0.0, 0.0, calls_s=calls_s))
        assert sum(seen.batches.wait_s) == pytest.approx(START_S + 3 * 0.25)
        assert seen.batches.step_s == [0.375] * 3
        seen.cut()
    assert seen.batches.watching_s == 6 * (0.25 + 0.125)


@pytest.mark.parametrize("length", [None, 16])
def test_epochs_that_end_before_a_window_counts_are_timed_whole(
    length: int | None,
) -> None:
    seen = TrainingTrial(loader_settings(1), batches_per_epoch=length)
    trained(seen, 16, wait_s=0.001)
    trained(seen, 16, wait_s=0.001, began_s=200.0)
    assert [window.kind for window in seen.windows] == [WindowKind.EPOCH] * 2
    assert [sum(window.batches for window in epoch) for epoch in seen.whole_epochs] == [
        16,
        16,
    ]
    assert seen.suffices


@pytest.mark.parametrize("batches", range(14, 30))
def test_an_epoch_in_windows_is_as_long_as_the_clock_says_wherever_the_last_window_ends(
    batches: int,
) -> None:
    seen = TrainingTrial(loader_settings(1), batches_per_epoch=batches)
    trained(seen, batches)
    ((*windows, last),) = seen.whole_epochs
    assert last.ended_epoch
    elapsed_s = sum(window.elapsed_s for window in (*windows, last))
    assert elapsed_s == pytest.approx(START_S + batches * (WAIT_S + STEP_S) + 0.25)
