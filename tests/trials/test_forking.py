"""Obstacles to forking a process."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nws_sweep.system import processes
from nws_sweep.trials import forking
from tests.conftest import ROOT


def test_threads_files_and_children_are_obstacles(tmp_path: Path) -> None:
    before, done = forking.footprint(), threading.Event()
    with (
        (tmp_path / "data").open("w") as file,
        subprocess.Popen(["sleep", "60"]) as process,
    ):
        thread = threading.Thread(target=done.wait, name="waiting")
        thread.start()
        try:
            assert forking.obstacle_since(before).split(", ") == [
                f"child process {process.pid}",
                f"open file {file.fileno()} {file.name}",
                f"thread {thread.native_id} (waiting of threading)",
            ]
        finally:
            process.kill()
            done.set()
            thread.join()
    assert forking.obstacle_since(before) == ""


_PROGRAM = """
import mmap, multiprocessing, os, socket, sqlite3, subprocess, sys, threading
import numpy
from nws_sweep.trials import forking

kept = [sqlite3.connect("data"), open("data", "rb"), open("/dev/urandom", "rb"), multiprocessing.RLock()]
numpy.ones((500, 500)) @ numpy.ones((500, 500))
exec(sys.argv[1])
with subprocess.Popen(["sleep", "60"]) as child:
    print(forking.obstacle_in_program())
    child.kill()
"""
_OF_A_THREAD = (
    "threading.Thread(target=threading.Event().wait, name='beat', daemon=True).start()"
)
_OF_A_PROCESS = "vars(multiprocessing.current_process())['_config'].update(daemon=True)"


@pytest.mark.parametrize(
    ("made", "obstacle"),
    [
        ("", ""),
        (_OF_A_THREAD, r"thread \d+ \(beat of threading\)"),
        (
            "import torch; torch.set_num_threads(2); torch.zeros(2000, 2000).mean()",
            r"(thread \d+ \(of a library\)(, )?)+",
        ),
        ("kept.append(socket.socket())", r"open file \d+ socket:\[\d+\]"),
        ("os.pipe()", r"open file \d+ pipe:\[\d+\], open file \d+ pipe:\[\d+\]"),
        (
            "kept.append(mmap.mmap(-1, 4096))",
            r"shared memory [-0-9a-f]+ /dev/zero \(deleted\)",
        ),
        (_OF_A_PROCESS, "this process is daemonic, .*"),
    ],
)
def test_what_forks_of_a_program_would_share_or_lack_is_an_obstacle_but_files_and_what_it_was_started_with_are_not(
    tmp_path: Path, made: str, obstacle: str
) -> None:
    (tmp_path / "data").touch()
    inherited, other = os.pipe()
    command = [sys.executable, "-c", _PROGRAM, made]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    found = subprocess.check_output(
        command, text=True, cwd=tmp_path, pass_fds=[inherited, other], env=environment
    )
    os.close(inherited)
    os.close(other)
    assert re.fullmatch(obstacle, found.strip())


def test_a_device_is_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "_threads", lambda: ())
    monkeypatch.setattr(
        processes, "open_files", lambda *_: {7: "/dev/nvidiactl", 8: "/dev/null"}
    )
    assert "open file 7 /dev/nvidiactl" in forking.obstacle_in_program()
    assert "/dev/null" not in forking.obstacle_in_program()


def test_a_fork_takes_the_least_of_several_readings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first forks of a program, and forks of a busy machine, take longer."""
    readings_s = iter([0.084, 0.020, 0.008, 0.009, 0.001])
    monkeypatch.setattr(forking, "_fork", lambda: next(readings_s))
    assert forking.seconds_of_a_fork() == 0.008


_WITH_OPENBLAS = """
import os, sys, threading
import numpy
from nws_sweep.trials import forking

if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
before, done = forking.footprint(), threading.Event()
threading.Thread(target=done.wait).start()
print("with a thread:", forking.obstacle_since(before).split()[0])
done.set()
numpy.ones((500, 500)) @ numpy.ones((500, 500))
print("after BLAS:", forking.obstacle_since(before))
"""


def test_threads_of_openblas_which_it_ends_before_a_fork_neither_are_nor_hide_an_obstacle() -> (
    None
):
    four_threads = os.environ | {"OPENBLAS_NUM_THREADS": "4"}
    found = subprocess.check_output(
        [sys.executable, "-c", _WITH_OPENBLAS], text=True, env=four_threads
    )
    assert found == "with a thread: thread\nafter BLAS: \n"
