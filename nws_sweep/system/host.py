"""Facts about this machine."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import socket
from pathlib import Path

from nws_sweep import __version__
from nws_sweep.results import Host
from nws_sweep.system import cgroups
from nws_sweep.system.cores import shared_cores, usable_cpus


def describe(ranks: int = 1) -> Host:
    """The facts that decide whether two runs are comparable; several ranks have the CPUs of all of a launcher's."""
    import psutil

    model = re.search(r"^model name\s*:(.*)", cgroups.read(Path("/proc/cpuinfo")), re.MULTILINE)
    return Host(
        hostname=socket.gethostname(),
        platform=platform.platform(),
        cpu_model=model[1].strip() if model else platform.processor() or platform.machine(),
        cpu_count=os.cpu_count() or 1,
        usable_cpus=usable_cpus() if ranks == 1 else max(1, int(shared_cores())),
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
