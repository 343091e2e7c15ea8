"""Real processes for tests: small scripts that say when they are ready."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

from tests.conftest import ROOT

Child = subprocess.Popen[str]


@contextlib.contextmanager
def child(script: str, *arguments: object) -> Iterator[Child]:
    """A script in a Python and a process group of its own; the whole group is killed at the end."""
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


def tell(process: Child, line: str = "") -> None:
    """Lets a script go on that waits in input()."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
