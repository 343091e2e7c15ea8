"""``+nws_sweep=autotune`` in another Hydra program, as a user runs it."""

from pathlib import Path

import pytest

from nws_sweep.analysis.summary import summarise
from nws_sweep.results import storage
from nws_sweep.results.settings import ONLINE_STRATEGY
from tests.hosts import run_host, write_training_host

OTHER = "hydra.callbacks.nws_sweep.loader=2"  # the first one is that of the validation


@pytest.mark.extended
def test_an_unchanged_training_gets_workers_while_it_runs(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = write_training_host(tmp_path)
    plain = run_host(folder, environment, "hydra.run.dir=run")
    tuned = run_host(
        folder, environment, "+nws_sweep=autotune", "loader.dataset.length=2000", "hydra.run.dir=run", OTHER
    )
    assert (plain.returncode, tuned.returncode) == (0, 0), tuned.stderr
    printed = [line for line in tuned.stdout.splitlines() if "[nws_sweep." not in line]
    assert printed == plain.stdout.replace("119", "1999").splitlines()
    record = storage.load(folder / "run" / "nws_sweep").result
    assert record.configuration.search.strategy == ONLINE_STRATEGY
    assert record.verdict is not None
    assert any(trial.num_workers for trial in record.trials)  # on a busy machine the change may be undone
    assert "num_workers: " in (folder / "run" / "nws_sweep" / storage.BEST).read_text("utf-8")
    assert "num_workers=" in (folder / "run" / "train.log").read_text("utf-8")


@pytest.mark.extended
def test_a_multirun_ends_with_a_report_though_a_job_has_failed(tmp_path: Path, environment: dict[str, str]) -> None:
    """After a failed job Hydra 1.3 does not call the callback of the multirun's end."""
    folder = write_training_host(tmp_path)
    overrides = ("+nws_sweep=autotune", "loader.dataset.length=400", "loader.batch_size=4,8,16", "fails_with=8")
    done = run_host(folder, environment, "-m", *overrides, "hydra.sweep.dir=sweep", "hydra.job.chdir=true")
    assert done.returncode == 1
    assert done.stdout.count("Best settings") == 1
    grid = folder / "sweep" / "nws_sweep"
    summary = summarise(storage.find(grid))
    assert [one.configuration.columns["batch_size"] for one in summary.configurations] == [4, 16]
    names = {path.name for path in grid.iterdir()}
    assert {"fails_with=8,loader.batch_size=4,loader.dataset.length=400", "report.html", "best.yaml"} < names


@pytest.mark.extended
def test_a_training_is_watched(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = write_training_host(tmp_path)
    watched = run_host(folder, environment, "+nws_sweep=watch", "hydra.run.dir=run")
    assert watched.returncode == 0, watched.stderr
    assert "Sleeping: training waits for data " in (folder / "run" / "train.log").read_text("utf-8")
    assert not (folder / "run" / "nws_sweep").exists()
