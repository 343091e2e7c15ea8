"""Case studies on small files in the real formats."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from nws_sweep.results import storage
from tests.conftest import Command
from tests.real_files import write_mnist

pytestmark = pytest.mark.slow


@pytest.mark.extended
def test_mnist_training_compares_images_tensors_and_the_device(shared_nws: Command, tmp_path: Path) -> None:
    write_mnist(tmp_path / "data", images=3000)
    small = ["search.max_workers=1", "measure=quick", "measure.window_s=0.05", "measure.max_seconds=0.5"]
    done = shared_nws("experiment=mnist_training", "paths.data_dir=data", *small)
    assert (done.returncode, done.stderr) == (0, "")
    (grid,) = (tmp_path / "outputs" / "sweeps").iterdir()
    results = pd.read_csv(grid / "results.csv")
    assert results.groupby("dataset")["num_workers"].apply(sorted).to_dict() == {
        "mnist": [0, 1], "mnist_on_device": [0], "mnist_tensors": [0, 1],
    }  # fmt: skip
    assert (results["consume_s"] > 0).all()
    # The fastest batch of each, since other load only slows batches down. The order of the other two depends on it.
    least_s = {}
    for run in storage.find(grid).runs:
        batches = pd.read_csv(run.folder / "batches.csv")
        least_s[run.result.configuration.columns["dataset"]] = batches[batches["num_workers"] == 0]["wait_s"].min()
    assert max(least_s["mnist_on_device"], least_s["mnist_tensors"]) < least_s["mnist"]


def test_missing_files_without_network_are_one_line(shared_nws: Command, tmp_path: Path) -> None:
    done = shared_nws("experiment=full_search", "paths.data_dir=nothing", "++dataset.download=false")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"is not in {tmp_path / 'nothing'}" in done.stderr
