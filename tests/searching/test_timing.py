"""Quantities of trials against values computed by hand and simulations with a known
truth."""

from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.records import (
    Account,
    BatchCost,
    LoaderSettings,
    MachineTime,
    Measurement,
    MeasureRules,
    TimeSlice,
    Usage,
    Window,
    WindowKind,
)
from nws_sweep.searching.counters import came_from_storage, noise_of
from nws_sweep.searching.rows import Figures
from nws_sweep.searching.schedule import Conditions
from nws_sweep.searching.timing import Timing
from tests import factories
from tests.searching.test_schedule import figures, pace, simulate


def conditions(
    num_workers: int = 4, batches: int | None = None, **rules: Any
) -> Conditions:
    settings = LoaderSettings(batch_size=8, num_workers=num_workers).canonical()
    return Conditions(
        settings=settings,
        rules=MeasureRules(**rules),
        batches_per_epoch=batches,
        cores=2.0,
    )


def window(
    kind: WindowKind = WindowKind.STEADY,
    batches: int = 8,
    batch_s: float = 0.25,
    **changes: Any,
) -> Window:
    """Each batch of 8 samples waits 0.25 s, and the training step takes 0.25 s."""
    samples = 8 * batches
    defaults = {
        "wait_s": (batch_s,) * batches,
        "step_s": (0.25,) * batches,
        "samples": samples,
        "produced": samples,
    }
    return factories.window(kind, batches, **{**defaults, **changes})


START = TimeSlice(windows=(window(WindowKind.WARM_UP, startup_s=1.0),))


def slices(*windows: Window) -> list[TimeSlice]:
    return [
        START,
        *(
            TimeSlice(windows=(each,), round=number)
            for number, each in enumerate(windows)
        ),
    ]


def waiting(*means_s: float, **changes: Any) -> list[TimeSlice]:
    """Windows of 8 batches without a training step."""
    return slices(
        *(window(batch_s=mean_s, step_s=(0.0,) * 8, **changes) for mean_s in means_s)
    )


def measured(*windows: Window, num_workers: int = 4) -> Measurement:
    return figures(slices(*windows), conditions(num_workers))


@pytest.mark.parametrize(
    ("windows", "batch_s", "bias_bound"),
    [
        # The batches taken differ from window to window, the samples made hardly do.
        (
            [
                window(batches=4, produced=60),
                window(batches=12, produced=70),
                window(produced=70),
            ],
            12.0 / 25,
            1 / 24,
        ),
        # The queue fills: a slow training step, or batches behind a slow batch.
        ([window(produced=80), window(produced=72), window(produced=80)], 0.5, 5 / 24),
        ([window(produced=80)], 0.5, 2 / 8),
        # The queue empties: 4 batches made while 8 were taken.
        ([window(batch_s=0.0, produced=32)] * 2, 0.5, 1 / 2),
        # Without counts the queue may have changed from full to empty.
        ([window(produced=None)] * 2, 0.5, 8 / 16),
    ],
)
def test_the_pace_is_of_the_slower_end_of_the_queue(
    windows: list[Window], batch_s: float, bias_bound: float
) -> None:
    found = measured(*windows)
    assert pace(found) == pytest.approx(batch_s)
    assert found.bias_bound == pytest.approx(bias_bound)


def test_waits_and_training_step_add_up_to_the_pace() -> None:
    # 10 batches made in 8 s, 16 taken
    found = measured(window(produced=40), window(produced=40))
    assert (found.wait_s, found.step_s, found.stall_fraction) == pytest.approx(
        (0.55, 0.25, 0.6875)
    )
    assert measured(window(produced=None), num_workers=0).bias_bound == 0.0


@pytest.mark.parametrize(
    ("kind", "batch_size", "counted", "length"),
    [
        # counted were the channels of the first image of each batch
        (WindowKind.STEADY, 8, 24, 8.0),
        (WindowKind.STEADY, 8, 640, 8.0),  # the steps of sequences
        (WindowKind.STEADY, None, 48, 6.0),
        (WindowKind.EPOCH, 8, 58, 7.25),  # the last batch has 2 samples
        # at least, as if each of 4 workers had a stream with a shorter last batch
        (WindowKind.EPOCH, 8, 24, 4.0),
    ],
)
def test_samples_are_those_that_the_dataloader_puts_into_batches(
    kind: WindowKind, batch_size: int | None, counted: int, length: float
) -> None:
    settings = replace(conditions().settings, batch_size=batch_size)
    found = figures(
        slices(window(kind, samples=counted, produced=None)),
        replace(conditions(), settings=settings),
    )
    assert (found.samples_per_s or 0.0) * pace(found) == pytest.approx(length)


@pytest.mark.parametrize("num_workers", [0, 1, 3, 8])
@pytest.mark.parametrize("step_s", [0.0, 0.05, 0.3, 2.0])
@pytest.mark.parametrize("batches", [96, 397])
def test_the_projected_epoch_is_that_of_a_stopwatch(
    num_workers: int, step_s: float, batches: int
) -> None:
    """Up to the time of one batch: at the end of an epoch some workers are idle."""
    _, projected = simulate(num_workers, step_s=step_s, batches=batches, start_s=2.0)
    whole = MeasureRules(mode="epoch")
    _, stopped = simulate(
        num_workers, step_s=step_s, batches=batches, start_s=2.0, rules=whole
    )
    assert projected.epoch_s
    assert stopped.epoch_s
    assert abs(projected.epoch_s - stopped.epoch_s) <= 1.0 + 0.02 * stopped.epoch_s
    if not num_workers or batches % num_workers == 0:
        assert projected.epoch_s == pytest.approx(stopped.epoch_s, rel=0.03)


def epoch_start(startup_s: float, **changes: Any) -> TimeSlice:
    """A time slice that starts an epoch; its first 8 batches arrive together."""
    first = {"wait_s": (startup_s,) + (0.0,) * 7, "step_s": (0.0,) * 8, **changes}
    return TimeSlice(
        windows=(window(WindowKind.WARM_UP, startup_s=startup_s, **first),)
    )


def test_the_start_of_an_epoch_is_the_mean_of_all_starts_but_the_first() -> None:
    starts = [
        epoch_start(9.0),
        epoch_start(4.0, stop_s=0.25),
        epoch_start(2.0, stop_s=0.75),
    ]
    found = figures([*starts, *slices(window())[1:]], conditions(batches=100))
    # the workers of the epochs that were left ended in 0.5 s
    assert found.epoch_s == 3.0 + 92 * 0.5 + 0.5
    assert measured(window()).epoch_s is None  # of unknown length


def test_the_account_of_an_epoch_adds_up_to_it() -> None:
    """The epoch begins with 4 s, of which the sampler takes 1 s; of 8 batches of a
    window it takes 0.5 s."""
    record = factories.batch_record(0, BatchCost(0.0, 0.1), began_s=3.5, ended_s=3.6)
    start = epoch_start(4.0, sampler_s=1.5, records=(record,))
    steady = window(sampler_s=0.5, receive_cpu_s=1.0)
    measured = figures([start, *slices(steady)[1:]], conditions(batches=100))
    account, epoch_s = measured.account, measured.epoch_s
    assert account
    assert epoch_s
    assert account.total_s == pytest.approx(epoch_s)
    assert (account.step_s, account.sampler_s, account.main_s) == pytest.approx(
        (25.0, 6.25 + 1.0, 12.5)
    )
    assert account.starting_s == pytest.approx(2.0 + epoch_s - 4.0 - 92 * 0.5)
    assert figures(slices(steady), conditions()).account == Account(
        step_s=0.25, making_s=0.0625, sampler_s=0.0625, main_s=0.125
    )  # of a batch


def test_the_first_step_of_a_process_is_not_a_part_of_an_epoch() -> None:
    """It takes 30 s: a compiler, or the context of a device. Others of the start take
    0.25 and 0.5 s."""
    usual, first = (
        window(WindowKind.WARM_UP, startup_s=1.0, step_s=(a_s, *(0.25,) * 6, 0.5))
        for a_s in (0.5, 30.0)
    )
    epochs_s = [
        figures(
            [TimeSlice(windows=(one,)), *waiting(0.25)[1:]], conditions(4, 100)
        ).epoch_s
        for one in (usual, first)
    ]
    assert epochs_s[0] == epochs_s[1]
    whole = TimeSlice(
        windows=(replace(first, kind=WindowKind.EPOCH, end_s=0.0),), round=0
    )
    timing = Timing([whole], conditions(4, 8, mode="epoch"))
    assert timing.paces_s == {0: (timing.epoch_s or 0.0) / 8}
    later = [START, TimeSlice(windows=(window(),)), TimeSlice(windows=(first,))]
    assert (figures(later, conditions(4, 100)).epoch_s or 0.0) > 30.0


def persistent(batches: int, **rules: Any) -> Conditions:
    settings = LoaderSettings(batch_size=8, num_workers=4, persistent_workers=True)
    return replace(conditions(batches=batches, **rules), settings=settings)


@pytest.mark.parametrize(
    ("starts_s", "epochs", "expected"),
    [
        ((4.0, 2.0, 2.0), 1, 48.2), ((4.0, 2.0, 2.0), 2, 49.0), ((4.0, 2.0, 2.0), 10, 48.2),
        # 100 batches at the steady pace take 50 s
        ((14.0,), 2, 55.0), ((14.0,), 10, 51.0),
    ],
)  # fmt: skip
def test_the_start_of_persistent_workers_is_shared_by_the_epochs(
    starts_s: tuple[float, ...], epochs: int, expected: float
) -> None:
    """Only the first of the epochs starts workers, for any number of measured epochs;
    one epoch stands for ten."""
    found = figures(
        [*map(epoch_start, starts_s), *slices(window())[1:]],
        persistent(100, epochs=epochs),
    )
    assert found.epoch_s == pytest.approx(expected)


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        (
            [
                (WindowKind.EPOCH, 14.0),
                (WindowKind.EPOCH, 4.0),
                (WindowKind.EPOCH, 6.0),
            ],
            {1: 4.0, 2: 6.0},
        ),
        # The first epoch ended in the warm-up: the length of a stream was unknown.
        (
            [
                (WindowKind.WARM_UP, 14.0),
                (WindowKind.EPOCH, 4.0),
                (WindowKind.EPOCH, 6.0),
            ],
            {1: 4.0, 2: 6.0},
        ),
        ([(WindowKind.EPOCH, 14.0)], {0: 14.0}),
    ],
)
def test_rounds_differ_by_later_epochs_of_persistent_workers(
    taken: list[tuple[WindowKind, float]], expected: dict[int, float]
) -> None:
    """Of ten epochs the first one takes 14 s and the others 5 s: the mean is 5.9 s, of
    which rounds show 5 s."""
    each_s = [
        (kind, window(kind, batch_s=s / 8, step_s=(0.0,) * 8, startup_s=s / 8))
        for kind, s in taken
    ]
    rounds = [
        TimeSlice(windows=(one,), round=number)
        for number, (_, one) in enumerate(each_s)
    ]
    timing = Timing(rounds, persistent(8, epochs=10))
    assert {
        number: 8 * pace_s for number, pace_s in timing.paces_s.items()
    } == pytest.approx(expected)
    if len(expected) > 1:
        assert (timing.epoch_s, timing.paced_share) == pytest.approx((5.9, 5 / 5.9))
        assert 8 * (timing.batch_s or 0.0) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("num_workers", "drop_last", "waits_s", "samples", "batch_s", "rate"),
    [
        # no full batch without the start is left
        (0, False, (0.08, 0.01), 9, 0.045, 100.0),
        (0, False, (0.08, 0.08, 0.01), 17, 0.08, 100.0),
        (0, True, (0.16, 0.08), 16, 0.08, 100.0),
        (2, False, (0.08, 0.0) * 4, 57, 0.04, 200.0),
    ],
)
def test_the_shorter_last_batch_of_an_epoch_is_not_a_part_of_the_steady_pace(
    num_workers: int,
    drop_last: bool,
    waits_s: tuple[float, ...],
    samples: int,
    batch_s: float,
    rate: float,
) -> None:
    """A sample takes a worker 10 ms."""
    held = conditions(num_workers, len(waits_s))
    held = replace(held, settings=replace(held.settings, drop_last=drop_last))
    none = (0.0,) * len(waits_s)
    whole = window(
        WindowKind.EPOCH,
        len(waits_s),
        wait_s=waits_s,
        step_s=none,
        samples=samples,
        startup_s=waits_s[0],
        end_s=0.0,
    )
    found = figures([TimeSlice(windows=(whole,))], held)
    assert (pace(found), found.samples_per_s) == pytest.approx((batch_s, rate))


def test_the_start_of_a_second_epoch_does_not_replace_the_first_one_that_was_measured_whole() -> (
    None
):
    whole = window(
        WindowKind.EPOCH,
        batches=100,
        batch_s=0.1,
        step_s=(0.0,) * 100,
        startup_s=1.0,
        produced=800,
    )
    found = figures(
        [TimeSlice(windows=(whole,)), epoch_start(30.0)], conditions(batches=100)
    )
    assert found.epoch_s == pytest.approx(10.0)


# CPU time, memory, bytes from storage.


def used(
    cpu_s: float,
    memory: int | None = None,
    disk: int | None = None,
    shm: int | None = None,
) -> Usage:
    return Usage(
        cpu_s=cpu_s,
        memory_bytes=memory,
        added_bytes=memory,
        disk_bytes=disk,
        shm_bytes=shm,
    )


def using(cpu_s: float, *windows: Window, elapsed_s: float = 4.0) -> TimeSlice:
    return TimeSlice(windows=windows, after=used(cpu_s), elapsed_s=elapsed_s, round=0)


def test_cpu_time_and_bytes_from_disk_are_per_batch_made_and_exclude_the_start() -> (
    None
):
    taken = [
        TimeSlice(
            windows=START.windows, before=used(0.0, disk=0), after=used(9.0, disk=9000)
        ),
        TimeSlice(
            windows=(window(produced=80),),
            before=used(9.0, disk=9000),
            after=used(14.0, disk=9000),
        ),
        TimeSlice(
            windows=(window(produced=80),),
            before=used(14.0, disk=9000),
            after=used(19.0, disk=9600),
        ),
    ]
    found = figures(taken, conditions())
    assert (found.cpu_s, found.disk_bytes) == (0.5, 30.0)


@pytest.mark.parametrize(("produced", "batches", "cpu_s"), [(64, 8, 0.5), (2, 1, 4.0)])
def test_in_a_single_slice_the_start_counts_and_a_short_batch_is_one(
    produced: int, batches: int, cpu_s: float
) -> None:
    epoch = window(WindowKind.EPOCH, batches=batches, startup_s=0.25, produced=produced)
    assert figures([using(4.0, epoch)], conditions()).cpu_s == cpu_s


def test_missing_counters_give_none_and_no_reads_give_zero() -> None:
    found = measured(window())
    assert [
        found.cpu_s,
        found.memory_bytes,
        found.shm_bytes,
        found.memory_growth_bytes,
        found.disk_bytes,
    ] == [None] * 5
    quiet = TimeSlice(
        windows=(window(),), before=used(0, disk=7), after=used(1, disk=7)
    )
    assert figures([START, quiet], conditions()).disk_bytes == 0.0


@pytest.mark.parametrize(
    ("num_workers", "is_persistent", "memory_bytes"),
    [(4, False, None), (4, True, 500), (0, False, 500)],
)
def test_memory_is_unknown_if_the_workers_have_ended_before_it_is_read(
    num_workers: int, is_persistent: bool, memory_bytes: int | None
) -> None:
    epoch = window(WindowKind.EPOCH, startup_s=0.25, end_s=0.125)
    settings = LoaderSettings(
        batch_size=8, num_workers=num_workers, persistent_workers=is_persistent
    )
    measured_in = replace(conditions(), settings=settings)
    taken = TimeSlice(windows=(epoch,), after=used(1.0, 500))
    assert figures([taken], measured_in).memory_bytes == memory_bytes


@pytest.mark.parametrize(
    ("memory", "growth_bytes"),
    [([500, 100, 108, 116], 1000.0), ([500, 100, 108], None)],
)
def test_memory_is_the_most_seen_and_growth_is_after_the_start(
    memory: list[int], growth_bytes: float | None
) -> None:
    """8 bytes in each time slice of 8 batches; no slope below three points."""
    taken = [
        TimeSlice(
            windows=(window(startup_s=0.1 if index == 0 else None),),
            after=used(1.0, held, shm=held // 100),
        )
        for index, held in enumerate(memory)
    ]
    found = figures(taken, conditions())
    assert (found.memory_bytes, found.shm_bytes) == (500, 5)
    assert found.memory_growth_bytes == (growth_bytes and pytest.approx(growth_bytes))


@pytest.mark.parametrize(
    ("read_bytes", "faults", "expected"),
    [
        (2**20, 0, False),  # of libraries
        (2**20 + 1, 0, True),
        (27_000_000, 4, True),  # of mapped files
    ],
)
def test_a_slice_is_from_storage_if_it_read_more_than_the_program(
    read_bytes: int, faults: int, expected: bool
) -> None:
    before = Usage(cpu_s=0, disk_bytes=10, major_faults=2)
    after = Usage(cpu_s=0, disk_bytes=10 + read_bytes, major_faults=2 + faults)
    assert (
        came_from_storage(TimeSlice(windows=(window(),), before=before, after=after))
        is expected
    )
    assert not came_from_storage(TimeSlice(windows=(window(),)))


# Whether a trial is possible: 8 batches of 0.5 s on two CPUs, with a margin of 5 %.


EPOCH = window(WindowKind.EPOCH, startup_s=0.25, end_s=4.0)


@pytest.mark.parametrize(
    ("taken", "half_width", "possible"),
    [
        ([using(8.3, window())], None, True),
        ([using(8.5, window())], None, False),
        # Without an interval the slowest round is compared: the CPU time may be its
        # own.
        ([using(12.0, window()), using(12.0, window(batch_s=0.75))], None, True),
        ([using(17.0, window()), using(17.0, window(batch_s=0.75))], None, False),
        # With an interval its upper end is compared.
        ([using(8.8, window(batch_s=each)) for each in (0.24, 0.25, 0.26)], 0.1, True),
        (
            [using(10.0, window(batch_s=each)) for each in (0.24, 0.25, 0.26)],
            0.1,
            False,
        ),
        # In the 2 s outside the window two CPUs may have spent 4 s.
        ([using(12.3, window(), elapsed_s=6.0)], None, True),
        ([using(12.5, window(), elapsed_s=6.0)], None, False),
        # Starts and ends of workers take CPU time, which no batch needs.
        ([using(99.0, *START.windows, window())], None, True),
        ([using(99.0, window(end_s=0.5))], None, True),
        # Whole epochs include start and end in both figures: 8 s.
        ([using(16.7, EPOCH, elapsed_s=8.0)], None, True),
        ([using(17.0, EPOCH, elapsed_s=8.0)], None, False),
        ([START], None, True),
    ],
)
def test_a_batch_takes_at_least_its_cpu_time_on_all_usable_cpus(
    taken: list[TimeSlice], half_width: float | None, possible: bool
) -> None:
    assert (
        Figures((START, *taken), conditions()).impossible(half_width) == ""
    ) is possible


@pytest.mark.parametrize(
    ("usual_s", "epoch_s"),
    [
        # 4 s of start, then 10 s until the first batch, and 92 batches of 0.5 s
        (99.0, (60.0 + 9 * 56.0) / 10),
        # of these 10 s a worker needs 8 s only once
        (2.0, (60.0 + 9 * 52.0) / 10),
    ],
)
def test_a_later_epoch_waits_for_its_first_batch_but_not_for_what_is_done_once(
    usual_s: float, epoch_s: float
) -> None:
    records = (
        factories.batch_record(0, BatchCost(0.0, 10.0), began_s=4.0),
        factories.batch_record(4, BatchCost(0.0, usual_s)),
    )
    start = epoch_start(14.0, records=records)
    found = figures([start, *slices(window())[1:]], persistent(100))
    assert found.epoch_s == pytest.approx(epoch_s)
    assert found.startup_s == 14.0


@pytest.mark.parametrize(("later_s", "possible"), [(12.5, True), (13.0, False)])
def test_the_start_of_workers_that_persist_is_in_no_later_epoch(
    later_s: float, possible: bool
) -> None:
    """The epoch with their start takes 99 s of CPU time, later epochs of 6 s some."""
    first, later = replace(EPOCH), window(WindowKind.EPOCH, startup_s=0.25, end_s=2.0)
    epochs_of_8 = persistent(8)
    started = using(99.0, first, elapsed_s=8.0)
    taken = (started, using(later_s, later, elapsed_s=6.0))
    assert Figures((started,), epochs_of_8).impossible() == ""
    assert (Figures(taken, epochs_of_8).impossible() == "") is possible
    assert figures(taken, epochs_of_8).cpu_s == later_s / 8


def test_a_batch_takes_at_least_the_training_steps_time() -> None:
    """Samples counted in a later window than they were made in do not make a batch
    faster than its training step."""
    taken = slices(*[window()] * 97, *[window(produced=8 * 400)] * 3)
    reason = Figures(tuple(taken), conditions()).impossible(0.01)
    assert reason.endswith(
        "ms a batch is impossible: the training step takes at least 250 ms"
    )


def costing(waits_s: float, *windows: Window, num_workers: int = 4) -> Figures:
    """Batches that wait in their workers."""
    records = tuple(
        factories.batch_record(number, BatchCost(0.0, waits_s))
        for number in range(8, 16)
    )
    started, *later = windows
    taken = [START, TimeSlice(windows=(replace(started, records=records),), round=0)]
    taken += [
        TimeSlice(windows=(one,), round=number) for number, one in enumerate(later, 1)
    ]
    return Figures(tuple(taken), conditions(num_workers))


@pytest.mark.parametrize(("wait_s", "possible"), [(2.09, True), (2.11, False)])
def test_a_batch_takes_at_least_the_time_of_its_making_shared_by_the_workers(
    wait_s: float, possible: bool
) -> None:
    """Four workers, 0.5 s a batch, a margin of 5 %."""
    reason = costing(wait_s, window()).impossible()
    assert (reason == "") is possible
    if reason:
        limit = "making a batch, shared by the workers, takes at least 528 ms"
        assert reason == f"500 ms a batch is impossible: {limit}"


def test_first_batches_that_take_long_to_receive_are_no_limit_of_later_ones() -> None:
    """The two batches of the start are received in 4 s of CPU time each, those of the
    windows in 0.1 s."""
    slow = TimeSlice(
        windows=(
            window(WindowKind.WARM_UP, batches=2, startup_s=1.0, receive_cpu_s=8.0),
        )
    )
    figures = costing(0.4, window(receive_cpu_s=0.8))
    assert Figures((slow, *figures.slices[1:]), figures.conditions).impossible() == ""


def test_workers_make_batches_in_the_long_first_step_of_an_epoch() -> None:
    """Four workers make 16 batches in 3 s each; the first step takes 4 s more than the
    others."""
    records = tuple(
        factories.batch_record(number, BatchCost(0.0, 3.0)) for number in range(16)
    )
    changes: dict[str, Any] = {
        "startup_s": 0.5,
        "step_s": (4.25, *(0.25,) * 15),
        "records": records,
        "end_s": 0.0,
    }
    epoch = window(WindowKind.EPOCH, batches=16, **changes)
    figures = Figures(
        (TimeSlice(windows=(epoch,), round=0),), conditions(4, 16, mode="epoch")
    )
    assert figures.timing.paced_s == 0.5
    assert figures.impossible() == ""


# Noise.


def disturbed(batch_s: float = 0.5, **machine: float) -> TimeSlice:
    """A time slice of 10 s with 5 s of CPU time, and 1 s of background loaders."""
    windows = window(WindowKind.WARM_UP, batch_s=99.0), window(batch_s=batch_s)
    before, after = (
        Usage(cpu_s=1.0, background_cpu_s=3.0),
        Usage(cpu_s=6.0, background_cpu_s=4.0),
    )
    return TimeSlice(
        windows=windows,
        before=before,
        after=after,
        elapsed_s=10.0,
        machine=MachineTime(**machine),
    )


@pytest.mark.parametrize(
    ("busy_s", "total_s", "other_cpus"),
    [
        # 25 s busy in 20 s, 12 s by the trial; a coarser counter
        ((20.0, 5.0), 0.0, 0.65), ((4.9,), 0.0, 0.0),
        # 15 s busy in 10 s; CPUs beyond the two of this job disturb nothing
        ((15.0,), 20.0, 0.9), ((15.0,), 25.0, 0.4), ((15.0,), 640.0, 0.0),
    ],
)  # fmt: skip
def test_other_cpus_are_busy_time_without_that_of_the_trial(
    busy_s: Any, total_s: float, other_cpus: float
) -> None:
    noise = noise_of(
        [
            disturbed(busy_s=each, total_s=total_s, steal_s=2.0, throttled_s=1.0)
            for each in busy_s
        ],
        2.0,
    )
    assert noise is not None
    assert (noise.other_cpus, noise.steal, noise.throttled) == pytest.approx(
        (other_cpus, 0.1, 0.1)
    )
    assert noise_of([], 2.0) is None
