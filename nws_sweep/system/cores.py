"""How many CPUs this process may really use: the machine's number is wrong in containers, batch systems and ranks.

The least of: the process's affinity (which includes cpusets), the CPU quota of every control group that it is in
(versions 1 and 2, from its own group up to the root), and SLURM_CPUS_PER_TASK; shared by the LOCAL_WORLD_SIZE ranks
that a launcher such as torchrun has started on this host.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from nws_sweep.system import cgroups

_MOST_WORKERS, _LEAST_OF_RANK = 32, 8


def usable_cpus() -> int:
    """Whole CPUs that this process may use, at least 1."""
    return max(1, int(usable_cores()))


def most_workers(ranks: int = 1) -> int:
    """The most workers, of each rank, that the adaptive search may try: loading that waits gains far above the CPUs."""
    if ranks == 1:
        return max(_MOST_WORKERS, 2 * usable_cpus())
    return max(_LEAST_OF_RANK, _MOST_WORKERS // ranks, cpus_of_rank(ranks, 2))


def cpus_of_rank(ranks: int, times: int = 1) -> int:
    """Whole CPUs, at least 1, that each of several ranks has which are measured at once; so many times that."""
    return max(1, times * usable_cpus() if ranks == 1 else int(times * shared_cores() / ranks))


def usable_cores(
    root: Path = Path("/"), environment: Mapping[str, str] = os.environ, affinity: int | None = None
) -> float:
    """CPUs that this process may use; a quota may grant a fraction of one. The system is asked for no affinity."""
    return shared_cores(root, environment, affinity) / (_positive(environment, "LOCAL_WORLD_SIZE") or 1)


def shared_cores(
    root: Path = Path("/"), environment: Mapping[str, str] = os.environ, affinity: int | None = None
) -> float:
    """The same for all ranks of this host together."""
    enforced = enforced_cores(root, affinity)
    return min(enforced, _positive(environment, "SLURM_CPUS_PER_TASK") or enforced)


def enforced_cores(root: Path = Path("/"), affinity: int | None = None) -> float:
    """CPUs that the system lets this process use, whatever variables ask of it; see ``usable_cores``."""
    if affinity is None:
        affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([float(affinity), *_quotas(root)])


def _positive(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _quotas(root: Path) -> Iterator[float]:
    """The quotas, in CPUs, of the control groups that this process is in and of all above them."""
    for version, folder in cgroups.folders(root, "cpu"):
        names = ["cpu.max"] if version == 2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        match "".join(cgroups.read(folder / name) for name in names).split():
            case [quota, period] if quota.isdecimal() and period.isdecimal():  # max, or -1, is no limit
                yield int(quota) / int(period)
