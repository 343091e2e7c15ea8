"""The comparison of printed rows with bare loops, with simulated figures."""

import csv
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks import bare, child, methods, neighbours, numbers_results, support
from benchmarks.__main__ import main
from benchmarks.catalogue import NUMBERS_WORKLOADS, Planted, Workload, find
from benchmarks.comparisons import (
    Comparison,
    bare_errors,
    comparisons,
    coverage,
    has_an_answer,
)
from benchmarks.journal import Outcome, Row, Run
from nws_sweep.system import processes
from tests.conftest import ROOT

WORKLOAD = Workload(
    name="w", about="", target="Latency", batch_size=4, batches=100, step_s=0.002,
    planted=Planted(wait_s=0.005, cpu_s=0.001),
)  # fmt: skip
OUTCOME = Outcome(workload="w", method="plain", repeat=1, pick=2)
RUN = Run(workload="w", workers=2, repeat=1, number=1, epoch_s=2.0, batch_s=0.020)


def compared(
    row: Row, *runs: Run, workload: Workload = WORKLOAD, beside: str = "quiet"
) -> Comparison:
    (comparison,) = comparisons(
        [replace(OUTCOME, rows=(row,), beside=beside)], runs, [workload], cpus=2
    )
    return comparison


@pytest.mark.parametrize(
    ("workers", "planted", "least_s"),
    [
        (0, WORKLOAD.planted, 0.026),  # 4 samples of 6 ms, and the step
        (2, WORKLOAD.planted, 0.012),
        (64, WORKLOAD.planted, 0.002),  # two CPUs need 2 ms, as the step does
        (64, Planted(cpu_s=0.004), 0.008),
        # the sampler and the step, in the main process
        (64, Planted(wait_s=0.005, sampler_s=0.010), 0.042),
        (64, Planted(), 0.002),
    ],
)
def test_the_least_possible_time_of_a_batch(
    workers: int, planted: Planted, least_s: float
) -> None:
    assert replace(WORKLOAD, planted=planted).least_batch_s(
        workers, cpus=2
    ) == pytest.approx(least_s)


def test_planted_costs_are_those_of_the_datasets() -> None:
    for name in ("waits", "every_eighth", "sorted", "bursty", "step_bound", "short"):
        workload = find(name)
        dataset = workload.make_dataset()
        indices = range(len(dataset)) if len(dataset) < 10_000 else range(8)
        mean_s = sum(dataset._sleep_s(index) for index in indices) / len(indices)
        assert workload.planted.wait_s == pytest.approx(mean_s, rel=0.001), name
    assert len({workload.name for workload in NUMBERS_WORKLOADS}) == len(
        NUMBERS_WORKLOADS
    )


def test_a_row_is_compared_with_the_loops_of_its_settings_repeat_and_neighbour() -> (
    None
):
    row = Row(workers=2, batch_s=0.033, low_s=0.029, high_s=0.037)
    elsewhere = [replace(RUN, batch_s=1.0, **change) for change in DIFFERENT]
    comparison = compared(row, RUN, replace(RUN, number=2, batch_s=0.040), *elsewhere)
    assert comparison.bare_batch_s == pytest.approx(0.030)
    assert comparison.error == pytest.approx(0.10)
    assert comparison.is_covered
    assert compared(replace(row, high_s=0.0295), RUN).is_covered is False
    assert coverage(
        [comparison, compared(row, RUN), compared(replace(row, low_s=None), RUN)]
    ) == (0.5, 2)
    assert compared(row, *elsewhere).error is None
    assert compared(
        row, replace(RUN, beside="one"), beside="one"
    ).error == pytest.approx(0.65)


DIFFERENT: list[dict[str, Any]] = [
    {"workers": 3},
    {"repeat": 2},
    {"prefetch_factor": 4},
    {"beside": "both"},
]


def test_rows_of_short_epochs_are_compared_by_their_epoch() -> None:
    run = replace(RUN, batch_s=None)
    assert compared(
        Row(workers=2, batch_s=0.001, epoch_s=2.5), run
    ).error == pytest.approx(0.25)
    # its steady batches have no row
    assert compared(Row(workers=2, epoch_s=2.5), RUN).error is None


@pytest.mark.parametrize(
    ("row", "spread", "beats"),
    [
        # 12 ms are possible, 3 % tolerated
        (Row(workers=2, batch_s=0.0117), 0.0, False),
        (Row(workers=2, batch_s=0.0116), 0.0, True),
        (Row(workers=2, batch_s=0.0130, epoch_s=1.16), 0.0, True),
        (Row(workers=2, batch_s=0.0130, epoch_s=1.17), 0.0, False),
        # 2 standard errors of 400 samples are 10 %
        (Row(workers=2, batch_s=0.0106, batches=100), 1.0, False),
        (Row(workers=2, batch_s=0.0104, batches=100), 1.0, True),
    ],
)
def test_rows_that_beat_a_physical_limit(row: Row, spread: float, beats: bool) -> None:
    workload = replace(WORKLOAD, planted=replace(WORKLOAD.planted, spread=spread))
    assert compared(row, workload=workload).beats_the_limit is beats


def test_noise_and_answers() -> None:
    second = replace(RUN, number=2, batch_s=0.025)
    assert bare_errors([RUN, second, replace(RUN, workers=3)]) == [pytest.approx(0.25)]
    zero, two = Row(workers=0, batch_s=0.1), Row(workers=2, fault="timeout: 60 s")
    assert not has_an_answer(replace(OUTCOME, rows=(zero, two)))
    assert has_an_answer(
        replace(OUTCOME, rows=(zero, replace(two, fault="", batch_s=0.1)))
    )
    assert not has_an_answer(
        replace(OUTCOME, pick=None, rows=(replace(two, fault=""),))
    )


def test_the_results_say_what_is_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[str] = []

    def measure(function: object, recipe: bare.Recipe, timeout_s: float) -> bare.Epochs:
        batch_s = max(0.012 / max(1, recipe.num_workers), 0.002)
        return bare.Epochs(600 * batch_s, True, batch_s)

    def search(method_run: methods.MethodRun, machine: object) -> Outcome:
        started.append(
            f"{method_run.workload.name} {method_run.beside} {method_run.repeat}"
        )
        rows = (
            Row(workers=0, batch_s=0.012),
            Row(workers=8, batch_s=0.001, low_s=0.0005, high_s=0.003),
        )
        return Outcome(
            workload=method_run.workload.name, method="plain", repeat=method_run.repeat, pick=8, cost_s=20.0,
            rows=rows, beside=method_run.beside,
        )  # fmt: skip

    monkeypatch.setattr(support, "LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.setattr(support, "start_fork_server", lambda: None)
    monkeypatch.setattr(child, "call", measure)
    monkeypatch.setattr(methods, "run_method", search)
    files = ["--output", str(tmp_path), "--journal", str(tmp_path / "numbers.jsonl")]
    command = [
        "numbers",
        *files,
        "--only",
        "waits",
        "--repeats",
        "2",
        "--beside",
        "quiet",
    ]
    assert main(command) == 0
    figures, rows = (
        list(csv.reader((tmp_path / f"{name}.csv").read_text("utf-8").splitlines()))
        for name in ("figures", "rows")
    )
    for figure in (
        ["rows that beat a physical limit", "quiet", "0", "4 of 4 rows", "no"],
        ["searches without an answer", "quiet", "0", "0 of 2", "yes"],
        ["cost: median, worst", "quiet", "5.0 s, 15.0 s", "20.0 s, 20.0 s", "no"],
    ):
        assert figure in figures
    # 24 and 3 ms
    named = ["waits", "quiet", "1", "8", "1 ms", "0.5 ms to 3 ms", "2 ms"]
    assert named in [row[:7] for row in rows]
    assert started == ["waits quiet 1", "waits quiet 2"]
    assert main([*command, "--resume"]) == 0
    assert started == ["waits quiet 1", "waits quiet 2"]


def test_targets_have_two_ends() -> None:
    line = numbers_results.Line(
        "coverage", "quiet", (0.97,), (0.95,), lambda share: f"{share:.2f}", least=0.93
    )
    assert (line.row, line.is_missed) == (
        ("coverage", "quiet", "0.93 to 0.97", "0.95", "yes"),
        False,
    )
    assert [
        replace(line, reached=(value,)).is_missed for value in (0.92, 0.98, None)
    ] == [True, True, True]
    assert not replace(line, most=(None,), reached=(None,), least=None).is_missed


def test_neighbours_die_with_the_benchmark() -> None:
    code = "from benchmarks import neighbours\nwith neighbours.beside('both'): print('inside', flush=True); input()"
    program = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "inside\n"
        family = psutil.Process(program.pid).children()
        os.kill(program.pid, signal.SIGKILL)
    left = processes.running([process.pid for process in family], after_s=5.0)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert family
    assert not left


def test_a_neighbour_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [neighbours.is_busy_phase(now_s) for now_s in (0.0, 3.9, 4.0, 7.9, 8.0)] == [
        True,
        True,
        False,
        False,
        True,
    ]
