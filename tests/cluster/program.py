"""The program as users start it, in its own session; tests kill and interrupt it and
read its files."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from nws_sweep.records import storage
from tests.conftest import ROOT, becomes, orphaned_segments

# Without Hydra's launchers, whose import takes a second; see scripts/setup-cluster.
PYTHON = (
    str(Path(sys.prefix).parent / "bin" / "python")
    if Path(sys.prefix).name == "cluster"
    else sys.executable
)
# A sample sleeps 1 ms: two configurations of three candidates take about five seconds.
GRID = (
    "-m", "batch_size=4,8", "strategy=exhaustive", "num_workers=[0,1,2]", "dataset=sleep", "dataset.length=200",
    "dataset.seconds_per_sample=0.001", "measure.window_s=0.05", "measure.windows=3", "measure.trial_limit_s=0.4",
    "hydra.sweep.dir=out",
)  # fmt: skip
TRIALS = 6
# For launchers, whose jobs take longer to start than to measure.
SMALL = ("-m", "dataset=sleep", "dataset.seconds_per_sample=0.0005", "measure=quick", "max_workers=1",
         "hydra.sweep.dir=grid")  # fmt: skip
TIMEOUT_S = 300
# the fork server notices its parent's exit after importing torch
_GONE_WITHIN_S = 120.0
_MARK = "NWS_SWEEP_TEST_MARK"


@dataclass(kw_only=True)
class Program:
    """Starts ``python -m nws_sweep`` in a folder; ``environment`` is added to the
    test's own."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    python: str = PYTHON
    segments_before: set[Path] = field(default_factory=orphaned_segments)

    def start(
        self, *arguments: str, before: Sequence[str] = (), **how: Any
    ) -> subprocess.Popen[str]:
        """Starts it; ``before`` is a command that starts it, such as unshare."""
        own = {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}",
            "NWS_SWEEP_CACHE_DIR": str(self.folder / "cache"),
            "NWS_SWEEP_LOCK_FILE": str(self.folder / "lock"),
            _MARK: str(self.folder),
        }
        return subprocess.Popen(
            [*before, self.python, "-m", "nws_sweep", *arguments],
            **{
                "stdout": subprocess.PIPE,
                "stderr": subprocess.STDOUT,
                "text": True,
                "cwd": self.folder,
                **how,
            },
            env={**os.environ, **own, **self.environment},
            start_new_session=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        return self.end_of(self.start(*arguments))

    def end_of(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Exit status and output of a started program; checks that nothing is left and
        no traceback printed."""
        printed, _ = process.communicate(timeout=TIMEOUT_S)
        assert "Traceback" not in (printed or ""), printed
        self.check_nothing_left()
        return process.returncode, printed or ""

    def check_nothing_left(self) -> None:
        """No process and no shared memory of it is left; other tests' programs remove
        theirs when they start again."""
        self.check_no_process_left()
        wait_until(
            lambda: not orphaned_segments() - self.segments_before, _GONE_WITHIN_S
        )

    def check_no_process_left(self) -> None:
        """No process of it is left. The next program removes the files of a killed
        one."""
        wait_until(lambda: not self.processes(), _GONE_WITHIN_S, step_s=0.2)

    def processes(self) -> list[psutil.Process]:
        """All its processes, by a variable that they inherit."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_ours = process.environ().get(_MARK) == str(self.folder)
                if (
                    is_ours
                    and process.pid != os.getpid()
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
        return found


def results(folder: Path) -> dict[int, dict[str, Any]]:
    """Every result.json below a folder, by batch size."""
    found = [
        json.loads(path.read_text("utf-8"))
        for path in sorted(folder.rglob(storage.RESULT))
    ]
    return {result["configuration"]["loader"]["batch_size"]: result for result in found}


def has_started(folder: Path, batch_size: int) -> bool:
    return any(
        f"batch_size={batch_size}," in path.parent.name
        for path in folder.glob(f"*/{storage.RESULT}")
    )


def complete(folder: Path) -> dict[int, bool]:
    return {
        size: bool(result["stop_reason"]) and not result["error"]
        for size, result in results(folder).items()
    }


def finished_trials(folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    return {
        (size, trial["settings"]["num_workers"]): trial
        for size, result in results(folder).items()
        for trial in result["trials"]
        if trial["finished"]
    }


def wait_until(
    condition: Callable[[], Any], timeout_s: float = TIMEOUT_S, step_s: float = 0.05
) -> None:
    assert becomes(condition, timeout_s, step_s), f"not true within {timeout_s} s"
