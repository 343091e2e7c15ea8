"""What else happens to a sweep on real machines: each with the real thing, each with no traceback and nothing left."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from tests.system.conftest import lacking
from tests.system.program import GRID, PYTHON, Program, finished_trials, results, wait_until

# One configuration, two candidates: a few seconds.
QUICK = (
    "search=exhaustive", "search.candidates=[0,2]", "dataset=sleep", "dataset.length=200",
    "dataset.seconds_per_sample=0.001", "measure.window_s=0.05", "measure.bursts=3", "measure.max_seconds=0.4",
)  # fmt: skip
PAIR = ("-m", "batch_size=4,8", *QUICK, "hydra.sweep.dir=out")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(folder=tmp_path)


def states(folder: Path) -> list[str]:
    with (folder / "results.csv").open(newline="") as file:
        return [row["state"] for row in csv.DictReader(file)]


def namespace(program: Program, script: str) -> str:
    """Runs a shell script that may mount, in a namespace of its own; what it printed."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", textwrap.dedent(script)]
    environment = {**os.environ, **program._own, "NWS": f"{PYTHON} -m nws_sweep", "GRID": " ".join(PAIR)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=program.folder, env=environment
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount namespaces here: {done.stderr.strip()}")
    program.check_nothing_left()
    return done.stdout + done.stderr


@pytest.mark.parametrize("size", ["12k", "40k", "72k", "200k"])
def test_a_full_disk_is_told_and_what_was_measured_is_there_afterwards(program: Program, size: str) -> None:
    """At different moments: Hydra's first file, the first trial, the second configuration, the report."""
    printed = namespace(
        program,
        f"""
        mkdir out && mount -t tmpfs -o size={size} tmpfs out
        $NWS $GRID 2>&1; echo "first status $?"
        ls -A out/*; cp -r out before
        mount -o remount,size=100m out
        $NWS $GRID 2>&1; echo "second status $?"
        cp -r out after
        """,
    )
    assert "Traceback" not in printed, printed
    assert "Logging error" not in printed, printed
    first = printed.partition("first status ")
    assert first[2][0] in "12", printed
    assert "No space left on device" in first[0], printed
    assert "second status 0" in printed, printed
    before, after = finished_trials(program.folder / "before"), finished_trials(program.folder / "after")
    assert {key: after[key] for key in before} == before
    assert len(after) == 4
    assert states(program.folder / "after") == ["ok"] * 4


def test_a_folder_that_is_removed_is_made_again(program: Program) -> None:
    process = program.start(*GRID)
    out = program.folder / "out"
    wait_until(lambda: finished_trials(out))
    shutil.rmtree(out, ignore_errors=True)
    printed, _ = process.communicate(timeout=300)
    program.check_nothing_left()
    assert "Traceback" not in printed
    assert process.returncode == 0, printed
    assert (out / "report.html").is_file()
    status, printed = program.run(*GRID)
    assert status == 0
    assert len(finished_trials(out)) == 12


def test_garbled_files_are_set_aside_told_and_measured_anew(program: Program) -> None:
    grid = ("-m", "batch_size=2,4,8", *QUICK, "hydra.sweep.dir=out")
    assert program.run(*grid)[0] == 0
    before = finished_trials(program.folder / "out")
    first, second, third = sorted(program.folder.glob("out/batch_size=*"))
    (first / "result.json").write_bytes((first / "result.json").read_bytes()[:700])
    (second / "batches.csv").write_bytes(b"\x00" * 500)
    (third / "timings.csv").write_text('num_workers\n"0')
    status, printed = program.run("report", "out")
    assert (status, "Traceback" in printed) == (1, False)
    assert "result.json: cannot be read" in printed
    status, printed = program.run(*grid)
    assert (status, "Traceback" in printed) == (0, False)
    for name in ("result.json", "batches.csv"):
        assert f"set aside as {name}.unreadable-1" in printed
    assert (third / "timings.csv").read_text().startswith("num_workers,startup_s,")
    after = finished_trials(program.folder / "out")
    assert set(after) == set(before)
    changed = {key[0] for key in before if after[key] != before[key]}
    assert changed == {first.name}


def test_a_second_sweep_into_the_same_folder_is_refused(program: Program) -> None:
    process = program.start(*GRID)
    wait_until(lambda: finished_trials(program.folder / "out"))
    second = Program(folder=program.folder).start(*GRID)
    printed, _ = second.communicate(timeout=300)
    assert second.returncode == 2
    (line,) = printed.splitlines()
    assert "another program measures into this folder now" in line
    process.communicate(timeout=300)
    assert process.returncode == 0
    program.check_nothing_left()


def test_steps_of_the_clock_change_no_figure(tmp_path: Path) -> None:
    """The wall clock goes back a day, forward three, and back again while it measures."""
    if shutil.which("cc") is None:
        lacking("a C compiler")
    library, steps = tmp_path / "clock_steps.so", tmp_path / "steps"
    source = Path(__file__).with_name("clock_steps.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    steps.write_text("0")
    faked = {"LD_PRELOAD": str(library), "CLOCK_STEP_FILE": str(steps)}
    program = Program(folder=tmp_path, environment=faked)
    process = program.start(*GRID)
    for step in ("-86400", "172800", "-86400", "0"):
        time.sleep(1.5)
        steps.write_text(step)
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0, printed
    trials = finished_trials(tmp_path / "out")
    assert len(trials) == 12
    for trial in trials.values():
        assert trial["state"] == "ok"
        assert 0 < trial["cost_s"] < 3600
        size, workers = trial["settings"]["batch_size"], trial["settings"]["num_workers"]
        pace = trial["measurement"]["batch_s"]["value"] / (size * 0.001 / max(1, workers))
        assert 0.5 < pace < 1000  # a step of a day would be far more
    program.check_nothing_left()


def custom(program: Program, code: str) -> tuple[str, ...]:
    """The overrides of a dataset of one's own."""
    (program.folder / "mine.py").write_text(textwrap.dedent(code))
    kept = [text for text in PAIR if not text.startswith("dataset")]
    return (*kept, "dataset=custom", "dataset._target_=mine.Data")


PLAIN = """
    import os, pathlib, sys, time
    class Data:
        def __init__(self): {made}
        def __len__(self): return 200
        def __getitem__(self, index):
            {taken}
            time.sleep(0.001); return index
"""


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(7)", "sys.exit(3)", "os.abort()"])
def test_an_import_that_takes_the_process_down_is_one_line(program: Program, end: str) -> None:
    dataset = custom(program, f"import os, sys\n{end}\n")
    status, printed = program.run(*dataset)
    assert status == 2
    assert len(printed.splitlines()) <= 3, printed
    assert "dataset" in printed
    assert "Traceback" not in printed
    assert not (program.folder / "out").exists()


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "sys.exit(3)"])
def test_an_import_that_begins_to_do_so_half_way_makes_failed_rows(program: Program, end: str) -> None:
    """The first process that imports it, which checks the dataset, is fine."""
    code = (
        "import os, sys, pathlib\n" + f"if pathlib.Path('again').exists(): {end}\n" + "pathlib.Path('again').touch()\n"
    )
    dataset = custom(program, code + textwrap.dedent(PLAIN.format(made="self.lock = open(__file__)", taken="pass")))
    status, printed = program.run(*dataset)
    assert status == 1
    assert "Traceback" not in printed
    found = results(program.folder / "out")
    assert len(found) == 2
    for result in found.values():
        assert result["error"] or all(trial["state"] == "failed" and trial["reason"] for trial in result["trials"])
    assert "failed" in printed


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_a_server_of_loading_processes_that_dies_at_its_start_is_one_line(program: Program, end: str) -> None:
    """As where the import of torch, which it begins with, does not work."""
    (program.folder / "sitecustomize.py").write_text(
        f"import os, sys\nif any('forkserver' in word for word in sys.orig_argv): {end}\n"
    )
    status, printed = program.run(*PAIR)
    assert status == 2
    assert "nws_sweep: dataset sleep cannot be made: the server that loading processes are forked from" in printed
    assert "Traceback" not in printed
    assert not (program.folder / "out").exists()


@pytest.mark.parametrize("where", ["made", "taken"])
def test_a_dataset_that_calls_sys_exit(program: Program, where: str) -> None:
    status, printed = program.run(
        *custom(program, PLAIN.format(**{"made": "pass", "taken": "pass", where: "sys.exit(3)"}))
    )
    assert "Traceback" not in printed
    if where == "made":
        assert status == 2
        assert "exit status 3" in printed or "SystemExit: 3" in printed
        return
    assert status == 1
    for result in results(program.folder / "out").values():
        assert [trial["state"] for trial in result["trials"]] == ["failed", "failed"]


def test_a_job_that_calls_sys_exit_is_a_failed_row(program: Program) -> None:
    """What runs beside a search runs in the main process, where Hydra would end the whole sweep."""
    service = """
        import sys, pathlib
        class Service:
            def __enter__(self):
                file = pathlib.Path("entered")
                count = len(file.read_text()) if file.exists() else 0
                file.write_text("x" * (count + 1))
                if count == 1: sys.exit(3)
            def __exit__(self, *_): pass
    """
    (program.folder / "mine.py").write_text(textwrap.dedent(service))
    status, printed = program.run(*PAIR, "+services.one._target_=mine.Service")
    assert status == 1
    assert printed.count("services.one: SystemExit: 3") >= 1
    assert "Traceback" not in printed
    errors = [result["error"] for result in results(program.folder / "out").values()]
    assert errors.count("") == 1
    assert program.run(*PAIR, "+services.one._target_=mine.Service")[0] == 0
    assert states(program.folder / "out") == ["ok"] * 4


def test_a_reader_that_goes_away_does_not_end_the_measuring(program: Program) -> None:
    process = program.start(*PAIR)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(120) == 0
    program.check_nothing_left()
    assert states(program.folder / "out") == ["ok"] * 4
    assert (program.folder / "out" / "report.html").is_file()


def test_closed_from_the_start_too(program: Program) -> None:
    assert program.run(*PAIR, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)[0] == 0
    script = f"exec {PYTHON} -m nws_sweep {' '.join(PAIR)} hydra.sweep.dir=again >&- 2>&- <&-"
    done = subprocess.run(["sh", "-c", script], cwd=program.folder, env={**os.environ, **program._own}, check=False)
    assert done.returncode == 0
    assert states(program.folder / "again") == ["ok"] * 4
    program.check_nothing_left()


def test_without_a_home(tmp_path: Path) -> None:
    """A user whom the system does not know, as in many containers."""
    program = Program(folder=tmp_path, environment={"HOME": None, "NWS_SWEEP_CACHE_DIR": None, "USER": None})
    process = program.start(*PAIR, before=("unshare", "--user", "--map-user=54321"))
    printed, _ = process.communicate(timeout=300)
    if "unshare:" in printed:
        pytest.skip(f"no user namespaces here: {printed}")
    assert process.returncode == 0, printed
    assert "Traceback" not in printed
    assert not (tmp_path / "~").exists()
    program.check_nothing_left()


ODD = 'it\'s a "strange" folder, (of) ümläuts=1'


def test_a_path_with_spaces_and_quotes(tmp_path: Path) -> None:
    folder = tmp_path / ODD
    folder.mkdir()
    program = Program(folder=folder)
    quoted = "hydra.sweep.dir='of \"mine\", too'"
    status, printed = program.run(*PAIR[:-1], quoted)
    assert status == 0, printed
    out = folder / 'of "mine", too'
    assert states(out) == ["ok"] * 4
    assert program.run("report", out.name)[0] == 0
    assert "num_workers" in program.run("best", out.name)[1]
    status, printed = program.run(*PAIR[:-1], quoted)
    assert status == 0
    assert printed.count("measured before") == 2


def test_a_locale_without_utf_8(tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": None}
    program = Program(folder=tmp_path, environment=plain)
    names = ("-m", "batch_size=4,8", *QUICK, "+dataset.ä=1", "hydra.sweep.dir=out")
    status, printed = program.run(*PAIR)
    assert status == 0, printed
    assert "Traceback" not in printed
    assert states(tmp_path / "out") == ["ok"] * 4
    for command in (("report", "out"), ("best", "out"), ("compare", "out", "out"), ("--help",)):
        status, printed = program.run(*command)
        assert status == 0, printed
    assert program.run(*names)[0] == 2  # the argument of a dataset that has none such, told in ASCII
