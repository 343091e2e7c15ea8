"""Facts about this machine."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path

from nws_sweep import __version__
from nws_sweep.cores import shared_cores, usable_cpus
from nws_sweep.records import Host


def describe(ranks: int = 1) -> Host:
    """The facts that decide whether two runs may be compared. Reads versions without importing torch.

    Args:
        ranks: How many are measured at once; several have the CPUs of all ranks of a launcher.
    """
    import psutil

    return Host(
        hostname=socket.gethostname(),
        platform=platform.platform(),
        cpu_model=_cpu_model(),
        cpu_count=os.cpu_count() or 1,
        usable_cpus=usable_cpus() if ranks == 1 else max(1, int(shared_cores())),
        memory_bytes=psutil.virtual_memory().total,
        python=platform.python_version(),
        torch=_version("torch"),
        torchvision=_version("torchvision"),
        nws_sweep=__version__,
    )


def _version(distribution: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
