from __future__ import annotations

import pytest

from nws_sweep.records import Burst, LoaderSettings
from nws_sweep.room import Load, Room, load_of, shortage
from tests import factories

MB, GB = 10**6, 10**9
# Four workers with two batches each, and the consumer's: nine batches on their way.
SETTINGS = LoaderSettings(batch_size=32, num_workers=4, prefetch_factor=2)
LOAD = Load(batch_bytes=100 * MB, batch_tensors=3, arm_bytes=GB, worker_bytes=500 * MB)


def burst(batch_bytes: int | None = None, batch_tensors: int | None = None) -> Burst:
    return factories.burst(batch_bytes=batch_bytes, batch_tensors=batch_tensors)


@pytest.mark.parametrize(
    ("lacking", "enough", "settings", "ranks", "reason"),
    [
        (
            Room(shm_bytes=899 * MB), Room(shm_bytes=900 * MB), SETTINGS, 1,
            "900 MB of shared memory (9 batches of 100 MB on their way), and 899 MB are free in /dev/shm",
        ),
        (
            Room(memory_bytes=2500 * MB), Room(memory_bytes=3900 * MB), SETTINGS, 1,
            "3.90 GB of memory (1.00 GB for the dataset, 4 workers of 500 MB, "
            "9 batches of 100 MB), and 2.50 GB are left",
        ),
        (  # 27 of nine batches of three tensors, 16 of four workers, 64 of the arm
            Room(open_files=106), Room(open_files=107), SETTINGS, 1,
            "107 open files (9 batches on their way), and 106 are allowed",
        ),
        (
            Room(threads=11), Room(threads=12), SETTINGS, 1,
            "12 threads for its 4 workers, and 11 more are allowed",
        ),
        (  # without workers only memory counts
            Room(memory_bytes=1099 * MB), Room(memory_bytes=1100 * MB, shm_bytes=0, open_files=0, threads=0),
            LoaderSettings(batch_size=32), 1,
            "1.10 GB of memory (1.00 GB for the dataset, 0 workers of 500 MB, "
            "1 batches of 100 MB), and 1.10 GB are left",
        ),
        (  # ranks need as much each, and files are counted by process
            Room(shm_bytes=2699 * MB), Room(shm_bytes=2700 * MB, open_files=107), SETTINGS, 3,
            "2.70 GB of shared memory (27 batches of 100 MB on their way), and 2.70 GB are free in /dev/shm",
        ),
        (  # what the arms of all ranks hold together was measured together: workers of 250 MB each
            Room(memory_bytes=GB), Room(memory_bytes=4800 * MB), SETTINGS, 2,
            "4.80 GB of memory (1.00 GB for the dataset, 8 workers of 250 MB, "
            "18 batches of 100 MB), and 1.00 GB are left",
        ),
        (
            Room(threads=35), Room(threads=36), SETTINGS, 3,
            "36 threads for its 12 workers, and 35 more are allowed",
        ),
    ],
)  # fmt: skip
def test_what_lacks_is_told_with_its_figures(
    lacking: Room, enough: Room, settings: LoaderSettings, ranks: int, reason: str
) -> None:
    assert shortage(settings, LOAD, lacking, ranks) == f"it needs {reason}"
    assert shortage(settings, LOAD, enough, ranks) == ""


@pytest.mark.parametrize(
    ("bursts", "memory_bytes", "load"),
    [
        ([], {}, Load()),
        ([burst()], {}, Load()),
        # of one candidate the workers cannot be told from the arm
        ([burst(12, 2)], {4: 3 * GB}, Load(batch_bytes=12, batch_tensors=2, arm_bytes=3 * GB)),
        ([], {0: GB, 4: 3 * GB}, Load(arm_bytes=GB, worker_bytes=500 * MB)),
        ([], {8: 5 * GB, 2: 2 * GB}, Load(arm_bytes=GB, worker_bytes=500 * MB)),
        ([], {0: 3 * GB, 4: GB}, Load(arm_bytes=GB)),  # workers never give memory back
        ([burst(5, 2), burst(), burst(9, 1)], {}, Load(batch_bytes=9, batch_tensors=2)),
    ],
)
def test_what_is_known_of_the_load(bursts: list[Burst], memory_bytes: dict[int, int], load: Load) -> None:
    assert load_of(bursts, memory_bytes) == load


def test_more_candidates_are_taken_together_and_the_arm_by_its_least() -> None:
    load = load_of([], {0: GB, 1: GB + 490 * MB, 2: GB + 1010 * MB, 4: 3 * GB})
    assert load.worker_bytes == pytest.approx(500 * MB, rel=0.05)
    assert GB - 20 * MB < load.arm_bytes <= GB
