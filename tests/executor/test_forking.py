"""Obstacles to forking a process."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nws_sweep.executor import forking


def test_threads_files_and_children_are_obstacles(tmp_path: Path) -> None:
    before, done = forking.footprint(), threading.Event()
    with (tmp_path / "data").open("w") as file, subprocess.Popen(["sleep", "60"]) as process:
        thread = threading.Thread(target=done.wait)
        thread.start()
        try:
            found = forking.obstacle_since(before).split(", ")
            assert [one.rsplit(" ", 1)[0] for one in found] == ["child process", f"open file {file.fileno()}", "thread"]
        finally:
            process.kill()
            done.set()
            thread.join()
    assert forking.obstacle_since(before) == ""


def test_a_fork_takes_the_least_of_several_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first forks of a program, and forks of a busy machine, take longer."""
    readings_s = iter([0.084, 0.020, 0.008, 0.009, 0.001])
    monkeypatch.setattr(forking, "_fork", lambda: next(readings_s))
    assert forking.seconds_of_a_fork() == 0.008


_WITH_OPENBLAS = """
import os, sys, threading
import numpy
from nws_sweep.executor import forking

if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
before, done = forking.footprint(), threading.Event()
threading.Thread(target=done.wait).start()
print("with a thread:", forking.obstacle_since(before).split()[0])
done.set()
numpy.ones((500, 500)) @ numpy.ones((500, 500))
print("after BLAS:", forking.obstacle_since(before))
"""


def test_threads_of_openblas_which_it_ends_before_a_fork_neither_are_nor_hide_an_obstacle() -> None:
    four_threads = os.environ | {"OPENBLAS_NUM_THREADS": "4"}
    found = subprocess.check_output([sys.executable, "-c", _WITH_OPENBLAS], text=True, env=four_threads)
    assert found == "with a thread: thread\nafter BLAS: \n"
