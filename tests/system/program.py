"""The program as users start it, in a session of its own: to be killed, interrupted, and looked at afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent.parent
# Without Hydra's launchers, whose import takes a second; see scripts/setup-cluster.
PYTHON = str(Path(sys.prefix).parent / "bin" / "python") if Path(sys.prefix).name == "cluster" else sys.executable
# A sample is a sleep of 1 ms: three configurations of four candidates take some ten seconds.
GRID = (
    "-m", "batch_size=4,8,16", "search=exhaustive", "search.candidates=[0,1,2,4]", "dataset=sleep",
    "dataset.length=400", "dataset.seconds_per_sample=0.001", "measure.window_s=0.05", "measure.bursts=3",
    "measure.max_seconds=0.4", "hydra.sweep.dir=out",
)  # fmt: skip
_GONE_WITHIN_S = 120.0  # the server of arms sees that its parent is gone when it has imported torch
_MARK = "NWS_SWEEP_TEST_MARK"


@dataclass(kw_only=True)
class Program:
    """Starts ``python -m nws_sweep`` in a folder.

    Attributes:
        folder: Where it is started.
        environment: On top of the test's own; None removes a variable.
    """

    folder: Path
    environment: Mapping[str, str | None] = field(default_factory=dict)
    segments_before: frozenset[Path] = field(default_factory=lambda: frozenset(_segments_of_the_dead()))

    def start(self, *arguments: str, before: Sequence[str] = (), **how: Any) -> subprocess.Popen[str]:
        """Starts it, after the words of another command."""
        changed = {**os.environ, **self._own, **self.environment}
        return subprocess.Popen(
            [*before, PYTHON, "-m", "nws_sweep", *arguments],
            **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": self.folder, **how},
            env={key: value for key, value in changed.items() if value is not None},
            start_new_session=True,
        )  # fmt: skip

    @property
    def _own(self) -> dict[str, str]:
        return {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}",
            "NWS_SWEEP_CACHE_DIR": str(self.folder / "cache"),
            "NWS_SWEEP_LOCK_FILE": str(self.folder / "lock"),
            _MARK: str(self.folder),
        }

    def run(self, *arguments: str, timeout_s: float = 300, **how: Any) -> tuple[int, str]:
        """Runs it to its end: exit status, and what it printed on both channels."""
        process = self.start(*arguments, **how)
        printed, _ = process.communicate(timeout=timeout_s)
        self.check_nothing_left()
        return process.returncode, printed or ""

    def check_nothing_left(self) -> None:
        """No process of its own is alive, and no shared memory of one that is dead is left."""
        self.check_no_process_left()
        assert not set(_segments_of_the_dead()) - self.segments_before

    def check_no_process_left(self) -> None:
        """All that can be asked of a program that was killed: the next one removes what it had no time to remove."""
        deadline = time.monotonic() + _GONE_WITHIN_S
        while left := list(self._processes()):
            assert time.monotonic() < deadline, [_described(process) for process in left]
            time.sleep(0.05)

    def _processes(self) -> Iterator[psutil.Process]:
        """Whoever was started by the program, however far away, has inherited its environment."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_ours = process.environ().get(_MARK) == str(self.folder)
                if is_ours and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                    yield process


def _described(process: psutil.Process) -> str:
    try:
        return f"{process.pid} of {process.ppid()}, {process.status()}: {' '.join(process.cmdline())}"
    except psutil.Error as error:
        return repr(error)


def _segments_of_the_dead() -> Iterator[Path]:
    for path in Path("/dev/shm").glob("torch_*"):
        pid = path.name.split("_")[1]
        if pid.isdigit() and not psutil.pid_exists(int(pid)) and path.exists():
            yield path


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """Every result.json below a folder, by the name of its own folder."""
    return {path.parent.name: json.loads(path.read_text("utf-8")) for path in sorted(folder.rglob("result.json"))}


def finished_trials(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Every trial that was measured to its end, by configuration and num_workers."""
    return {
        (name, trial["settings"]["num_workers"]): trial
        for name, result in results(folder).items()
        for trial in result["trials"]
        if trial["finished"]
    }


def wait_until(condition: Any, timeout_s: float = 300.0) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)
