"""``ranks=4`` predicts the speed of four real processes in DistributedDataParallel."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any

import pytest

from nws_sweep.executor.ranks import free_port
from nws_sweep.results import LoaderSettings, MeasureRules, SearchRules, Trial
from tests import factories
from tests.conftest import ROOT
from tests.searching import real_search

pytestmark = pytest.mark.alone
RANKS, BATCH_SIZE, STEP_S, CANDIDATES = 4, 8, 0.01, (0, 2)
WORKLOADS = {
    "latency": {"_target_": "benchmarks.workloads.Latency", "samples": 20_000, "mean_s": 0.005, "values": 64},
    "compute": {"_target_": "benchmarks.workloads.Arithmetic", "samples": 20_000},
}
MOST_OFF = 0.25


def predicted(dataset: dict[str, Any]) -> dict[int, Trial]:
    """nws_sweep's trials by num_workers; the training step is the training step."""
    configuration = factories.configuration(
        dataset=dataset,
        training_step={"_target_": "tests.cluster.training.Step", "step_s": STEP_S},
        loader=LoaderSettings(batch_size=BATCH_SIZE, shuffle=True),
        measure=MeasureRules(window_s=0.5, windows=3, trial_limit_s=3.0, kill_after_s=120.0),
        search=SearchRules(strategy="exhaustive", candidates=CANDIDATES),
        ranks=RANKS,
    )
    return real_search(configuration)


def seconds_per_step(dataset: dict[str, Any]) -> dict[int, float]:
    plan = {"dataset": dataset, "step_s": STEP_S, "batch_size": BATCH_SIZE, "workers": CANDIDATES, "steps": 60}
    where = ["--nproc-per-node", str(RANKS), "--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *where, "-m", "tests.cluster.training", json.dumps(plan)],
        cwd=ROOT, env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return {int(workers): step_s for workers, step_s in json.loads(done.stdout.strip().splitlines()[-1]).items()}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_training_of_four_ranks_is_as_fast_as_predicted(name: str) -> None:
    """Alternates both up to three times, since the machine's load changes; the limit is for two busy cores."""
    ratios: dict[int, list[float]] = {workers: [] for workers in CANDIDATES}
    for _ in range(3):
        real, ours = seconds_per_step(WORKLOADS[name]), predicted(WORKLOADS[name])
        for workers, trial in ours.items():
            assert trial.measurement is not None, trial.reason
            assert trial.measurement.batch_s is not None
            ratios[workers].append(trial.measurement.batch_s.value / real[workers])
        print(name, ratios)
        medians = {workers: statistics.median(found) for workers, found in ratios.items()}
        if all(abs(ratio - 1) <= MOST_OFF for ratio in medians.values()):
            return
    pytest.fail(f"seconds per step, predicted / real: {medians}")
