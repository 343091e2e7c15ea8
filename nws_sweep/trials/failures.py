"""Turns what fails in a trial process into errors for the program, and finds workers
whose exit explains a failure."""

import ast
import contextlib
import re
import signal
import sysconfig
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nws_sweep.errors import TrialError, one_line
from nws_sweep.system import fork_server

_EXITED_WITHIN_S, _POLL_S = 1.0, 0.005
# in the path of code that is not the user's
_FOREIGN = (
    "/site-packages/",
    "/dist-packages/",
    f"{sysconfig.get_path('stdlib')}/",
    f"{Path(__file__).parents[1]}/",
    "<",  # made from text
)
_FRAME = re.compile(r'^  File "(.*)", line (\d+), in (.*)$', re.MULTILINE)

Frame = tuple[str, int, str]  # file, line, and name of the function


def describe(error: BaseException) -> str:
    """Returns one line: the class and message of the exception, or of the original
    exception in a worker, and the place in the user's code, if any:
    ``ValueError: bad jpeg 77 in Photos.__getitem__ (photos.py:6)``."""
    return _what_failed(error) + _where(_frames(error))


def _is_of_worker(text: str) -> bool:
    return text.startswith("Caught ") and "in DataLoader worker process" in text


def _frames(error: BaseException) -> list[Frame]:
    """Lists the frames of the traceback; of a worker, those in the text."""
    text = str(error)
    if _is_of_worker(text):
        return [(file, int(line), name) for file, line, name in _FRAME.findall(text)]
    return [
        (frame.filename, frame.lineno or 0, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
    ]


def _where(frames: Iterable[Frame]) -> str:
    """Names the innermost frame of the user's code; empty if there is none."""
    of_user = [
        frame for frame in frames if not any(part in frame[0] for part in _FOREIGN)
    ]
    if not of_user:
        return ""
    file, line, name = of_user[-1]
    return f" in {_class_at(file, line)}{name} ({Path(file).name}:{line})"


def _class_at(file: str, line: int) -> str:
    """Finds the class whose body has the line, as ``Photos.``: the text of a worker
    lacks it. Empty without one, or if the file cannot be read."""
    name = ""
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(Path(file).read_bytes())):
            if isinstance(node, ast.ClassDef) and node.lineno <= line <= (
                node.end_lineno or 0
            ):
                name = f"{node.name}."
    return name


def _what_failed(error: BaseException) -> str:
    text = str(error)
    if _is_of_worker(text):
        # The class and the message, which may have several lines, follow the frames
        # of the traceback.
        *_, original = re.split(r'^  File ".*\n(?: .*\n)*', text, flags=re.MULTILINE)
        return one_line(original)
    if not text.strip():
        return type(error).__name__
    return one_line(f"{type(error).__name__}: {text}")


def as_trial_error(error: Exception) -> tuple[TrialError, int | None]:
    """Returns the exception as a TrialError, and the number of the signal that killed a
    worker, if one did."""
    trial_error = TrialError(describe(error))
    killed = re.search(
        r"DataLoader worker .* is killed by signal: ([^.]*)\.", str(error)
    )
    if killed:
        for number in signal.valid_signals():
            if signal.strsignal(number) == killed[1]:  # torch gives only the name
                return trial_error, int(number)
    return trial_error, None


class WorkerExits:
    """Enables torch's SIGCHLD handler only while a command runs.

    The handler raises an exception wherever the process is; between two bytes of an
    answer that would end the process.
    """

    _handler: Any = None

    def disable(self) -> None:
        """Removes the handler."""
        while signal.getsignal(signal.SIGCHLD) is not fork_server.ignore:
            # raised by its last call; the DataLoader has noticed the exit too
            with contextlib.suppress(RuntimeError):
                self._handler = signal.signal(signal.SIGCHLD, fork_server.ignore)

    def enable(self) -> None:
        """Installs the handler and calls it once for workers that exited while it was
        disabled."""
        if callable(self._handler):
            signal.signal(signal.SIGCHLD, self._handler)
            self._handler(signal.SIGCHLD, None)

    def cause_of(self, error: Exception) -> Exception:
        """Returns the exit of a worker, if torch names its signal or it explains a lost
        connection; else the error."""
        if isinstance(error.__cause__, RuntimeError) and str(
            error.__cause__
        ).startswith("DataLoader worker"):
            return error.__cause__
        if not isinstance(error, ConnectionError | EOFError) or not callable(
            self._handler
        ):
            return error
        # the connection is lost a moment before the worker has exited
        deadline_s = time.monotonic() + _EXITED_WITHIN_S
        while time.monotonic() < deadline_s:
            try:
                self._handler(signal.SIGCHLD, None)
            except RuntimeError as worker_exit:
                return worker_exit
            time.sleep(_POLL_S)
        return error
