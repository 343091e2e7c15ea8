"""The whole program is killed at random moments, and started again until it is done."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.system.program import GRID, Program, finished_trials, results, wait_until

KILLS = int(os.environ.get("NWS_SWEEP_TEST_KILLS", "50"))
# What is no measurement, and what says when and where it was made.
_MEASURED = ("measurement", "noise", "cost_s", "notes", "warnings", "bursts")


def asked_and_decided(folder: Path) -> dict[str, Any]:
    """All that is no measurement."""
    return {
        name: {
            "configuration": result["configuration"],
            "facts": result["facts"],
            "stop_reason": result["stop_reason"],
            "error": result["error"],
            "trials": sorted(
                ({key: value for key, value in trial.items() if key not in _MEASURED} for trial in result["trials"]),
                key=lambda trial: trial["settings"]["num_workers"],
            ),
        }
        for name, result in results(folder).items()
    }


def identifying(path: Path) -> list[dict[str, str]]:
    """The rows of results.csv without what was measured."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    kept = ("dataset", "batch_size", "pin_memory", "prefetch_factor", "patience", "num_workers", "state", "settings")
    return sorted(({key: row[key] for key in kept} for row in rows), key=lambda row: sorted(row.items()))


def test_fifty_kills_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    whole, torn = (Program(folder=tmp_path / name) for name in ("whole", "torn"))
    whole.folder.mkdir()
    torn.folder.mkdir()
    began = time.monotonic()
    assert whole.run(*GRID)[0] == 0
    lasts_s = time.monotonic() - began
    out, rng, grids = torn.folder / "out", random.Random(8), 0
    for _ in range(KILLS):
        known = finished_trials(out)
        ended = killed_after(torn, rng.uniform(0, lasts_s))
        after = finished_trials(out)
        assert {key: after.get(key) for key in known} == known, "a finished trial was lost or measured again"
        if ended is not None:
            assert ended == 0
            torn.check_nothing_left()  # of those before that were killed, too
            assert asked_and_decided(out) == asked_and_decided(whole.folder / "out")
            shutil.rmtree(out)
            grids += 1
    assert torn.run(*GRID)[0] == 0
    assert asked_and_decided(out) == asked_and_decided(whole.folder / "out")
    assert identifying(out / "results.csv") == identifying(whole.folder / "out" / "results.csv")
    assert not [path for path in out.rglob(".*-*") if path.is_file()], "something half-written is left"
    print(f"\n{KILLS} kills within {lasts_s:.0f} s of start, {grids} grids ended between them")


def killed_after(program: Program, seconds: float) -> int | None:
    """Starts the grid and kills it; its exit status if it ended by itself before."""
    process = program.start(*GRID, stdout=subprocess.DEVNULL)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        return None
    finally:
        program.check_no_process_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_finishes_writes_and_reports(tmp_path: Path, number: int) -> None:
    program = Program(folder=tmp_path)
    # A search goes on for seconds after its first trial; between two there is nothing to finish.
    grid = (*GRID, "dataset.length=4000", "measure.max_seconds=2")
    process = program.start(*grid)
    wait_until(lambda: finished_trials(tmp_path / "out"))
    os.kill(process.pid, number)
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert "finishing what is being measured" in printed
    assert "Best settings" in printed
    assert "Traceback" not in printed
    assert (tmp_path / "out" / "report.html").is_file()
    program.check_nothing_left()
    before = finished_trials(tmp_path / "out")
    assert program.run(*grid)[0] == 0
    after = finished_trials(tmp_path / "out")
    assert len(after) == 12
    assert {key: after[key] for key in before} == before


@pytest.mark.parametrize("everybody", [True, False])
def test_who_ends_all_processes_at_once_leaves_no_failed_trial(tmp_path: Path, everybody: bool) -> None:
    """A batch system's SIGTERM goes to all of them, a closed terminal's SIGHUP to the group."""
    program = Program(folder=tmp_path)
    process = program.start(*GRID)
    wait_until(lambda: finished_trials(tmp_path / "out"))
    time.sleep(0.5)
    if everybody:
        for one in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.terminate()
    else:
        os.killpg(process.pid, signal.SIGHUP)
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 128 + (signal.SIGTERM if everybody else signal.SIGHUP), printed
    program.check_nothing_left()
    assert {trial["state"] for trial in finished_trials(tmp_path / "out").values()} == {"ok"}
    assert program.run(*GRID)[0] == 0
    assert {trial["state"] for trial in finished_trials(tmp_path / "out").values()} == {"ok"}


def test_two_ctrl_c_end_it_now(tmp_path: Path) -> None:
    """While a window is measured that would take an hour."""
    program = Program(folder=tmp_path)
    endless = ("measure.window_s=3600", "measure.max_seconds=3600", "measure.timeout_s=null")
    process = program.start(*[text for text in GRID if not text.startswith("measure.")], *endless)
    wait_until(lambda: list((tmp_path / "out").rglob("result.json")))
    time.sleep(10)  # until it measures
    os.kill(process.pid, signal.SIGINT)
    time.sleep(3)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in printed
    program.check_nothing_left()
