from __future__ import annotations

from dataclasses import replace

import pytest

from nws_sweep.limits import Load, load_of, shortage
from nws_sweep.records import Burst, BurstKind, LoaderSettings
from nws_sweep.room import Room

MB, GB = 10**6, 10**9
# Four workers with two batches each, and the consumer's: nine batches on their way.
SETTINGS = LoaderSettings(batch_size=32, num_workers=4, prefetch_factor=2)
LOAD = Load(batch_bytes=100 * MB, batch_tensors=3, arm_bytes=GB, worker_bytes=500 * MB)


def burst(batch_bytes: int | None = None, batch_tensors: int | None = None) -> Burst:
    return Burst(
        kind=BurstKind.STEADY, startup_s=None, wait_s=(), consume_s=(), samples=0,
        batch_bytes=batch_bytes, batch_tensors=batch_tensors,
    )  # fmt: skip


def test_without_limits_everything_fits() -> None:
    assert shortage(SETTINGS, LOAD, Room()) == ""


def test_as_long_as_nothing_is_known_of_the_load_everything_fits() -> None:
    assert shortage(SETTINGS, Load(), Room(shm_bytes=0, memory_bytes=0, open_files=1024, threads=1000)) == ""


def test_too_little_shared_memory_is_told_with_its_figures() -> None:
    text = shortage(SETTINGS, LOAD, Room(shm_bytes=899 * MB))
    assert "900 MB of shared memory" in text
    assert "9 batches of 100 MB" in text
    assert "899 MB are free in /dev/shm" in text
    assert shortage(SETTINGS, LOAD, Room(shm_bytes=900 * MB)) == ""


def test_too_little_memory_is_told_with_its_figures() -> None:
    # 1 GB for the arm, 2 GB for four workers, 0.9 GB for nine batches.
    text = shortage(SETTINGS, LOAD, Room(memory_bytes=3899 * MB))
    assert "3.90 GB of memory" in text
    assert "1.00 GB for the dataset" in text
    assert "4 workers of 500 MB" in text
    assert "9 batches of 100 MB" in text
    assert shortage(SETTINGS, LOAD, Room(memory_bytes=3900 * MB)) == ""
    assert "2.50 GB are left" in shortage(SETTINGS, LOAD, Room(memory_bytes=2500 * MB))


def test_too_few_open_files_are_told_with_their_figures() -> None:
    # 27 of nine batches of three tensors, 16 of four workers, 64 of the arm.
    text = shortage(SETTINGS, LOAD, Room(open_files=106))
    assert "107 open files" in text
    assert "9 batches" in text
    assert "106 are allowed" in text
    assert shortage(SETTINGS, LOAD, Room(open_files=107)) == ""


def test_too_few_threads_are_told_with_their_figures() -> None:
    text = shortage(SETTINGS, LOAD, Room(threads=11))
    assert "12 threads for its 4 workers" in text
    assert "11 more are allowed" in text
    assert shortage(SETTINGS, LOAD, Room(threads=12)) == ""


def test_the_first_thing_that_lacks_is_the_reason() -> None:
    nothing = Room(shm_bytes=0, memory_bytes=0, open_files=0, threads=0)
    reasons = [
        shortage(SETTINGS, LOAD, room)
        for room in (nothing, replace(nothing, shm_bytes=None), Room(open_files=0, threads=0), Room(threads=0))
    ]
    assert ["shared memory" in reasons[0], "of memory" in reasons[1], "files" in reasons[2], "threads" in reasons[3]]
    assert all(reason.startswith("it needs ") and "\n" not in reason for reason in reasons)


def test_without_workers_only_memory_counts() -> None:
    settings = LoaderSettings(batch_size=32)
    assert shortage(settings, LOAD, Room(shm_bytes=0, open_files=0, threads=0)) == ""
    assert shortage(settings, LOAD, Room(memory_bytes=1100 * MB)) == ""
    text = shortage(settings, LOAD, Room(memory_bytes=1099 * MB))
    assert "1.10 GB of memory" in text
    assert "0 workers" in text
    assert "1 batches of 100 MB" in text


def test_more_batches_ahead_need_more() -> None:
    room = Room(shm_bytes=900 * MB)
    assert shortage(replace(SETTINGS, prefetch_factor=None), LOAD, room) == ""  # the DataLoader's own is two
    assert "17 batches" in shortage(replace(SETTINGS, prefetch_factor=4), LOAD, room)


def test_of_no_candidate_nothing_is_known() -> None:
    assert load_of([], {}) == Load()


def test_of_one_candidate_the_workers_cannot_be_told_from_the_arm() -> None:
    load = load_of([burst(batch_bytes=12 * MB, batch_tensors=2)], {4: 3 * GB})
    assert load == Load(batch_bytes=12 * MB, batch_tensors=2, arm_bytes=3 * GB, worker_bytes=0)


def test_two_candidates_tell_what_a_worker_adds() -> None:
    load = load_of([], {0: GB, 4: 3 * GB})
    assert (load.arm_bytes, load.worker_bytes) == (GB, 500 * MB)
    load = load_of([], {8: 5 * GB, 2: 2 * GB})
    assert (load.arm_bytes, load.worker_bytes) == (GB, 500 * MB)


def test_more_candidates_are_taken_together_and_the_arm_by_its_least() -> None:
    load = load_of([], {0: GB, 1: GB + 490 * MB, 2: GB + 1010 * MB, 4: 3 * GB})
    assert load.worker_bytes == pytest.approx(500 * MB, rel=0.05)
    assert GB - 20 * MB < load.arm_bytes <= GB


def test_workers_never_give_memory_back() -> None:
    load = load_of([], {0: 3 * GB, 4: GB})
    assert (load.arm_bytes, load.worker_bytes) == (GB, 0)


def test_the_heaviest_batch_counts_and_unknown_ones_do_not() -> None:
    load = load_of([burst(5, 2), burst(), burst(9, 1)], {})
    assert (load.batch_bytes, load.batch_tensors) == (9, 2)
    assert load_of([burst()], {}) == Load()


def test_ranks_need_as_much_each_and_files_are_counted_by_process() -> None:
    assert "27 batches of 100 MB" in shortage(SETTINGS, LOAD, Room(shm_bytes=2699 * MB), ranks=3)
    assert shortage(SETTINGS, LOAD, Room(shm_bytes=2700 * MB), ranks=3) == ""
    # What the arms of all ranks hold together was measured together: workers of 250 MB each.
    text = shortage(SETTINGS, LOAD, Room(memory_bytes=GB), ranks=2)
    assert "4.80 GB of memory" in text
    assert "8 workers of 250 MB" in text
    files = 9 * 3 + 4 * 4 + 64
    assert shortage(SETTINGS, LOAD, Room(open_files=files), ranks=3) == ""
    assert f"it needs {3 * 12} threads for its 12 workers" in shortage(SETTINGS, LOAD, Room(threads=35), ranks=3)
