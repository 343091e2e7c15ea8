"""``nws-sweep autotune``, ``search`` and ``watch`` as a user types them: the program is
as without."""

import re
import signal
import sys
from pathlib import Path

import pytest

from nws_sweep.programs import command
from nws_sweep.report import formats
from tests.conftest import run_python
from tests.factories import failed_trial, search_result, trial
from tests.roots import made_up

# Sets what only has an effect before torch is imported; looks for torch first, as
# other packages do; pickles what only the main module knows; leaves an iterator to the
# end of the interpreter; ends with a status.
TRAIN = """\
import os

os.environ["OMP_NUM_THREADS"] = "1"
import importlib.util
import pickle
import sys
import time

assert importlib.util.find_spec("torch")
import torch
from torch.utils.data import DataLoader

import beside


class Sleeping:
    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.tensor([float(index)])


if __name__ == "__main__":
    torch.manual_seed(0)
    print(sys.argv[1:], os.path.basename(__file__), __name__, os.getcwd(), torch.get_num_threads(), beside.VALUE)
    assert isinstance(pickle.loads(pickle.dumps(Sleeping())), Sleeping)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    loader = DataLoader(Sleeping(), batch_size=10, shuffle=True)
    for _ in range(2):
        for batch in loader:
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())
    left = iter(loader)
    print(next(left).sum().item())
    sys.exit(3)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return made_up(
        tmp_path / "project", {"train.py": TRAIN, "beside.py": "VALUE = 7\n"}
    )


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("autotune", ("train.py",)),
        pytest.param("watch", ("-m", "train"), marks=pytest.mark.extended),
    ],
)
def test_a_program_does_what_it_does_without(
    project: Path, environment: dict[str, str], name: str, how: tuple[str, ...]
) -> None:
    plain = run_python(project, environment, *how, "--epochs", "2", "-m")
    with_hook = run_python(
        project, environment, "-m", "nws_sweep", name, *how, "--epochs", "2", "-m"
    )
    assert plain.returncode == with_hook.returncode == 3, with_hook.stderr
    assert with_hook.stdout == plain.stdout
    line, *account = with_hook.stderr.splitlines()
    assert any("with num_workers=" in row for row in account) == (name == "watch")
    assert all(row.startswith("  ") for row in account)
    limit = "the loader limits training: "
    assert line.startswith(
        f"nws_sweep: {'num_workers=' if name == 'autotune' else limit}"
    )
    assert re.search(r"   \(Sleeping, train\.py:\d+\)$", line)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        pytest.param("search", "\nreport ", marks=pytest.mark.extended),
        pytest.param("explain", "| Sleeping.__getitem__ ", marks=pytest.mark.extended),
    ],
)
def test_a_search_ends_the_program_with_a_report(
    project: Path, environment: dict[str, str], name: str, printed: str
) -> None:
    options = ("--num-workers", "0,4", "--time-limit", "8")
    done = run_python(
        project,
        environment,
        "-m",
        "nws_sweep",
        name,
        *options,
        "train.py",
        "--epochs",
        "2",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['--epochs', '2'] train.py __main__")
    assert printed in done.stdout
    # the report of ``search`` has the answer
    assert (" times as fast as " in done.stderr) == (name == "explain")
    assert "nws_sweep: DataLoader(..., num_workers=" in done.stderr
    (folder,) = (project / "outputs" / "runs").iterdir()
    assert folder.name.endswith("_train")
    assert (folder / "report.html").is_file()


# The dataset cannot be pickled.
_HANDLES = """\
import os
import sqlite3

import torch
import tqdm
from torch.utils.data import DataLoader


class Rows:
    def __init__(self):
        self.table = sqlite3.connect(":memory:")
        self.file = os.open("train.py", os.O_RDONLY)

    def __len__(self):
        return 400

    def __getitem__(self, index):
        os.lseek(self.file, index, os.SEEK_SET)
        (count,) = self.table.execute("select count(*) from sqlite_master").fetchone()
        return ord(os.read(self.file, 1)) + count


weights = torch.zeros(1, requires_grad=True)
for batch in tqdm.tqdm(DataLoader(Rows(), batch_size=8, shuffle=True)):
    print("a batch")
"""


def test_a_loader_that_cannot_be_pickled_is_searched_in_a_fork_of_the_program_whose_files_workers_must_not_share(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    made_up(tmp_path, {"train.py": _HANDLES})
    options = ("--num-workers", "0,2", "--time-limit", "8")
    done = run_python(
        tmp_path, environment, "-m", "nws_sweep", "search", *options, "train.py"
    )
    assert done.returncode == 1, done.stderr  # a candidate has failed
    assert "forked workers share dataset.table (sqlite3.Connection)" in done.stderr
    assert (
        f"num_workers=2 is excluded: the workers read {tmp_path}/train.py through one open file"
        in done.stderr
    )
    assert "nws_sweep: DataLoader(..., num_workers=0)" in done.stderr
    assert "a batch" not in done.stdout.splitlines()


def test_a_failed_candidate_is_the_exit_status_of_a_search_that_has_succeeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        command._keep(
            search_result(trial(0, 8.0), failed_trial(2)),
            tmp_path,
            "run",
            explains=False,
        )
        == 1
    )
    monkeypatch.setattr(command, "report", lambda folder, prints: 0)
    found = search_result(trial(0, 8.0))
    assert [
        command._keep(found, tmp_path, "run", explains=one) for one in (False, True)
    ] == [0, 1]
    lines = capsys.readouterr().err
    assert "no calls were timed" in lines
    assert "nws_sweep: report " in lines
    assert lines.endswith("nws_sweep: DataLoader(..., num_workers=0)\n")
    ended = search_result(trial(0, 8.0), trial(2, 16.0), stop_reason="")
    command._keep(ended, tmp_path, "run", explains=False)
    assert capsys.readouterr().err == f"nws_sweep: {formats.TOO_EARLY}\n"


def test_an_exception_has_the_programs_own_traceback(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    made_up(
        tmp_path,
        {
            "train.py": 'def fails():\n    raise ValueError("out of luck")\n\n\nfails()\n'
        },
    )
    plain = run_python(tmp_path, environment, "train.py")
    tuned = run_python(tmp_path, environment, "-m", "nws_sweep", "autotune", "train.py")
    assert (plain.returncode, tuned.returncode) == (1, 1)
    lines = tuned.stderr.splitlines(keepends=True)
    none_seen = (
        "train.py ended without iterating over a torch DataLoader in this process"
    )
    line = f"nws_sweep: {none_seen}: it raised ValueError\n"
    assert line in lines
    assert tuned.stderr.replace(line, "") == plain.stderr


def test_an_interrupted_program_ends_by_the_signal(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    made_up(
        tmp_path,
        {
            "train.py": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
        },
    )
    assert (
        run_python(
            tmp_path, environment, "-m", "nws_sweep", "watch", "train.py"
        ).returncode
        == -signal.SIGINT
    )


@pytest.mark.parametrize(
    ("name", "ending"), [("search", ""), ("explain", "raise SystemExit")]
)
def test_a_search_without_a_training_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, ending: str
) -> None:
    program = (
        made_up(tmp_path, {"train.py": f"trained = True\n{ending}\n"}) / "train.py"
    )
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    assert command.run([name, str(program)]) == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["autotune"],
            "autotune: name a program, as in nws-sweep autotune train.py ARGUMENTS",
        ),
        (
            ["watch", "missing.py"],
            "missing.py: no such file; expected a program, such as train.py, or -m MODULE",
        ),
        (
            ["search", "dataset=photos", "batch_size=8"],
            "dataset=photos: a setting, but no program; did you mean `nws-sweep dataset=photos batch_size=8`?",
        ),
        (
            ["search", "tests"],
            "tests: a folder; did you mean `nws-sweep dataset=image_folder dataset.root=tests`?",
        ),
        (
            ["watch", "-m", "tests.missing"],
            "-m tests.missing: no such module, or a package without __main__",
        ),
    ],
)
def test_wrong_usage_is_a_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run(words) == 2
    assert capsys.readouterr().err.startswith(f"nws_sweep: {line}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["search", "--training-step", "20ms", "train.py"],
            "argument --training-step: 20ms: must be seconds of at least 0, without a unit",
        ),
        (
            ["search", "--time-limit", "0", "train.py"],
            "argument --time-limit: 0: must be seconds above 0, without a unit",
        ),
        (
            ["autotune", "--max-workers", "many", "train.py"],
            "argument --max-workers: many: must be an integer, such as 8",
        ),
        (
            ["watch", "--epochs", "1", "train.py"],
            "unrecognized arguments: --epochs; --help lists the options; options of a program stand behind the program",
        ),
    ],
)
def test_a_wrong_option_is_told_what_is_allowed(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.run(words)
    assert ended.value.code == 2
    assert f": {message}" in capsys.readouterr().err


def test_a_program_that_refuses_options_of_ours_is_told_where_they_stand(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    text = "import argparse\nargparse.ArgumentParser().parse_args()\n"
    folder = made_up(tmp_path / "project", {"train.py": text})
    words = ("-m", "nws_sweep", "search", "train.py")
    done = run_python(folder, environment, *words, "--time-limit=30")
    assert done.returncode == 2
    *_, refused, line = done.stderr.splitlines()
    assert refused == "train.py: error: unrecognized arguments: --time-limit=30"
    assert line.endswith(
        ": options of nws-sweep, such as --time-limit=30, stand before the program"
    )
    unknown = run_python(folder, environment, *words, "--xyzzy")
    assert "options of nws-sweep" not in unknown.stderr


def test_a_program_that_does_not_compile_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = made_up(tmp_path, {"train.py": "def broken(:\n"}) / "train.py"
    assert command.run(["watch", str(program)]) == 2
    assert "train.py: SyntaxError: invalid syntax" in capsys.readouterr().err
