"""The command line as a process: exit status, messages, files."""

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from nws_sweep import __version__, cli
from nws_sweep.analysis.summary import ConfigurationSummary
from nws_sweep.config import hydra_versions
from nws_sweep.errors import ConfigurationError
from nws_sweep.programs import command
from nws_sweep.records import storage
from nws_sweep.records.storage import Stored
from tests.conftest import Command
from tests.factories import (
    search_result,
    store_run,
    summary_of_grid,
    summary_of_run,
    trial,
)
from tests.simulated import check_rows

# One process for the commands of all tests that share it: it takes seconds to start.
pytestmark = pytest.mark.xdist_group("shared")
QUICK = (
    "measure=quick",
    "measure.window_s=0.01",
    "measure.trial_limit_s=0.1",
    "max_workers=1",
)


WITHOUT_LAUNCHERS = pytest.mark.skipif(
    importlib.util.find_spec("submitit") is not None, reason="they are installed"
)


def only_folder(parent: Path) -> Path:
    (folder,) = parent.iterdir()
    return folder


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["dataset=sleep", "paths.output_dir=/dev/null/runs"], "Not a directory: '/dev/null/runs/"),
        (["-m", "batch_size=64,0"], "batch_size=0: must be null or an integer of at least 1"),
        (["dataset=sleep", "~dataset._target_"], "needs a _target_, such as dataset._target_=package.Class"),
        (["compare", "nowhere", "."], "nowhere: not a run or a grid of nws_sweep (no such folder)"),
        (["dataset=custom", "dataset._target_=tests.user_datasets.DiesWhenMade"],
         "dataset DiesWhenMade cannot be made: the trial process was killed by SIGKILL"),
        (["-m", "dataset=sleep", "training_step=none,sleep", "++training_step.seconds_per_batch=-1"],
         "training_step nws_sweep.dataloading.training_steps."),
        *(pytest.param(
            ["-m", f"hydra/launcher={launcher}", "batch_size=4,8"],
            f"nws_sweep: hydra/launcher: a package is missing; pip install '.[{launcher}]' in the checkout",
            marks=WITHOUT_LAUNCHERS,
        ) for launcher in ("slurm", "ray")),
    ],
)  # fmt: skip
def test_bad_input_is_a_line_and_status_2(
    shared_nws: Command, tmp_path: Path, arguments: list[str], line: str
) -> None:
    done = shared_nws(*arguments)
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stderr.startswith("nws_sweep: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_python_3_14_refuses_hydra_1_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # libraries read the version when they are imported
    importlib.import_module("nws_sweep.hydra_app.app")
    monkeypatch.setattr(hydra_versions, "IS_1_3", True)
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    assert cli.run(["batch_size=8"]) == 2
    refusal = r"nws_sweep: Hydra \S+ does not start on Python 3\.14: .*Hydra 1\.4.*\n"
    assert re.fullmatch(refusal, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["reprot", "outputs/x"], "did you mean `nws-sweep report outputs/x`?"),
        (
            ["serach", "train.py", "--lr", "3"],
            "did you mean `nws-sweep search train.py --lr 3`?",
        ),
        (["tune", "train.py"], "did you mean `nws-sweep search train.py`?"),
        (
            ["train.py", "--name=a b"],
            "did you mean `nws-sweep search train.py '--name=a b'`?",
        ),
        (["python", "train.py"], "did you mean `nws-sweep search train.py`?"),
        (["serach"], "did you mean `nws-sweep search train.py`?"),
        (["batch_size", "64", "-m"], "did you mean `nws-sweep batch_size=64 -m`?"),
        (["profile", "train.py"], "did you mean `nws-sweep explain train.py`?"),
        (
            ["."],
            "did you mean `nws-sweep report .` or `nws-sweep dataset=image_folder dataset.root=.`?",
        ),
        (["xyzzy"], "--help lists them"),
    ],
)
def test_a_word_that_is_no_command_is_an_error_with_what_was_meant(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    assert (
        capsys.readouterr().err
        == f"nws_sweep: {arguments[0]}: neither a command nor key=value; {meant}\n"
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["-m"], "-m: a grid needs several values, as in nws-sweep -m batch_size=64,256"),
        (["--batch-size", "3"], "--batch-size: there is no such option; did you mean batch_size=VALUE?"),
        (
            ["--time-limit", "30", "search", "train.py"],
            "--time-limit: there is no such option; did you mean `nws-sweep search --time-limit 30 train.py`?",
        ),
        (["-x"], "-x: there is no such option; --help lists the keys"),
        (["batch_size=3", "--xyzzy"], "--xyzzy: there is no such option; --help lists the keys"),
    ],
)  # fmt: skip
def test_an_option_that_does_not_exist_is_an_error_with_what_was_meant(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    assert capsys.readouterr().err == f"nws_sweep: {line}\n"


def test_without_arguments_the_commands_are_printed_and_nothing_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run([]) == 0
    commands = capsys.readouterr().out
    assert cli.run(["help"]) == 0
    assert capsys.readouterr().out == commands
    assert "search train.py ARGUMENTS" in commands
    assert "== Groups" not in commands
    assert commands.endswith("\n--help lists all settings\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", ".", "--prefetch-factor="],
        ["predict", ".", "--in-order="],
        ["best", ".", "--key="],
    ],
    ids="".join,
)
def test_an_empty_option_is_an_error_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.run(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert f"argument {arguments[2][:-1]}: needs a value, but it is empty" in line


def test_each_configuration_is_printed_before_the_next_one_is_predicted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    summary, before = (
        summary_of_grid(*(search_result(trial(0, 1.0)) for _ in range(3))),
        [],
    )

    def text(configuration: ConfigurationSummary) -> str:
        before.append(capsys.readouterr().out)
        return "predicted\n"

    assert cli._print_each(summary, text) == 0
    assert before == ["", "predicted\n", "\npredicted\n"]


def test_another_verbosity_is_an_error_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NWS_SWEEP_LOG", "debug")
    message = "nws_sweep: NWS_SWEEP_LOG=debug: must be quiet, normal or verbose\n"
    for run, arguments in (
        (cli.run, ["best", "."]),
        (command.run, ["search", __file__]),
    ):
        assert run(arguments) == 2
        assert capsys.readouterr().err == message


def test_flags_of_hydra_work(shared_nws: Command, nws: Command, tmp_path: Path) -> None:
    job = yaml.safe_load(
        shared_nws("--cfg", "job", "-v", "--resolve", "batch_size=96", "-q").stdout
    )
    assert job["batch_size"] == 96
    assert "hydra" not in job
    # which changes the logging of its process
    assert "main" in nws("--info", "searchpath").stdout
    shown = shared_nws("--help").stdout
    assert all(
        text in shown
        for text in (
            "report [DIR]",
            "best [DIR]",
            "compare DIR_A DIR_B",
            "watch train.py",
        )
    )
    assert nws("--version").stdout == f"nws_sweep {__version__}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_grid_in_a_folder_with_a_strange_name_is_announced_measured_reported_and_completed(
    shared_nws: Command, tmp_path: Path
) -> None:
    folder = tmp_path / 'it\'s a "strange" folder, (of) ümläuts=1'
    folder.mkdir()
    (folder / "data.txt").write_text("x" * 64)  # found from the folders of jobs too
    dataset = (
        "dataset=custom",
        "dataset._target_=tests.user_datasets.ReadsFile",
        "+dataset.path=data.txt",
    )
    axes = ("batch_size=4,8", "pin_memory=true,false")
    command = ("-m", *dataset, *QUICK, *axes, "hydra.job.chdir=true")
    done = shared_nws(*command, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("4 searches, at most about ")
    assert "[4/4]" in done.stdout

    grid = only_folder(folder / "outputs" / "sweeps")
    for name in (
        "report.html",
        "report.md",
        "results.csv",
        "best.csv",
        "best.yaml",
        "plots",
    ):
        assert (grid / name).exists()
    assert done.stdout.endswith(f"report {grid / 'report.html'}\n")
    assert (grid / "report.md").read_text().count("pin_memory=true has no effect") == 1
    # pin_memory=true is not measured again
    assert len(list(grid.glob("*=*/batch_times.png"))) == 2
    logs = [path.read_text() for path in grid.glob("*=*/nws_sweep.log")]
    assert [text.count("[INFO] - num_workers=") for text in logs] == [1] * 4
    assert not list(grid.rglob(".*-*"))

    results = pd.read_csv(grid / "results.csv")
    assert list(results["state"]) == ["ok"] * 8
    figures = results[["startup_s", "samples_per_s", "epoch_s", "cpu_s"]]
    assert (figures > 0).all(axis=None)
    # workers may have ended with a short epoch, before their memory is read
    assert (results["memory_bytes"][results["num_workers"] == 0] > 0).all()
    for run in storage.find(grid).runs:  # times of short epochs are no invariant
        check_rows(run.result.trials, None)
    assert len(pd.read_csv(grid / "best.csv")) == 4

    one = ("--where", "batch_size=8", "--where", "pin_memory=false")
    composed = shared_nws(
        "best", grid, *one, "--format", "yaml", "--key", "data"
    ).stdout
    assert composed.startswith("# @package data\nbatch_size: 8\n")
    fastest = shared_nws("best", grid, "--format", "overrides")
    assert (fastest.returncode, fastest.stdout.count("\n")) == (0, 1)
    assert fastest.stderr.startswith("# of 4 combinations, ")
    (grid / "report.md").unlink()
    again = shared_nws("report", grid)
    assert (again.returncode, "vs 0 workers" in again.stdout) == (0, True)
    assert (grid / "report.md").is_file()

    drawn = next(grid.glob("*=*/batch_times.svg"))
    drawn.unlink()  # as if the program had been killed meanwhile
    for place in (grid, grid / "plots", drawn.parent):
        (place / ".nws_sweep-report.html-abc").touch()
    (grid / "report.md").unlink()
    (grid / "report.md").mkdir()  # cannot be written, as on a full disk
    completed = shared_nws(
        *command, f"hydra.sweep.dir=outputs/sweeps/{grid.name}", cwd=folder
    )
    assert (completed.returncode, completed.stdout.count("measured before")) == (1, 4)
    assert "the measurements are kept: nws-sweep report " in completed.stdout
    assert drawn.exists()
    assert not list(grid.rglob(".nws_sweep-*"))


@pytest.mark.parametrize(
    "form", ["kwargs", "overrides", "lightning", "transformers", "json", "yaml"]
)
def test_best_fails_with_a_line_where_the_search_was_ended_too_early(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = store_run(tmp_path, search_result(trial(0, 8.0), stop_reason=""))
    status, printed = (
        cli.run(["best", str(folder), "--format", form]),
        capsys.readouterr(),
    )
    assert status == 1
    assert re.fullmatch(
        r"# .*undecided +only num_workers=0 was measured: .*\n", printed.err
    )
    assert (printed.out == "") == (form != "json")
    assert "num_workers" not in printed.out


@pytest.mark.parametrize("form", ["kwargs", "yaml"])
def test_no_workers_of_a_search_that_was_cut_short_are_not_pasted(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = search_result(trial(0, 8.0), trial(4, 16.0), stop_reason="")
    folder = store_run(tmp_path, ended)
    assert cli.run(["best", str(folder), "--format", form]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "num_workers=0 so far" in printed.err
    assert "search longer, with a larger time limit" in printed.err


@pytest.mark.extended
def test_the_cursor_of_the_terminal_is_restored_after_an_error(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    command = f"{sys.executable} -m nws_sweep dataset=sleep dataset.length=0"
    main, other = os.openpty()
    done = subprocess.run(
        command.split(),
        cwd=tmp_path,
        env=environment | {"TERM": "xterm"},
        stdout=other,
        stderr=other,
        check=False,
    )
    os.close(other)
    shown = b""
    with contextlib.suppress(OSError):  # raised by Linux when the other side is closed
        while chunk := os.read(main, 65536):
            shown += chunk
    os.close(main)
    assert done.returncode == 2
    assert shown.count(b"\x1b[?25l") == shown.count(b"\x1b[?25h")
    assert shown.rstrip().endswith(b"dataset.length=0: must be at least 1")


def test_failures_are_reported_without_the_callback(
    shared_nws: Command, tmp_path: Path
) -> None:
    dataset = ("dataset=custom", "dataset._target_=tests.user_datasets.Raises")
    done = shared_nws(*dataset, *QUICK, "~hydra.callbacks.nws_sweep")
    assert (done.returncode, done.stderr) == (1, "")
    assert (
        "failed dataset=Raises num_workers=0, 1: failed: ValueError: bad sample 40"
        in done.stdout
    )
    assert done.stdout.count("bad sample 40") == 1
    assert (
        "bad sample 40"
        in (only_folder(tmp_path / "outputs" / "runs") / "report.md").read_text()
    )


POINTS: tuple[dict[str, Any], ...] = (
    {"batch_size": 64, "pin_memory": True},
    {"batch_size": 64, "pin_memory": False},
    {"batch_size": 256, "pin_memory": True, "prefetch_factor": 4},
)


def stored_grid() -> Stored:
    return summary_of_grid(
        *(search_result(trial(0, 8.0), columns=point) for point in POINTS)
    ).stored


@pytest.mark.parametrize(
    ("conditions", "points"),
    [
        ([], [0, 1, 2]),
        (["pin_memory=true"], [0, 2]),
        (["prefetch_factor=null"], [0, 1]),
        (["pin_memory=true", "batch_size=64"], [0]),
    ],
)
def test_configurations_with_all_values_are_selected(
    conditions: list[str], points: list[int]
) -> None:
    stored = stored_grid()
    assert [
        stored.runs.index(run) for run in cli.select(stored, conditions).runs
    ] == points


def test_a_selected_single_configuration_is_no_grid() -> None:
    assert cli.select(stored_grid(), ["batch_size=64"]).is_grid
    assert not cli.select(stored_grid(), ["batch_size=256"]).is_grid
    assert cli.select(replace(stored_grid(), runs=stored_grid().runs[:1]), []).is_grid
    run = summary_of_run(search_result(trial(0, 8.0))).stored
    assert cli.select(run, ["batch_size=64"]) == run


def test_a_value_may_contain_an_equals_sign_and_a_missing_value_is_not_null() -> None:
    stored = summary_of_grid(
        *(search_result(columns={"dataset.root": root}) for root in ("a=1", "a"))
    ).stored
    assert cli.select(stored, ["dataset.root=a=1"]).runs == stored.runs[:1]
    stored = summary_of_grid(
        search_result(), search_result(columns={"seed": None})
    ).stored
    assert cli.select(stored, ["seed=null"]).runs == stored.runs[1:]


@pytest.mark.parametrize(
    ("conditions", "line"),
    [
        (
            ["batch_size=256", "pin_memory=false"],
            "--where batch_size=256 --where pin_memory=false: no such combination; allowed: dataset (photos), "
            "batch_size (256), pin_memory (true), prefetch_factor (4), patience (3)",
        ),
        (
            ["bach_size=64"],
            "--where bach_size=64: no such combination; allowed: dataset (photos), batch_size (64, 256), "
            "pin_memory (true, false), prefetch_factor (null, 4), patience (3)",
        ),
        (
            ["batch_size"],
            "--where batch_size: must be KEY=VALUE, such as batch_size=64",
        ),
        (["a\nb"], "--where a b: must be KEY=VALUE, such as batch_size=64"),
    ],
)
def test_conditions_without_a_match_are_an_error_with_the_allowed_values(
    conditions: list[str], line: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        cli.select(stored_grid(), conditions)
    assert str(caught.value) == line
