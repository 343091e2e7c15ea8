"""Standard channels that are closed, in ASCII, or read by nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest

_CODE = """
import os, subprocess, sys
from nws_sweep import channels
channels.prepare()
print("5.0 ms ±8 % … 世")
file = open(os.devnull)
child = subprocess.run([sys.executable, "-c", "import os; os.fstat(0), os.fstat(1), os.fstat(2)"])
sys.stdout.flush(); os._exit(10 * (file.fileno() > 2) + (child.returncode == 0))
"""


@pytest.mark.parametrize("closed", ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_channels_are_open_here_and_in_children(closed: str) -> None:
    """A file that got the number of standard output would get what is printed."""
    done = subprocess.run(["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, _CODE], check=False)
    assert done.returncode == 11


@pytest.mark.parametrize(
    ("encoding", "expected"), [("ascii", b"5.0 ms +-8 % ... ?\n"), ("latin-1", b"5.0 ms \xb18 % ... ?\n")]
)
def test_what_an_encoding_lacks_is_told_in_ascii(encoding: str, expected: bytes) -> None:
    command = [sys.executable, "-X", "utf8=0", "-c", _CODE]
    done = subprocess.run(command, env={"PYTHONIOENCODING": encoding}, capture_output=True, check=False)
    assert done.stdout == expected


def test_utf_8_stays_as_it_is() -> None:
    code = "from nws_sweep import channels; channels.prepare(); print('±…世')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONIOENCODING": "utf-8"}, capture_output=True, check=True
    )
    assert done.stdout.decode() == "±…世\n"
