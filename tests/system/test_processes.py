"""Real processes that are stopped, go on, and die with their parent."""

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
    """Whether it comes true within far more than a signal takes on a busy machine."""
    deadline = time.monotonic() + 20.0
    while not (true := condition()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return true


def pause(*family: psutil.Process) -> bool:
    return all(member.status() == psutil.STATUS_STOPPED for member in family)


def test_a_process_and_its_workers_stand_still_until_they_are_told_to_go_on() -> None:
    with child(FAMILY) as process:
        leader, member = psutil.Process(process.pid), psutil.Process(int(line_of(process)))
        processes.signal_group(member.pid, signal.SIGSTOP)  # leads no group: that of its parent is not stopped
        assert not pause(leader, member)
        processes.signal_group(leader.pid, signal.SIGSTOP)
        assert becomes(lambda: pause(leader, member))
        processes.signal_group(leader.pid, signal.SIGCONT)
        assert becomes(lambda: not pause(leader) and not pause(member))
    processes.signal_group(leader.pid, signal.SIGSTOP)  # which is dead


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
def test_a_process_dies_with_its_parent_even_while_it_stands_still(end: str) -> None:
    with child(ORPHANED, BOUND) as parent:
        bound = psutil.Process(int(line_of(parent)))
        bound.suspend()
        assert becomes(lambda: pause(bound))
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


def test_a_process_that_was_forked_from_one_with_a_fork_server_starts_its_own(tmp_path: Path) -> None:
    """Python's own would wait for its parent's child: ChildProcessError."""
    assert output_of(FORKED, tmp_path).split() == ["done"]


def output_of(program: str, folder: Path, *arguments: str) -> str:
    (folder / "program.py").write_text(program)
    return subprocess.run(
        [sys.executable, "program.py", *arguments], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    ).stdout  # fmt: skip


TOLD = """
import multiprocessing, os, signal, time
from multiprocessing import forkserver
from nws_sweep.system import processes

heard, ending, ensure_running = [], processes.ENDING_SIGNALS, forkserver.ensure_running

def told_meanwhile():
    for number in ending:
        os.kill(os.getpid(), number)
    ensure_running()
    assert not heard

def child():
    processes.restore_ending_signals()
    time.sleep(60)

def end_of_child():
    child_process = context.Process(target=child)
    child_process.start()
    os.kill(child_process.pid, signal.SIGTERM)  # perhaps before it hears
    while child_process.exitcode is None:
        time.sleep(0.01)
        child_process.terminate()
    return child_process.exitcode

if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([])
    for number in ending:
        signal.signal(number, lambda number, frame: heard.append(number))
    forkserver.ensure_running = told_meanwhile
    processes.start_fork_server()
    assert sorted(heard) == sorted(ending)
    for number in ending:
        os.kill(forkserver._forkserver._forkserver_pid, number)
    assert end_of_child() == -signal.SIGTERM
    os.kill(os.getpid(), signal.SIGINT)
    assert heard[-1] == signal.SIGINT and len(heard) == 4
    print("done")
"""


def test_what_the_program_is_told_while_the_fork_server_starts_is_not_lost(tmp_path: Path) -> None:
    """Seen once: a cancelled job of Slurm went on. The server is deaf to it, its children are not."""
    assert output_of(TOLD, tmp_path) == "done\n"


_ORPHAN = """
import multiprocessing, os, pathlib, signal, sys, time
from nws_sweep.system import processes

def child(parent, folder):
    (folder / "begun.part").write_text(str(os.getpid()))
    (folder / "begun.part").rename(folder / "begun")
    while os.getppid() == parent:  # until it is too late to be told by the kernel
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
def test_a_process_whose_parent_was_killed_before_it_could_say_anything_ends(tmp_path: Path, method: str) -> None:
    """Seen once in 443 kills: workers that had just been forked lived on."""
    output_of(_ORPHAN, tmp_path, method, str(tmp_path))
    pid = int((tmp_path / "begun").read_text())
    assert becomes(lambda: not processes.running([pid]))
    assert not (tmp_path / "lives").exists()
