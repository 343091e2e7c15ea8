import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from nws_sweep.system import processes
from tests.children import child, line_of, tell
from tests.conftest import ROOT, becomes

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
        assert becomes(lambda: bound.status() == psutil.STATUS_STOPPED)
        assert processes.is_alive(bound)
        parent.kill() if end == "killed" else tell(parent)
        parent.wait()
        assert becomes(lambda: not processes.is_alive(bound))


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
def test_a_process_whose_parent_was_killed_earlier_exits(
    tmp_path: Path, method: str
) -> None:
    """Seen once in 443 kills: workers that had just been forked kept running."""
    (tmp_path / "program.py").write_text(_ORPHAN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "program.py", method, tmp_path],
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    pid = int((tmp_path / "begun").read_text())
    assert becomes(lambda: not processes.running([pid]))
    assert not (tmp_path / "lives").exists()
