"""Facts about this machine, and the CPUs that this process may use: in containers,
batch systems and ranks not all.

These are the least of the process's affinity (which includes cpusets), the CPU quota of
each of its control groups (versions 1 and 2, up to the root) and SLURM_CPUS_PER_TASK,
divided by LOCAL_WORLD_SIZE, the ranks that a launcher such as torchrun has started on
this host. If the launcher has bound the ranks, its own affinity is divided.
"""

import contextlib
import importlib.metadata
import os
import platform
import re
import socket
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import psutil

from nws_sweep import __version__
from nws_sweep.records import Host

_ROOT = Path("/")
_MOUNT = Path("sys/fs/cgroup")


def describe(ranks: int = 1) -> Host:
    """The facts that decide whether two runs are comparable; several ranks have the
    CPUs of all of a launcher's."""
    cores = usable_cores() if ranks == 1 else shared_cores()
    model = re.search(r"^model name\s*:(.*)", read(Path("/proc/cpuinfo")), re.MULTILINE)
    return Host(
        hostname=socket.gethostname(),
        platform=platform.platform(),
        cpu_model=model[1].strip()
        if model
        else platform.processor() or platform.machine(),
        cpu_count=os.cpu_count() or 1,
        usable_cpus=max(1, int(cores)),
        usable_cores=cores if cores % 1 else None,
        memory_bytes=psutil.virtual_memory().total,
        python=platform.python_version(),
        torch=_version("torch"),
        torchvision=_version("torchvision"),
        nws_sweep=__version__,
    )


def _version(distribution: str) -> str:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return ""


def usable_cpus(ranks: int = 1) -> int:
    """Whole CPUs, at least 1, that this process may use, or each of several ranks
    measured at once."""
    return max(1, int(usable_cores(ranks)))


def usable_cores(ranks: int = 1) -> float:
    """CPUs, a fraction included, that this process may use, or each of several ranks
    measured at once."""
    if ranks == 1 and (launched := local_ranks()) > 1:
        # A launcher may bind its ranks: those of a NUMA node share its CPUs, others
        # have CPUs of their own.
        return min(shared_cores(), shared_cores(process=os.getppid()) / launched)
    return shared_cores() / ranks


def local_ranks() -> int:
    """The ranks that a launcher such as torchrun has started on this host; 1 without
    one."""
    return _number_in("LOCAL_WORLD_SIZE") or 1


def shared_cores(root: Path = _ROOT, process: int = 0) -> float:
    """CPUs that all ranks of this host together may use."""
    enforced = enforced_cores(root, process)
    return min(enforced, _number_in("SLURM_CPUS_PER_TASK") or enforced)


def enforced_cores(root: Path = _ROOT, process: int = 0) -> float:
    """CPUs that the system lets a process, by default this one, use, regardless of
    environment variables."""
    affinity = (
        len(os.sched_getaffinity(process))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    return min([float(affinity), *(cpus for cpus, _ in _quotas(root))])


def _number_in(variable: str) -> int:
    """The positive number in an environment variable; 0 without one."""
    text = os.environ.get(variable, "").strip()
    return int(text) if text.isdecimal() else 0


def _quotas(root: Path) -> Iterator[tuple[float, float]]:
    """The quotas of this process's control groups, CPUs, and their periods, s."""
    for version, folder in group_folders(root, "cpu"):
        names = (
            ["cpu.max"] if version == 2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        )
        match "".join(read(folder / name) for name in names).split():
            case [quota, period] if quota.isdecimal() and period.isdecimal():
                # not max, nor -1: no limit
                yield int(quota) / int(period), int(period) / 1e6


def quota_period_s(root: Path = _ROOT) -> float:
    """The longest period, s, at whose end a CPU quota of this process's control groups
    is granted again; 0 without."""
    return max((period_s for _, period_s in _quotas(root)), default=0.0)


def group_folders(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """The folders, with the version, of the groups that limit this process by a
    controller such as ``cpu``.

    From its own group up to the mount: inside a container the path may be the host's,
    and only the mount has files.
    """
    for line in read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        mounts = {".": 2}
        if controllers:
            mounts = (
                {controllers: 1, controller: 1}
                if controller in controllers.split(",")
                else {}
            )
        inside = PurePosixPath(group.lstrip("/"))
        for name, version in mounts.items():
            yield from (
                (version, root / _MOUNT / name / part)
                for part in (inside, *inside.parents)
            )


def read(path: Path) -> str:
    """The text of a file; empty if it cannot be read."""
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def fields(path: Path) -> dict[str, int]:
    """The numbers in a file of ``name value`` or ``name: value kB`` lines; empty if it
    cannot be read."""
    pairs = (line.split()[:2] for line in read(path).splitlines())
    return {
        pair[0].rstrip(":"): int(pair[1])
        for pair in pairs
        if len(pair) == 2 and pair[1].isdecimal()
    }
