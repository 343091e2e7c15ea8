"""Real processes for tests: small scripts that say when they are ready."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.conftest import ROOT

Child = subprocess.Popen[str]


@contextlib.contextmanager
def child(script: str, *arguments: object) -> Iterator[Child]:
    """A script in a Python and a process group of its own; the whole group is killed at
    the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def line_of(process: Child) -> str:
    """Its next line; an empty one, if it has died, fails the test here."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "the child gave no line"
    return line


def as_user(user: int, act: Callable[[], object]) -> int:
    """The exit status of a forked process that does something as another user; only
    root can."""
    if process := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        os.setgid(user)
        os.setuid(user)
        act()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder such as /tmp, where all users may write; pytest's are closed to them."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o1777)
        yield Path(name)


def tell(process: Child, line: str = "") -> None:
    """Lets a script go on that waits in input()."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
