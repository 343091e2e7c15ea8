import contextlib
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

from tests.cluster.program import (
    GRID,
    TIMEOUT_S,
    TRIALS,
    Program,
    finished_trials,
    results,
    wait_until,
)
from tests.conftest import Command, rounds

KILLS = rounds(6)
SEED = random.randrange(10**6)
_MEASURED = ("loop", "spans", "measurement", "noise", "cost_s", "notes", "warnings")


def decisions(folder: Path) -> dict[int, Any]:
    """The parts of the results that are no measurements."""
    return {
        size: {
            **{
                key: result[key]
                for key in ("configuration", "facts", "stop_reason", "error")
            },
            "trials": sorted(
                (
                    {key: value for key, value in trial.items() if key not in _MEASURED}
                    for trial in result["trials"]
                ),
                key=lambda trial: trial["settings"]["num_workers"],
            ),
        }
        for size, result in results(folder).items()
    }


def test_kills_at_random_moments_lose_nothing(program: Program) -> None:
    began = time.monotonic()
    assert program.run(*GRID)[0] == 0
    lasts_s = time.monotonic() - began
    out = program.folder / "out"
    whole = decisions(out.rename(program.folder / "whole"))
    print(f"{KILLS} kills within {lasts_s:.0f} s of start, seed {SEED}")
    rng = random.Random(SEED)
    for _ in range(KILLS):
        known = finished_trials(out)
        has_ended = killed_after(program, rng.uniform(0, lasts_s))
        after = finished_trials(out)
        assert {key: after.get(key) for key in known} == known, (
            "a finished trial was lost or measured again"
        )
        if has_ended:
            program.check_nothing_left()  # also of the earlier, killed programs
            assert decisions(out) == whole
            shutil.rmtree(out)
    assert program.run(*GRID)[0] == 0
    assert decisions(out) == whole
    assert not [path for path in out.rglob(".*-*") if path.is_file()], (
        "a partly written file is left"
    )


def killed_after(program: Program, seconds: float) -> bool:
    """Starts the grid and kills it after so many seconds; True if it had ended
    before."""
    process = program.start(*GRID, stdout=subprocess.DEVNULL)
    try:
        assert process.wait(seconds) == 0
        return True
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    finally:
        program.check_no_process_left()


@pytest.mark.parametrize(
    ("number", "whom"),
    [
        (signal.SIGINT, "group"),  # Ctrl-C in a terminal
        (signal.SIGTERM, "it"),
        (signal.SIGTERM, "all"),  # as batch systems send it
    ],
)
def test_a_signal_leads_to_the_report(
    program: Program, shared_nws: Command, number: signal.Signals, whom: str
) -> None:
    # One candidate after the other: a search continues for seconds after its first
    # trial. Between two searches there is no window to finish.
    longer = (
        "dataset.length=4000",
        "measure.trial_limit_s=2",
        "measure.interleave=1",
        "measure.windows=9",
    )
    grid, out = (*GRID, *longer), program.folder / "out"
    process = program.start(*grid)
    wait_until(lambda: finished_trials(out))
    if whom == "group":
        os.killpg(process.pid, number)
    for one in (
        program.processes() if whom == "all" else [process] if whom == "it" else []
    ):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.send_signal(number)
    status, printed = program.end_of(process)
    assert status == 128 + number, printed
    assert whom != "it" or "Finishing the current measurement" in printed
    assert "\nreport " in printed
    assert "did not finish" in (out / "report.md").read_text("utf-8")
    before = finished_trials(out)
    assert shared_nws(*grid).returncode == 0
    after = finished_trials(out)
    assert [trial["state"] for trial in after.values()] == ["ok"] * TRIALS
    assert {key: after[key] for key in before} == before


def test_a_second_ctrl_c_ends_it_at_once(program: Program) -> None:
    endless = (
        "dataset.length=1000000", "measure.window_s=3600", "measure.trial_limit_s=3600", "measure.kill_after_s=null"
    )  # fmt: skip
    process = program.start(
        *(text for text in GRID if not text.startswith(("measure.", "dataset.length"))),
        *endless,
    )
    wait_until(lambda: results(program.folder / "out"))
    time.sleep(5)  # until the window has started
    os.kill(process.pid, signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    os.kill(process.pid, signal.SIGINT)
    began = time.monotonic()
    assert program.end_of(process)[0] == 130
    assert time.monotonic() - began < TIMEOUT_S / 3
