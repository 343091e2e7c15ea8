"""Real faults of machines: full disks, lost folders, processes that exit. None prints a
traceback or leaves anything.

Tests that end no process of the program run it in a shared process, which has imported
torch.
"""

import contextlib
import csv
import shutil
import textwrap
from pathlib import Path

import pytest

from tests.cluster.program import (
    GRID,
    TRIALS,
    Program,
    finished_trials,
    results,
    wait_until,
)
from tests.conftest import ROOT, Command
from tests.one_process import SharedProcess


def states(folder: Path) -> list[str]:
    with (folder / "results.csv").open(newline="") as file:
        return [row["state"] for row in csv.DictReader(file)]


def test_a_full_disk_is_reported_and_keeps_finished_trials(program: Program) -> None:
    """Full at Hydra's first file, the first trial, the second configuration, the
    report."""
    script = """
        mkdir out && mount -t tmpfs -o size=4k tmpfs out
        for size in 12k 40k 72k 200k 100m; do
            mount -o remount,size=$size out
            "$@" 2>&1; echo "status $? with $size"
            cp -r out $size
        done
    """
    before = (
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
    )
    _, printed = program.end_of(program.start(*GRID, before=before))
    if "unshare:" in printed or "mount:" in printed:
        pytest.skip(f"no mount namespaces here: {printed.strip()}")
    assert "Logging error" not in printed, printed
    known: dict[tuple[int, int], object] = {}
    for size in ("12k", "40k", "72k", "200k", "100m"):
        reported, _, printed = printed.partition(f" with {size}\n")
        assert reported.endswith(
            "status 0" if size == "100m" else ("status 1", "status 2")
        ), reported
        assert size == "100m" or "No space left on device" in reported, reported
        after = finished_trials(program.folder / size)
        assert {key: after[key] for key in known} == known
        known = {**after}
    assert states(program.folder / "100m") == ["ok"] * TRIALS


def test_a_removed_folder_is_made_again(program: Program, shared_nws: Command) -> None:
    process, out = program.start(*GRID), program.folder / "out"
    wait_until(lambda: finished_trials(out))
    shutil.rmtree(out, ignore_errors=True)
    status, printed = program.end_of(process)
    assert status == 0, printed
    assert (out / "report.html").is_file()
    assert shared_nws(*GRID).returncode == 0
    assert len(finished_trials(out)) == TRIALS


def test_a_fork_server_that_is_killed_at_its_start_is_one_line(
    program: Program,
) -> None:
    kill = "import os, sys\nif any('fork_server' in word for word in sys.orig_argv): os.kill(os.getpid(), 9)\n"
    (program.folder / "sitecustomize.py").write_text(kill)
    status, printed = program.run(*GRID)
    assert status == 2
    assert (
        "nws_sweep: dataset sleep cannot be made: the fork server has exited" in printed
    )
    assert not (program.folder / "out").exists()


def test_a_job_that_calls_sys_exit_is_a_failed_row(
    shared_nws: Command, tmp_path: Path
) -> None:
    """Services run in the main process, where Hydra would end the whole sweep."""
    service = """
        import sys, pathlib
        class Service:
            def __enter__(self):
                with open("entered", "a") as file: file.write("x")
                if pathlib.Path("entered").read_text() == "xx": sys.exit(3)
            def __exit__(self, *_): pass
    """
    (tmp_path / "beside.py").write_text(textwrap.dedent(service))
    done = shared_nws(*GRID, "+services.one._target_=beside.Service")
    assert done.returncode == 1
    assert "services.one: SystemExit: 3" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert [result["error"] for result in results(tmp_path / "out").values()].count(
        ""
    ) == 1
    assert shared_nws(*GRID, "+services.one._target_=beside.Service").returncode == 0
    assert states(tmp_path / "out") == ["ok"] * TRIALS


def test_a_closed_pipe_does_not_end_the_measurement(program: Program) -> None:
    process = program.start(*GRID)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(120) == 0
    program.check_nothing_left()
    assert states(program.folder / "out") == ["ok"] * TRIALS
    assert (program.folder / "out" / "report.html").is_file()


def test_a_locale_without_utf_8(environment: dict[str, str], tmp_path: Path) -> None:
    plain = {
        "LC_ALL": "C",
        "LANG": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONPATH": str(ROOT),
    }
    environment.pop("PYTHONIOENCODING", None)
    with contextlib.closing(SharedProcess(environment | plain)) as process:
        for command in (
            GRID,
            ("report", "out"),
            ("best", "out"),
            ("compare", "out", "out"),
            ("--help",),
        ):
            done = process.run(command, tmp_path, environment)
            assert done.returncode == 0, done.stderr
            assert "Traceback" not in done.stderr
        assert states(tmp_path / "out") == ["ok"] * TRIALS
        # An unknown argument of a dataset, reported in ASCII.
        assert (
            process.run((*GRID, "+dataset.ä=1"), tmp_path, environment).returncode == 2
        )
