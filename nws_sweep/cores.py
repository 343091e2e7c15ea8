"""How many CPUs this process may really use: the machine's number is wrong in containers, batch systems and ranks.

The least of: the process's affinity (which includes cpusets), the CPU quota of every control group that it is in
(versions 1 and 2, from its own group up to the root), and SLURM_CPUS_PER_TASK; shared by the LOCAL_WORLD_SIZE ranks
that a launcher such as torchrun has started on this host.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

_CGROUPS = Path("sys/fs/cgroup")


def usable_cpus() -> int:
    """Whole CPUs that this process may use, at least 1."""
    return max(1, int(usable_cores()))


def usable_cores(
    root: Path = Path("/"), environment: Mapping[str, str] = os.environ, affinity: int | None = None
) -> float:
    """CPUs that this process may use; a quota may grant a fraction of one.

    Args:
        root: Where proc/ and sys/ are found.
        environment: Environment variables.
        affinity: CPUs that the process may run on; None to ask the system.
    """
    limits = [float(_affinity() if affinity is None else affinity), *_quotas(root)]
    if slurm := _positive(environment, "SLURM_CPUS_PER_TASK"):
        limits.append(slurm)
    return min(limits) / (_positive(environment, "LOCAL_WORLD_SIZE") or 1)


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _positive(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _quotas(root: Path) -> Iterator[float]:
    """The quotas, in CPUs, of the control groups that this process is in."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:  # version 2
            yield from _along(root / _CGROUPS, group, _quota_v2)
        elif "cpu" in controllers.split(","):  # version 1
            for name in dict.fromkeys((controllers, "cpu")):
                yield from _along(root / _CGROUPS / name, group, _quota_v1)


def _along(mount: Path, group: str, quota_of: Callable[[Path], float | None]) -> Iterator[float]:
    """The quotas of a group and all groups above it.

    Inside a container the group's path is often the host's and does not exist below the mount; its own files are then
    those of the mount itself, which is always looked at.
    """
    inside = PurePosixPath(group.lstrip("/"))
    for part in (inside, *inside.parents):
        if (quota := quota_of(mount / part)) is not None:
            yield quota


def _quota_v2(folder: Path) -> float | None:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdecimal() and period.strip().isdecimal() else None


def _quota_v1(folder: Path) -> float | None:
    quota, period = _read(folder / "cpu.cfs_quota_us").strip(), _read(folder / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None  # -1 is no limit


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
