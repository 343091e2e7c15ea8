"""What the machine does besides: CPU time that others take, that the hypervisor takes, that a quota takes away."""

from __future__ import annotations

import os
from pathlib import Path

from nws_sweep import cgroups
from nws_sweep.records import MachineTime

_ROOT = Path("/")


def now(root: Path = _ROOT) -> MachineTime:
    """The machine's counters since it started; zeros where it does not say.

    Args:
        root: Where proc/ and sys/ are found.
    """
    busy_s, steal_s = _cpu_seconds(root)
    return MachineTime(busy_s=busy_s, steal_s=steal_s, throttled_s=_throttled_s(root))


def _cpu_seconds(root: Path) -> tuple[float, float]:
    """Seconds in which CPUs worked, and in which they would have but the hypervisor served others (proc(5))."""
    words = cgroups.read(root / "proc/stat").partition("\n")[0].split()
    if not words or words[0] != "cpu":
        return 0.0, 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = [int(word) for word in words[1:9]]
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) * tick_s, steal * tick_s


def _throttled_s(root: Path) -> float:
    """Seconds that this process's control groups were kept from running because their quota was spent."""
    seconds = 0.0
    for _, folder in cgroups.folders(root, "cpu"):
        stat = cgroups.fields(folder / "cpu.stat")
        if "throttled_usec" in stat:  # version 2
            seconds = max(seconds, stat["throttled_usec"] / 1e6)
        elif "throttled_time" in stat:  # version 1, nanoseconds
            seconds = max(seconds, stat["throttled_time"] / 1e9)
    return seconds
