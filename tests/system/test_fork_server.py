import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest

from nws_sweep.system import fork_server, processes
from nws_sweep.system.fork_server import ForkedProcess
from tests import forked
from tests.children import child, line_of
from tests.conftest import ROOT, run_python
from tests.forked import WITHIN_S


def own_server() -> Any:
    return fork_server.ensure_running(
        ["tests.forked", "no_such_module", ".raises_type_error"]
    )


def fork(
    function: Callable[..., None], *arguments: Any, server: Connection | None = None
) -> ForkedProcess:
    return fork_server.fork(
        server or own_server().connection,
        f"tests.forked:{function.__name__}",
        *arguments,
    )


def test_a_process_has_the_state_of_a_child_and_what_its_program_passes() -> None:
    assert fork(forked.report_state).connection.recv() == {
        "arguments": sys.argv,
        "key": bytes(multiprocessing.current_process().authkey),
        # the program's main module is not run again, neither here nor in spawned
        # workers
        "main": (None, None),
        "is child": True,
        "handler": signal.SIG_DFL,
        "threads": ["MainThread"],
        "input": "",
    }


def test_a_fork_that_fails_is_reported_and_does_not_end_the_server() -> None:
    template = fork(forked.serve_without_memory)
    template.connection.recv()
    for _ in range(2):
        with pytest.raises(BlockingIOError, match="too many processes"):
            fork(forked.sleep, server=template.connection)


def test_a_killed_server_is_replaced() -> None:
    server = own_server()
    assert own_server() is server
    assert server.is_ready(WITHIN_S)
    assert server.is_ready(0)
    server.process.kill()
    server.process.wait()
    assert fork(forked.end, "returns").pid
    assert own_server() is not server


def output_of(program: str, folder: Path) -> str:
    (folder / "program.py").write_text(program)
    done = run_python(
        folder, os.environ | {"PYTHONPATH": str(ROOT)}, "-W", "error", "program.py"
    )
    return done.stdout + done.stderr


_FORKED = """
import os, psutil, sys
from nws_sweep.system import fork_server
server = fork_server.ensure_running([])
pid = os.fork()
if not pid:
    own = fork_server.ensure_running([])
    process = fork_server.fork(own.connection, "tests.forked:end", "exits")
    process.join(20)
    sys.exit(process.exitcode if own.process.pid != server.process.pid else "one server")
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
assert fork_server.ensure_running([]) is server
assert server.process.poll() is None
print(*[each.pid for each in psutil.Process().children(recursive=True)])
"""


def test_a_forked_program_has_a_server_of_its_own_and_each_server_exits_with_its_program(
    tmp_path: Path,
) -> None:
    """The output has no warning of a process that still runs."""
    pids = [int(pid) for pid in output_of(_FORKED, tmp_path).split()]
    assert pids
    assert not processes.running(pids, WITHIN_S)


_KILLED = """
import contextlib, os, psutil, signal, sys, time
from nws_sweep.system import fork_server
with fork_server.forked_program([]) if sys.argv[1] == "fork" else contextlib.nullcontext():
    server = fork_server.ensure_running([])
    template = fork_server.fork(server.connection, "tests.forked:serve")
    template.connection.recv()
    family = [psutil.Process().children()[0].pid, template.pid]
    for of in (server, template):
        process = fork_server.fork(of.connection, "tests.forked:sleep_with_a_process")
        family += [process.pid, process.connection.recv()]
        os.killpg(process.pid, signal.SIGSTOP)
    print(*family, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("server", ["new process", "fork"])
def test_all_processes_exit_with_a_killed_program_even_if_paused(server: str) -> None:
    with child(_KILLED, server) as program:
        pids = [int(pid) for pid in line_of(program).split()]
        os.killpg(program.pid, signal.SIGKILL)
        assert not processes.running(pids, WITHIN_S)


def test_a_worker_of_a_killed_process_is_reaped() -> None:
    """In a container the program may be the first process, which gets such workers, and
    does not reap them."""
    server = own_server()
    process = fork(forked.sleep_with_a_process)
    worker = psutil.Process(process.connection.recv())
    process.kill()
    process.join(WITHIN_S)
    assert worker.ppid() == server.process.pid
    worker.kill()
    assert worker.wait(WITHIN_S) is None


_SIGNALLED = """
import os, signal, subprocess
from nws_sweep.system import fork_server, processes

received, popen = [], subprocess.Popen

def start_and_signal(*arguments, **named):
    for number in processes.ENDING_SIGNALS:
        os.kill(os.getpid(), number)
    process = popen(*arguments, **named)
    for number in processes.ENDING_SIGNALS:
        process.send_signal(number)
    assert not received
    return process

for number in processes.ENDING_SIGNALS:
    signal.signal(number, lambda number, frame: received.append(number))
subprocess.Popen = start_and_signal
server = fork_server.ensure_running([])
assert sorted(received) == sorted(processes.ENDING_SIGNALS)
process = fork_server.fork(server.connection, "tests.forked:sleep")
process.connection.recv()
for number in processes.ENDING_SIGNALS:
    server.process.send_signal(number)
os.kill(process.pid, signal.SIGTERM)
process.join(20)
print(process.exitcode, server.process.poll())
"""


def test_signals_during_the_start_are_not_lost_and_do_not_end_the_server(
    tmp_path: Path,
) -> None:
    """Seen once: a cancelled job of Slurm continued. Processes of the server can be
    ended."""
    assert output_of(_SIGNALLED, tmp_path) == f"{-signal.SIGTERM} None\n"


_FORK_OF_PROGRAM = """
import atexit, psutil, signal
from nws_sweep.system import fork_server
from tests import forked

forked.held = "in memory"
atexit.register(print, "the program exits")
signal.signal(signal.SIGUSR1, lambda *_: print("a handler of the program"))
print("printed once")
with fork_server.forked_program([]):
    family = psutil.Process().children()
    process = fork_server.fork(fork_server.ensure_running([]).connection, "tests.forked:report_held")
    print(process.connection.recv())
    family[0].send_signal(signal.SIGUSR1)
    process.join(20)
    print(process.exitcode)
print([each for each in family if each.is_running()])
"""


def test_a_fork_of_the_program_has_its_memory_does_nothing_of_its_own_and_ends_with_the_block(
    tmp_path: Path,
) -> None:
    lines = ("printed once", "in memory", "0", "[]", "the program exits", "")
    assert output_of(_FORK_OF_PROGRAM, tmp_path) == "\n".join(lines)


_CLOSED_STREAMS = """
import os, pathlib, sys
os.closerange(0, 3)
sys.stdout = sys.stderr = None
sys.path.append(pathlib.Path())
from nws_sweep.system import fork_server
process = fork_server.fork(fork_server.ensure_running([]).connection, "tests.forked:redirect")
os._exit(process.connection.recv())
"""


def test_processes_of_a_program_without_streams_and_with_a_path_that_imports_ignore_keep_their_connection() -> (
    None
):
    command = [sys.executable, "-c", _CLOSED_STREAMS]
    assert (
        subprocess.run(
            command, cwd=ROOT, timeout=60, check=False, stderr=subprocess.DEVNULL
        ).returncode
        == 7
    )


_SEMAPHORE = """
from nws_sweep.system import fork_server
process = fork_server.fork(fork_server.ensure_running([]).connection, "tests.forked:hold_a_semaphore")
print(process.connection.recv())
process.kill()
"""


def test_the_semaphore_of_a_killed_process_is_removed_without_a_warning(
    tmp_path: Path,
) -> None:
    assert output_of(_SEMAPHORE, tmp_path) == "made\n"
