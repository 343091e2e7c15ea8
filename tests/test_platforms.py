"""Windows and macOS, simulated: programs run without what these systems lack."""

from pathlib import Path

import pytest

from nws_sweep.records import BatchCost
from tests.conftest import ROOT
from tests.factories import recorded_trial, search_result, store_run
from tests.hosts import run_host, write_training_host
from tests.roots import made_up

# Imported first is what would itself be another one on Windows.
WINDOWS = """\
import multiprocessing.managers, multiprocessing.queues, multiprocessing.resource_tracker, multiprocessing.sharedctypes
import asyncio, os, shutil, signal, socket, subprocess, sys, time, urllib.request
import filelock, hydra, matplotlib.font_manager, pandas, psutil, rich.console, torch.utils.data
kept = "SIGABRT SIGFPE SIGILL SIGINT SIGSEGV SIGTERM SIG_DFL SIG_IGN".split()
for name in [name for name in dir(signal) if name.startswith("SIG") and name not in kept]:
    delattr(signal, name)
for name in "fork getuid killpg setpgid register_at_fork sched_getaffinity posix_fadvise pread O_NOFOLLOW".split():
    delattr(os, name)
del signal.pthread_sigmask, socket.AF_UNIX, socket.send_fds, socket.recv_fds, time.clock_gettime
sys.modules |= dict.fromkeys(["fcntl", "resource", "pwd", "grp", "termios"])
sys.platform = "win32"
"""
# psutil reads /proc here and would ask the kernel there.
MACOS = """\
import builtins, io, os, sys


def hiding(function):
    def called(path=".", *arguments, **keywords):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if str(path).startswith(("/proc", "/dev/shm")) and not caller.startswith("psutil"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *arguments, **keywords)

    return called


builtins.open = io.open = hiding(open)
for name in ("open", "stat", "listdir", "scandir", "readlink"):
    setattr(os, name, hiding(getattr(os, name)))
import psutil, urllib.request
for name in ("sched_getaffinity", "posix_fadvise", "fdatasync"):
    delattr(os, name)
sys.platform = "darwin"
"""
TRAINING = """\
import sys
import nws_sweep
from nws_sweep import cli
from torch.utils.data import DataLoader

if __name__ == "__main__":
    loader = DataLoader(range(24), batch_size=4)
    for made in (nws_sweep.autotune(loader), nws_sweep.tune(loader, num_workers=[0, 1], reuse="never")):
        print(sum(map(len, made)), made is loader)
    try:
        found = nws_sweep.search(range(24), batch_size=4, num_workers=[0, 1])
        print({trial.num_workers: trial.state.value for trial in found.trials})
    except nws_sweep.NwsSweepError as error:
        print(error)
    for command in sys.argv[1:]:
        print(command, cli.run(command.split()), flush=True)
"""


def simulated(folder: Path, environment: dict[str, str], system: str) -> dict[str, str]:
    """The environment of programs in a folder that gets a ``sitecustomize.py``."""
    made_up(folder, {"sitecustomize.py": system})
    return environment | {"PYTHONPATH": f"{folder}:{ROOT}"}


@pytest.fixture
def windows(tmp_path: Path, environment: dict[str, str]) -> dict[str, str]:
    """Its temporary folder has none of the folders that searches of this machine have
    left."""
    return simulated(tmp_path, environment, WINDOWS) | {"TMPDIR": str(tmp_path)}


@pytest.mark.extended
def test_on_windows_the_loader_stays_files_are_read_and_no_search_runs(
    tmp_path: Path, windows: dict[str, str]
) -> None:
    record = search_result(recorded_trial(0, BatchCost(cpu_s=0.1, wait_s=0.1)))
    for name in ("a", "b"):
        store_run(tmp_path, record, name)
    reading, measuring = (
        ("report a", "best a", "compare a b", "predict a"),
        ("dataset=sleep", "-m seed=1,2"),
    )
    made_up(tmp_path, {"train.py": TRAINING})
    done = run_host(tmp_path, windows, *reading, *measuring)
    lines = done.stdout.splitlines()
    assert lines[:3] == ["24 True", "24 True", "searching needs Linux or macOS"]
    assert {*lines} >= {
        *(f"{command} 0" for command in reading),
        *(f"{command} 2" for command in measuring),
    }
    assert done.stderr.splitlines() == [
        "nws_sweep: autotuning needs Linux: the DataLoader is not changed",
        "nws_sweep: tuning needs Linux or macOS: the DataLoader is not changed",
        *2 * ["nws_sweep: searching needs Linux or macOS"],
    ]


@pytest.mark.extended
def test_on_windows_a_hydra_program_runs_unchanged(
    tmp_path: Path, windows: dict[str, str]
) -> None:
    folder = write_training_host(tmp_path)
    done = run_host(folder, windows, "+nws_sweep=autotune")
    first, *others = done.stdout.splitlines()
    assert first.endswith("[INFO] - autotuning needs Linux: the program runs unchanged")
    assert (others, done.stderr, done.returncode) == (
        ["seen 119", "seen 119", "left", "after main"],
        "",
        0,
    )


@pytest.mark.extended
def test_macos_searches_with_what_it_has(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    made_up(tmp_path, {"train.py": TRAINING})
    done = run_host(tmp_path, simulated(tmp_path, environment, MACOS))
    assert done.stdout.splitlines() == ["24 True", "24 False", "{0: 'ok', 1: 'ok'}"], (
        done.stderr
    )
    assert done.stderr.startswith(
        "nws_sweep: autotuning needs Linux: the DataLoader is not changed\n"
    )
    assert "Traceback" not in done.stderr
