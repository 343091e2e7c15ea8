"""Real processes that are paused, resumed, and killed with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from nws_sweep.system import processes
from tests.children import child, line_of, tell
from tests.conftest import ROOT

FAMILY = """
import os, time
if member := os.fork():
    print(member, flush=True)
time.sleep(600)
"""


def becomes(condition: Callable[[], bool]) -> bool:
    """Whether the condition becomes true within 20 s, far more than a signal takes."""
    deadline = time.monotonic() + 20.0
    while not (true := condition()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return true


def are_paused(*family: psutil.Process) -> bool:
    return all(member.status() == psutil.STATUS_STOPPED for member in family)


def test_a_process_group_is_paused_and_resumed() -> None:
    with child(FAMILY) as process:
        leader, member = psutil.Process(process.pid), psutil.Process(int(line_of(process)))
        processes.signal_group(member.pid, signal.SIGSTOP)  # not a group leader: its parent's group is not stopped
        assert not are_paused(leader, member)
        processes.signal_group(leader.pid, signal.SIGSTOP)
        assert becomes(lambda: are_paused(leader, member))
        processes.signal_group(leader.pid, signal.SIGCONT)
        assert becomes(lambda: not are_paused(leader) and not are_paused(member))
    processes.signal_group(leader.pid, signal.SIGSTOP)  # it has exited


ORPHANED = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.DEVNULL)
input()
"""
BOUND = """
import os, time
from nws_sweep.system import processes
processes.die_with_parent()
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("end", ["killed", "returns"])
def test_a_paused_process_is_killed_with_its_parent(end: str) -> None:
    with child(ORPHANED, BOUND) as parent:
        bound = psutil.Process(int(line_of(parent)))
        bound.suspend()
        assert becomes(lambda: are_paused(bound))
        assert processes.is_alive(bound)
        parent.kill() if end == "killed" else tell(parent)
        parent.wait()
        assert becomes(lambda: not processes.is_alive(bound))


FORKED = """
import multiprocessing, os
from multiprocessing import forkserver
from nws_sweep.system import processes

def main():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([])
    processes.start_fork_server()
    first = forkserver._forkserver._forkserver_pid
    pid = os.fork()
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
        processes.start_fork_server()
        assert forkserver._forkserver._forkserver_pid == first
        print("done", flush=True)
        return
    processes.start_fork_server()
    assert forkserver._forkserver._forkserver_pid != first
    worker = context.Process(target=print)
    worker.start()
    worker.join()
    os._exit(worker.exitcode)

if __name__ == "__main__":
    main()
"""


def test_a_forked_process_starts_a_fork_server_of_its_own(tmp_path: Path) -> None:
    """Python's own function waits for a process of the parent: ChildProcessError."""
    assert output_of(FORKED, tmp_path).split() == ["done"]


def output_of(program: str, folder: Path, *arguments: str) -> str:
    (folder / "program.py").write_text(program)
    return subprocess.run(
        [sys.executable, "program.py", *arguments], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    ).stdout  # fmt: skip


SIGNALLED = """
import multiprocessing, os, signal, time
from multiprocessing import forkserver
from nws_sweep.system import processes

received, ending, ensure_running = [], processes.ENDING_SIGNALS, forkserver.ensure_running

def start_and_signal():
    for number in ending:
        os.kill(os.getpid(), number)
    ensure_running()
    assert not received

def child():
    processes.restore_ending_signals()
    time.sleep(60)

def end_of_child():
    child_process = context.Process(target=child)
    child_process.start()
    os.kill(child_process.pid, signal.SIGTERM)  # perhaps before it restores its handlers
    while child_process.exitcode is None:
        time.sleep(0.01)
        child_process.terminate()
    return child_process.exitcode

if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([])
    for number in ending:
        signal.signal(number, lambda number, frame: received.append(number))
    forkserver.ensure_running = start_and_signal
    processes.start_fork_server()
    assert sorted(received) == sorted(ending)
    for number in ending:
        os.kill(forkserver._forkserver._forkserver_pid, number)
    assert end_of_child() == -signal.SIGTERM
    os.kill(os.getpid(), signal.SIGINT)
    assert received[-1] == signal.SIGINT and len(received) == 4
    print("done")
"""


def test_signals_during_the_start_of_the_fork_server_are_not_lost(tmp_path: Path) -> None:
    """Seen once: a cancelled job of Slurm continued. The fork server ignores the signals, its children do not."""
    assert output_of(SIGNALLED, tmp_path) == "done\n"


_ORPHAN = """
import multiprocessing, os, pathlib, signal, sys, time
from nws_sweep.system import processes

def child(parent, folder):
    (folder / "begun.part").write_text(str(os.getpid()))
    (folder / "begun.part").rename(folder / "begun")
    while os.getppid() == parent:  # then the kernel sends no signal any more
        time.sleep(0.01)
    processes.die_with_parent()
    (folder / "lives").touch()

if __name__ == "__main__":
    context, folder = multiprocessing.get_context(sys.argv[1]), pathlib.Path(sys.argv[2])
    context.Process(target=child, args=(os.getpid(), folder)).start()
    while not (folder / "begun").exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_whose_parent_was_killed_earlier_exits(tmp_path: Path, method: str) -> None:
    """Seen once in 443 kills: workers that had just been forked kept running."""
    output_of(_ORPHAN, tmp_path, method, str(tmp_path))
    pid = int((tmp_path / "begun").read_text())
    assert becomes(lambda: not processes.running([pid]))
    assert not (tmp_path / "lives").exists()
