"""Real processes, and what they can be seen to use; what a machine does besides."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nws_sweep import usage
from nws_sweep.records import MachineTime, Usage
from tests.children import child, line_of, tell
from tests.roots import made_up

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")

MB = 2**20
SHARED = 4 * MB
BURN = """
def burn(seconds):
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass
"""


@pytest.fixture
def segment() -> Iterator[Path]:
    """A name in shared memory that no other test has."""
    if not Path("/dev/shm").is_dir():
        pytest.skip("no shared memory")
    path = Path(f"/dev/shm/nws_sweep_test_{uuid.uuid4().hex}")
    yield path
    path.unlink(missing_ok=True)


def test_the_cpu_seconds_of_a_process_and_of_its_children_alive_and_dead_are_counted() -> None:
    script = f"""
import os, sys, time
{BURN}
dead = os.fork()
if not dead:
    burn(0.2)
    os._exit(0)
os.waitpid(dead, 0)
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
        assert before > 0.27  # the dead one's time has a resolution of 10 ms
        tell(process)
        line_of(process)
        after = usage.of_tree(process.pid).cpu_s
        assert after - before > 0.29
        assert usage.of_tree(process.pid).cpu_s - after < 0.1  # it stands still now


MAPPED = """
import mmap, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(descriptor, int(sys.argv[2]))
memory = mmap.mmap(descriptor, int(sys.argv[2]))
memory.write(b"x" * int(sys.argv[2]))
os.close(descriptor)
"""
# Python's mmap keeps a descriptor of its own; the system's does not.
ONLY_MAPPED = MAPPED.replace("memory = mmap.mmap(", "memory = Mapping(").replace(
    "import mmap, os, sys",
    """
import ctypes, os, sys
class Mapping:
    def __init__(self, descriptor, size):
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
        self.address = libc.mmap(None, size, 3, 1, descriptor, 0)
    def write(self, text):
        ctypes.memmove(self.address, text, len(text))
""",
)
OPEN = """
import os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.write(descriptor, b"x" * int(sys.argv[2]))
os.unlink(sys.argv[1])
"""
ALONE = "print('ready', flush=True)\ninput()"
WITH_A_CHILD = """
if os.fork():
    os.wait()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("holders", [ALONE, WITH_A_CHILD], ids=["alone", "with a child"])
@pytest.mark.parametrize("script", [MAPPED, ONLY_MAPPED, OPEN], ids=["mapped and open", "mapped", "open and unlinked"])
def test_shared_memory_is_counted_once_however_it_is_held(segment: Path, script: str, holders: str) -> None:
    with child(script + holders, segment, SHARED) as process:
        line_of(process)
        assert usage.of_tree(process.pid).shm_bytes == SHARED


def test_different_segments_add_up_and_other_files_do_not_count(segment: Path, tmp_path: Path) -> None:
    other = segment.with_name(f"{segment.name}_other")
    ordinary = f"ordinary = open({str(tmp_path / 'file')!r}, 'wb'); ordinary.write(b'x' * 100000); ordinary.flush()\n"
    second = f"second = open({str(other)!r}, 'wb'); second.write(b'x' * {MB}); second.flush()\n"
    try:
        with child(OPEN + ordinary + second + ALONE, segment, SHARED) as process:
            line_of(process)
            assert usage.of_tree(process.pid).shm_bytes == SHARED + MB
    finally:
        other.unlink(missing_ok=True)


HELD = """
import os, sys
held = b"x" * int(sys.argv[1])
if os.fork():
    os.wait()
own = b"y" * int(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""


def test_memory_is_that_of_the_whole_tree_and_shared_pages_are_divided() -> None:
    size = 40 * MB
    with child("import sys\nheld = b'x' * int(sys.argv[1])\n" + ALONE, size) as process:
        line_of(process)
        assert size <= usage.resident_bytes(process.pid) < 2 * size
        assert size <= usage.of_memory(process.pid) < 2 * size
        assert usage.of_tree(process.pid).shm_bytes == 0
    with child(HELD, size) as process:
        line_of(process)
        found = usage.of_tree(process.pid).memory_bytes
        if found is None:
            pytest.skip("the kernel tells no proportional set size")
        # The parent's and the child's are one until either writes; the child has as much of its own.
        assert 2 * size <= found < 3 * size
        assert usage.of_memory(process.pid) == pytest.approx(found, rel=0.02)
        assert usage.resident_bytes(process.pid) >= 2 * size


def test_a_process_that_is_gone_or_that_nobody_has_waited_for_has_used_nothing() -> None:
    with child(ALONE) as process:
        line_of(process)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        found = usage.of_tree(process.pid)
        assert (found.memory_bytes or 0, found.shm_bytes, usage.resident_bytes(process.pid)) == (0, 0, 0)
        process.wait()
        assert usage.of_tree(process.pid) == Usage()
        assert (usage.resident_bytes(process.pid), usage.of_memory(process.pid)) == (0, 0)


def test_cpu_time_of_the_machine_is_that_in_which_cpus_worked_and_steal_is_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice: user includes guest.
    line = " ".join(str(n * os.sysconf("SC_CLK_TCK")) for n in (100, 20, 30, 70_000, 9_000, 4, 5, 60, 50, 10))
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(made_up(tmp_path, {"proc/stat": f"cpu  {line}\n"}) / "proc"))
    now = usage.of_machine(tmp_path)
    assert (now.busy_s, now.steal_s, now.throttled_s) == (159, 60, 0)
    assert now.since(MachineTime(busy_s=100, steal_s=10)) == MachineTime(busy_s=59, steal_s=50)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/cpu.stat": "throttled_usec 1000000\n", "a/cpu.stat": "throttled_usec 3000000\n"}, 3.0),
        ("0::/a/b\n", {"a/b/cpu.stat": "throttled_usec 4000000\n", "a/cpu.stat": "throttled_usec 3000000\n"}, 4.0),
        ("4:cpu,cpuacct:/d\n", {"cpu/d/cpu.stat": "nr_periods 7\nthrottled_time 250000000\n"}, 0.25),
        ("4:cpuacct:/d\n", {"cpu/d/cpu.stat": "throttled_time 250000000\n"}, 0.0),
        ("9:name=systemd:/\n4:cpu:/\n0::/\n", {"cpu/cpu.stat": "throttled_time 125000000\n"}, 0.125),
        ("0::/\n", {"cpu.stat": "usage_usec 9\n"}, 0.0),
        ("", {"cpu.stat": "throttled_usec 500000\n"}, 0.0),
    ],
)
def test_throttled_time_is_the_most_that_any_group_was_kept_from_running(
    tmp_path: Path, own: str, files: dict[str, str], expected: float
) -> None:
    files = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert usage.of_machine(made_up(tmp_path, {"proc/self/cgroup": own, **files})).throttled_s == expected


def test_the_work_of_this_process_shows_on_this_machine() -> None:
    before, began = usage.of_machine(), time.process_time()
    while time.process_time() - began < 0.3:
        pass
    passed = usage.of_machine().since(before)
    assert passed.busy_s + passed.steal_s > 0.1
