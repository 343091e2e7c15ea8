import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nws_sweep.records import MachineTime, Usage
from nws_sweep.system import usage
from tests.children import child, line_of, tell
from tests.roots import made_up

MB = 2**20
SHARED = 4 * MB


@pytest.fixture
def segment() -> Iterator[Path]:
    path = Path(f"/dev/shm/nws_sweep_test_{uuid.uuid4().hex}")
    yield path
    path.unlink(missing_ok=True)


def test_cpu_time_includes_running_and_exited_children() -> None:
    script = """
import os, sys, time
def burn(seconds):
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass
if not os.fork():
    burn(0.2)
    os._exit(0)
os.wait()
if not os.fork():
    burn(0.1)
    print("ready", flush=True)
    time.sleep(60)
input()
burn(0.3)
print("burnt", flush=True)
time.sleep(60)
"""
    with child(script) as process:
        line_of(process)
        before = usage.of_tree(process.pid).cpu_s
        assert before > 0.27  # the time of the exited child has a resolution of 10 ms
        tell(process)
        line_of(process)
        after = usage.of_tree(process.pid).cpu_s
        assert after - before > 0.29
        assert usage.of_tree(process.pid).cpu_s - after < 0.1  # it sleeps now


# Mapped without an open descriptor; Python's mmap keeps one.
MAPPED = """
import ctypes, os, sys
descriptor, size = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600), int(sys.argv[2])
os.ftruncate(descriptor, size)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
ctypes.memmove(libc.mmap(None, size, 3, 1, descriptor, 0), b"x" * size, size)
os.close(descriptor)
"""
OPEN = """
import os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.write(descriptor, b"x" * int(sys.argv[2]))
os.unlink(sys.argv[1])
"""
FORKS = "if os.fork():\n    os.wait()\n"
ALONE = "print('ready', flush=True)\nsys.stdin.read()"


@pytest.mark.parametrize("script", [MAPPED, OPEN], ids=["mapped", "open and unlinked"])
def test_shared_memory_is_counted_once_however_it_is_held(
    segment: Path, script: str, tmp_path: Path
) -> None:
    ordinary = f"ordinary = open({str(tmp_path / 'file')!r}, 'wb'); ordinary.write(b'x' * 100000); ordinary.flush()\n"
    second = f"second = open({str(segment) + '2'!r}, 'wb'); os.unlink(second.name); os.write(second.fileno(), b'x')\n"
    with child(script + ordinary + second + FORKS + ALONE, segment, SHARED) as process:
        line_of(process)
        assert usage.of_tree(process.pid).shm_bytes == SHARED + os.sysconf(
            "SC_PAGE_SIZE"
        )


def test_memory_of_a_tree_counts_shared_pages_once() -> None:
    size = 40 * MB
    own = "own = b'y' * int(sys.argv[1])\n"
    with child(
        f"import os, sys\nheld = b'x' * int(sys.argv[1])\n{FORKS}{own}{ALONE}", size
    ) as process:
        line_of(process)
        found = usage.of_tree(process.pid).memory_bytes
        assert found is not None
        # Parent and child share the first block until one writes; the child has a
        # second block.
        assert 2 * size <= found < 3 * size
        assert usage.memory(usage.family(process.pid))[0] == pytest.approx(
            found, rel=0.02
        )
        assert 2 * size <= usage.resident_bytes(usage.family(process.pid)) < 4 * size


def test_of_many_workers_some_are_read_and_count_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    def kinds(pid: int) -> dict[str, int]:
        read.append(pid)
        return {"Anonymous": 1000, "Pss_File": 10, "Pss_Shmem": 5, "Private_Dirty": 205}

    monkeypatch.setattr(usage, "_kinds", kinds)
    assert usage.memory(range(41)) == (1024 * (1015 + 40 * 215), 1024 * 41 * 205)
    assert read == [0, *range(1, 41, 5)]
    # What the first process has made itself is its own, though forked workers share it.
    assert usage.memory(range(41), shares_dataset=False)[1] == 1024 * (1005 + 40 * 205)


def test_an_exited_process_or_a_zombie_uses_nothing() -> None:
    with child(f"import sys\n{ALONE}") as process:
        line_of(process)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        found = usage.of_tree(process.pid)
        assert (
            found.memory_bytes or 0,
            found.shm_bytes,
            usage.resident_bytes([process.pid]),
        ) == (0, 0, 0)
        process.wait()
        assert usage.of_tree(process.pid) == Usage()
        assert list(usage.family(process.pid)) == [process.pid]
        assert (usage.resident_bytes([process.pid]), usage.memory([process.pid])) == (
            0,
            (None, None),
        )


@pytest.mark.parametrize(
    ("usable", "counted"), [({0, 3}, 2), ({0, 4}, 4)], ids=["some", "other numbers"]
)
def test_times_of_the_machine_are_those_of_the_usable_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usable: set[int], counted: int
) -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice: user includes
    # guest.
    line = " ".join(
        str(n * os.sysconf("SC_CLK_TCK"))
        for n in (100, 20, 30, 70_000, 9_000, 4, 5, 60, 50, 10)
    )
    lines = "".join(f"cpu{number} {line}\n" for number in range(4))
    monkeypatch.setattr(
        psutil,
        "PROCFS_PATH",
        str(made_up(tmp_path, {"proc/stat": f"cpu  {line}\n{lines}"}) / "proc"),
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: usable, raising=False)
    now = usage.of_machine(tmp_path)
    assert (now.busy_s, now.steal_s, now.total_s, now.throttled_s) == (
        counted * 159,
        counted * 60,
        counted * 79_219,
        0,
    )
    assert (
        now.since(MachineTime(busy_s=100, steal_s=10, total_s=219)).busy_s
        == counted * 159 - 100
    )


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        (
            "0::/a/b\n",
            {
                "a/b/cpu.stat": "throttled_usec 1000000\n",
                "a/cpu.stat": "throttled_usec 3000000\n",
            },
            3.0,
        ),
        (
            "4:cpu,cpuacct:/d\n",
            {"cpu/d/cpu.stat": "nr_periods 7\nthrottled_time 250000000\n"},
            0.25,
        ),
        ("0::/\n", {"cpu.stat": "usage_usec 9\n\nodd\nhigh max\nbelow -1\n"}, 0.0),
    ],
)
def test_throttled_time_is_the_largest_of_all(
    tmp_path: Path, own: str, files: dict[str, str], expected: float
) -> None:
    files = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert (
        usage.of_machine(
            made_up(tmp_path, {"proc/self/cgroup": own, **files})
        ).throttled_s
        == expected
    )
