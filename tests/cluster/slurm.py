"""A real Slurm on this machine: its daemons on loopback, with their own files, ports
and key.

Two nodes, each a slurmd, as Slurm's developers test it; the second has one CPU.
Accounting would need a database: a ``sacct`` that reads the queue answers submitit.
"""

import contextlib
import getpass
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from nws_sweep.system import processes

PROGRAMS = (
    "munged",
    "slurmctld",
    "slurmd",
    "sbatch",
    "srun",
    "squeue",
    "scancel",
    "sinfo",
)
_START_S = 60
# on Debian the daemons are in root's path
_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
_CONFIGURATION = """
ClusterName=nws-sweep
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=60
SchedulerParameters=sched_interval=1
NodeName=big NodeHostname=localhost NodeAddr=127.0.0.1 Port={big} CPUs={cpus}
NodeName=small NodeHostname=localhost NodeAddr=127.0.0.1 Port={small} CPUs=1
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_SACCT = """#!/bin/sh
echo "JobID|State|NodeList"
exec squeue --noheader --array --states=all --format="%i|%T|%N"
"""


@dataclass(frozen=True)
class Slurm:
    """A running cluster; its commands need ``environment``."""

    environment: dict[str, str]

    def run(self, *command: str) -> str:
        return subprocess.check_output(
            command, env={**os.environ, **self.environment}, text=True, timeout=60
        )

    def queue(self) -> str:
        """The IDs of unfinished jobs."""
        return self.run("squeue", "--noheader", "--array", "--format=%i")


def missing() -> list[str]:
    return [name for name in PROGRAMS if not shutil.which(name, path=_PATH)]


@contextlib.contextmanager
def running() -> Iterator[Slurm]:
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        cluster = Slurm(
            {"SLURM_CONF": str(_write_files(folder)), "PATH": f"{folder}:{_PATH}"}
        )

        def start(*command: str) -> None:
            log = stack.enter_context(
                (folder / f"{len(list(folder.iterdir()))}.out").open("w")
            )
            how: dict[str, Any] = {
                "env": {**os.environ, **cluster.environment},
                "start_new_session": True,
            }
            daemons.append(
                subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, **how)
            )

        daemons: list[subprocess.Popen[bytes]] = []
        stack.callback(_end, cluster, daemons)
        kinds = ("key-file", "socket", "pid-file", "log-file", "seed-file")
        start(
            "munged",
            "--foreground",
            "--force",
            *(f"--{kind}={folder}/munge.{kind}" for kind in kinds),
        )
        _wait((folder / "munge.socket").exists, folder)
        start("slurmctld", "-D", "-i")
        start("slurmd", "-D", "-N", "big")
        one_cpu = str(min(os.sched_getaffinity(0)))  # its jobs inherit the affinity
        start("taskset", "-c", one_cpu, "slurmd", "-D", "-N", "small")
        _wait(lambda: _idle(cluster) == {"big", "small"}, folder)
        yield cluster


def _write_files(folder: Path) -> Path:
    """Writes the cluster's files; returns the path of its configuration."""
    ports = dict(zip(("controller", "big", "small"), _free_ports(3), strict=True))
    text = _CONFIGURATION.format(
        folder=folder,
        user=getpass.getuser(),
        cpus=len(os.sched_getaffinity(0)),
        **ports,
    )
    (folder / "slurm.conf").write_text(text)
    (folder / "munge.key-file").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key-file").chmod(0o600)
    (folder / "sacct").write_text(_SACCT)
    (folder / "sacct").chmod(0o700)
    for name in ("state", "spool-big", "spool-small"):
        (folder / name).mkdir()
    return folder / "slurm.conf"


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            for _ in range(count)
        ]
        return [one.getsockname()[1] for one in sockets]


def _idle(cluster: Slurm) -> set[str]:
    with contextlib.suppress(subprocess.CalledProcessError):
        return set(
            cluster.run(
                "sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"
            ).split()
        )
    return set()


def _wait(condition: Callable[[], bool], folder: Path) -> None:
    until = time.monotonic() + _START_S
    while not condition():
        if time.monotonic() > until:
            logs = [
                f"{path.name}: {path.read_text(errors='replace')[-500:]}"
                for path in folder.glob("*.[lo]*")
            ]
            raise TimeoutError("Slurm did not start:\n" + "\n".join(logs))
        time.sleep(0.2)


def _end(cluster: Slurm, daemons: list[subprocess.Popen[bytes]]) -> None:
    """Ends the daemons in order, then kills steps and jobs, which outlive their daemon
    by design."""
    for daemon in reversed(daemons):
        daemon.terminate()
    _, left = psutil.wait_procs(members(cluster), timeout=10)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    for daemon in daemons:
        daemon.wait()


def members(cluster: Slurm) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("SLURM_CONF") == cluster.environment[
                "SLURM_CONF"
            ] and processes.is_alive(process):
                found.append(process)
    return found
