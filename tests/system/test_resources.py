import os
import resource
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from nws_sweep.records import LoaderSettings, Window
from nws_sweep.system import resources
from nws_sweep.system.resources import FreeResources
from tests import factories
from tests.children import child, line_of
from tests.roots import made_up

MB, GB = 10**6, 10**9
MEMINFO = f"MemTotal:       64000000 kB\nMemFree:        1 kB\nMemAvailable:   {8 * GB // 1024} kB\n"
AVAILABLE = 8 * GB // 1024 * 1024
NO_LIMIT = 9223372036854771712


def v2(group: str, limit: int | str, usage: int, cached: int = 0) -> dict[str, str]:
    files = {
        "max": limit,
        "current": usage,
        "stat": f"anon 5\ninactive_file {cached}\nactive_file 7",
    }
    return {
        f"sys/fs/cgroup{group}/memory.{name}": f"{text}\n"
        for name, text in files.items()
    }


def v1(group: str, limit: int, usage: int, cached: int = 0) -> dict[str, str]:
    stat = f"inactive_file 3\ntotal_inactive_file {cached}"
    files = {"limit_in_bytes": limit, "usage_in_bytes": usage, "stat": stat}
    return {
        f"sys/fs/cgroup/memory{group}/memory.{name}": f"{text}\n"
        for name, text in files.items()
    }


def pids(folder: str, most: int | str, now: int) -> dict[str, str]:
    return {f"{folder}/pids.max": f"{most}\n", f"{folder}/pids.current": f"{now}\n"}


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the limits of the process that runs the tests."""
    limit_to(monkeypatch)


def limit_to(
    monkeypatch: pytest.MonkeyPatch,
    open_files: int = -1,
    threads: int = resource.RLIM_INFINITY,
    user: int = 0,
) -> None:
    limits = {resource.RLIMIT_NOFILE: open_files, resource.RLIMIT_NPROC: threads}
    monkeypatch.setattr(
        resource, "getrlimit", lambda which: (limits[which], resource.RLIM_INFINITY)
    )
    monkeypatch.setattr(os, "getuid", lambda: user)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("", {}, AVAILABLE),
        ("0::/\n", v2("", "max", 3 * GB), AVAILABLE),
        ("0::/\n", v2("", 4 * GB, 3 * GB, cached=2 * GB), 3 * GB),
        ("0::/\n", v2("", 90 * GB, 3 * GB), AVAILABLE),
        ("0::/a/b\n", v2("/a/b", "max", GB) | v2("/a", 6 * GB, 4 * GB), 2 * GB),
        ("0::/\n", v2("", 4 * GB, 5 * GB), 1),
        ("0::/\n", {"sys/fs/cgroup/memory.max": "4000000000\n"}, AVAILABLE),
        # without MemAvailable
        ("0::/\n", {"proc/meminfo": "MemTotal: 5 kB\n", **v2("", 4 * GB, GB)}, 3 * GB),
        ("4:memory:/\n", v1("", 4 * GB, 3 * GB, cached=GB), 2 * GB),
        (
            "4:memory:/a/b\n",
            v1("/a/b", NO_LIMIT, GB) | v1("/a", 7 * GB, 2 * GB),
            5 * GB,
        ),
    ],
)
def test_the_least_of_machine_and_groups_counts(
    tmp_path: Path, own: str, files: dict[str, str], expected: int
) -> None:
    root = made_up(
        tmp_path, {"proc/meminfo": MEMINFO, "proc/self/cgroup": own, **files}
    )
    assert resources.now(None, root).memory_bytes == expected


def test_the_memory_budget_is_as_asked_or_most_of_the_free_memory(
    tmp_path: Path,
) -> None:
    (tmp_path / "root/dev/shm").mkdir(parents=True)
    root, nothing = (
        made_up(tmp_path / "root", {"proc/meminfo": MEMINFO}),
        tmp_path / "missing",
    )
    assert [resources.memory_budget(asked, root) for asked in (90 * GB, 0)] == [
        90 * GB,
        0,
    ]
    assert resources.memory_budget(None, root) == pytest.approx(0.9 * AVAILABLE)
    assert [
        resources.now(left, root).memory_bytes for left in (5 * GB, 90 * GB, -3)
    ] == [5 * GB, AVAILABLE, -3]
    assert (
        resources.memory_budget(None, nothing),
        resources.now(5, nothing).memory_bytes,
    ) == (None, 5)
    assert resources.now(None, nothing) == FreeResources()
    shared = resources.now(None, root)
    assert (
        0
        < (shared.shm_bytes or 0)
        <= (shared.shm_size_bytes or 0)
        == psutil.disk_usage(str(root)).total
    )


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", pids("sys/fs/cgroup", "max", 9), None),
        (
            "0::/a/b\n",
            pids("sys/fs/cgroup/a/b", 100, 9) | pids("sys/fs/cgroup/a", 50, 20),
            30,
        ),
        ("8:pids:/x\n0::/\n", pids("sys/fs/cgroup/pids/x", 70, 9), 61),
        ("0::/\n", {"sys/fs/cgroup/pids.max": "100\n"}, None),
        ("0::/\n", pids("sys/fs/cgroup", 9, 12), 0),
    ],
)
def test_groups_limit_the_threads(
    tmp_path: Path, own: str, files: dict[str, str], expected: int | None
) -> None:
    assert (
        resources.now(
            None, made_up(tmp_path, {"proc/self/cgroup": own, **files})
        ).threads
        == expected
    )


# The user 77 has 8 threads; those of another user are hidden, as /proc with hidepid=1
# shows them.
@pytest.mark.parametrize(
    ("limit", "user", "expected"),
    [
        (20, 77, 12),
        (6, 77, 0),
        (resource.RLIM_INFINITY, 77, None),
        (10**6, 77, None),
        (20, 0, None),
    ],
)
def test_the_users_threads_count_against_a_small_limit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    user: int,
    expected: int | None,
) -> None:
    members = [SimpleNamespace(info={"uids": SimpleNamespace(real=owner), "num_threads": n})
               for owner, n in ((77, 3), (78, 100), (77, 5), (77, None))]  # fmt: skip
    hidden = SimpleNamespace(info={"uids": None, "num_threads": None})
    monkeypatch.setattr(psutil, "process_iter", lambda names: [*members, hidden])
    limit_to(monkeypatch, open_files=1024, threads=limit, user=user)
    assert resources.now(None, tmp_path) == FreeResources(
        threads=expected, open_files=1024
    )


# Nine batches in flight: two of each of four workers, and the training step's.
SETTINGS = LoaderSettings(batch_size=32, num_workers=4, prefetch_factor=2)
NEEDS = resources.ResourceNeeds(
    batch_bytes=100 * MB, batch_tensors=3, process_bytes=GB, worker_bytes=500 * MB
)


def window(batch_bytes: int | None = None, batch_tensors: int | None = None) -> Window:
    return factories.window(batch_bytes=batch_bytes, batch_tensors=batch_tensors)


@pytest.mark.parametrize(
    ("too_little", "enough", "settings", "ranks", "reason"),
    [
        # 27 of nine batches of three tensors, 16 of four workers, 64 of the trial
        # process
        (
            FreeResources(open_files=106), FreeResources(open_files=107), SETTINGS, 1,
            "107 open files (9 batches in flight), and 106 are allowed",
        ),
        (  # without workers only memory counts
            FreeResources(memory_bytes=1099 * MB),
            FreeResources(memory_bytes=1100 * MB, shm_bytes=0, open_files=0, threads=0),
            LoaderSettings(batch_size=32), 1,
            "1.10 GB of memory (1.00 GB for the dataset, 0 workers of 500 MB, "
            "1 batches of 100 MB), and 1.10 GB are left",
        ),
        (  # three ranks; files are counted per process
            FreeResources(shm_bytes=2699 * MB), FreeResources(shm_bytes=2700 * MB, open_files=107), SETTINGS, 3,
            "2.70 GB of shared memory (27 batches of 100 MB in flight), and 2.70 GB are free in /dev/shm, which "
            "docker run --shm-size enlarges",
        ),
        (  # measured for two ranks together: workers of 250 MB each
            FreeResources(memory_bytes=GB), FreeResources(memory_bytes=4800 * MB), SETTINGS, 2,
            "4.80 GB of memory (1.00 GB for the dataset, 8 workers of 250 MB, "
            "18 batches of 100 MB), and 1.00 GB are left",
        ),
        (FreeResources(threads=35), FreeResources(threads=36), SETTINGS, 3,
         "36 threads (12 workers), and 35 are left"),
    ],
)  # fmt: skip
def test_the_reason_not_to_fit_has_the_figures(
    too_little: FreeResources,
    enough: FreeResources,
    settings: LoaderSettings,
    ranks: int,
    reason: str,
) -> None:
    assert (
        resources.reason_not_fitting(settings, NEEDS, too_little, ranks)
        == f"it needs {reason}"
    )
    assert resources.reason_not_fitting(settings, NEEDS, enough, ranks) == ""


@pytest.mark.parametrize(
    ("windows", "memory_bytes", "needs"),
    [
        ([], {}, resources.ResourceNeeds()),
        # one candidate does not show a worker's share
        (
            [window(12, 2)],
            {4: 3 * GB},
            resources.ResourceNeeds(
                batch_bytes=12, batch_tensors=2, process_bytes=3 * GB
            ),
        ),
        (
            [],
            {8: 5 * GB, 2: 2 * GB},
            resources.ResourceNeeds(process_bytes=GB, worker_bytes=500 * MB),
        ),
        # never negative
        ([], {0: 3 * GB, 4: GB}, resources.ResourceNeeds(process_bytes=GB)),
        (
            [window(5, 2), window(), window(9, 1)],
            {},
            resources.ResourceNeeds(batch_bytes=9, batch_tensors=2),
        ),
    ],
)
def test_resource_needs(
    windows: list[Window], memory_bytes: dict[int, int], needs: resources.ResourceNeeds
) -> None:
    assert resources.resource_needs(windows, memory_bytes) == needs


def test_a_process_may_open_as_many_files_as_its_hard_limit_says() -> None:
    script = """
import resource
from nws_sweep.system import resources
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))
resources.allow_open_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most), flush=True)
"""
    with child(script) as process:
        assert line_of(process) == "True"
