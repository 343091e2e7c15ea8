"""Made-up counters of a machine, and whether those of this one go on."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nws_sweep import machine
from nws_sweep.records import MachineTime
from tests.roots import made_up

TICKS = os.sysconf("SC_CLK_TCK")


def test_cpu_time_is_that_in_which_cpus_worked_and_steal_is_apart(tmp_path: Path) -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice: user includes guest.
    numbers = (100, 20, 30, 70_000, 9_000, 4, 5, 60, 50, 10)
    line = " ".join(str(number * TICKS) for number in numbers)
    root = made_up(tmp_path, {"proc/stat": f"cpu  {line}\ncpu0 {line}\nintr 5\n"})
    now = machine.now(root)
    assert now.busy_s == pytest.approx(159)
    assert now.steal_s == pytest.approx(60)
    assert now.throttled_s == 0


@pytest.mark.parametrize("text", ["", "intr 1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\n", "\n"])
def test_a_machine_that_does_not_say_has_zeros(tmp_path: Path, text: str) -> None:
    assert machine.now(made_up(tmp_path, {"proc/stat": text})) == MachineTime()
    assert machine.now(tmp_path / "missing") == MachineTime()


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.stat": "usage_usec 9\nnr_throttled 4\nthrottled_usec 2500000\n"}, 2.5),
        ("0::/a/b\n", {"a/b/cpu.stat": "throttled_usec 1000000\n", "a/cpu.stat": "throttled_usec 3000000\n"}, 3.0),
        ("0::/a/b\n", {"a/b/cpu.stat": "throttled_usec 4000000\n", "a/cpu.stat": "throttled_usec 3000000\n"}, 4.0),
        ("0::/path/of/the/host\n", {"cpu.stat": "throttled_usec 500000\n"}, 0.5),
        ("4:cpu,cpuacct:/\n", {"cpu,cpuacct/cpu.stat": "nr_periods 7\nthrottled_time 1500000000\n"}, 1.5),
        ("4:cpu,cpuacct:/d\n", {"cpu/d/cpu.stat": "throttled_time 250000000\n"}, 0.25),
        ("4:cpuacct:/d\n", {"cpu/d/cpu.stat": "throttled_time 250000000\n"}, 0.0),
        ("9:name=systemd:/\n4:cpu:/\n0::/\n", {"cpu/cpu.stat": "throttled_time 125000000\n"}, 0.125),
        ("0::/\n", {"cpu.stat": "usage_usec 9\n"}, 0.0),
        ("0::/\n", {}, 0.0),
        ("", {"cpu.stat": "throttled_usec 500000\n"}, 0.0),
    ],
)
def test_throttled_time_is_the_most_that_any_group_was_kept_from_running(
    tmp_path: Path, own: str, files: dict[str, str], expected: float
) -> None:
    files = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert machine.now(made_up(tmp_path, {"proc/self/cgroup": own, **files})).throttled_s == expected


def test_what_came_in_between_is_the_difference(tmp_path: Path) -> None:
    group = {"proc/self/cgroup": "0::/\n"}
    stat, throttled = "proc/stat", "sys/fs/cgroup/cpu.stat"
    before = machine.now(made_up(tmp_path, {**group, stat: f"cpu {TICKS} 0 0 9 9 0 0 0\n"}))
    after = machine.now(
        made_up(tmp_path, {stat: f"cpu {4 * TICKS} 0 0 9 9 0 0 {TICKS}\n", throttled: "throttled_usec 250000\n"})
    )
    assert after.since(before) == MachineTime(busy_s=3.0, steal_s=1.0, throttled_s=0.25)


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="no /proc")
def test_the_work_of_this_process_shows_on_this_machine() -> None:
    before, began = machine.now(), time.process_time()
    while time.process_time() - began < 0.3:
        pass
    passed = machine.now().since(before)
    assert passed.busy_s + passed.steal_s > 0.1
