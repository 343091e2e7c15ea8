"""The examples of docs/guides/trackers.md, with the real packages, in folders."""

from pathlib import Path
from typing import Any

import pytest

import nws_sweep
from tests.factories import search_result, trial
from tests.test_examples import blocks, run

DOCUMENT = "docs/guides/trackers.md"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of the other packages


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nws_sweep.SearchResult:
    monkeypatch.chdir(tmp_path)
    return nws_sweep.SearchResult(search_result(trial(0, 8.0), trial(2, 4.0)))


def example(containing: str, **given: Any) -> None:
    (block,) = blocks(DOCUMENT, containing)
    run(block, **given)


def test_weights_and_biases(result: nws_sweep.SearchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    example("wandb.init", wandb=wandb, result=result)
    wandb.finish()
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


def test_mlflow(result: nws_sweep.SearchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    example("mlflow.start_run", mlflow=mlflow, result=result)
    (found,) = mlflow.search_runs(output_format="list")
    assert found.data.params["num_workers"] == "2"
    assert found.data.metrics["samples_per_s"] > 0
    assert list(tmp_path.glob("mlruns/*/*/artifacts/report.html"))


def test_tensorboard(result: nws_sweep.SearchResult, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    example("SummaryWriter", SummaryWriter=SummaryWriter, result=result)
    assert list(tmp_path.glob("runs/*/events.out.tfevents.*"))
