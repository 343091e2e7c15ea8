"""The comparison of search methods, with simulated figures."""

import csv
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import (
    ablation,
    bare,
    child,
    curves,
    epoch_times,
    peers,
    search,
    simulated,
    simulated_machine,
    support,
)  # fmt: skip
from benchmarks.__main__ import main
from benchmarks.journal import Outcome, Run, Setting
from benchmarks.methods import MethodRun
from benchmarks.oracle import Truth, truth_of
from benchmarks.peers import Task
from nws_sweep.records import MeasureRules
from tests.conftest import ROOT


class FakeTimer:
    """Equal batches in epochs of given lengths by number of workers."""

    def __init__(self, epochs_s: Mapping[int, float], batches: int) -> None:
        self.epochs_s, self.batches = epochs_s, batches
        self.spent_s, self.tried = 0.0, list[int]()

    def __call__(
        self, num_workers: int, until: epoch_times.Until
    ) -> epoch_times.Timestamps:
        times_s = [
            n * self.epochs_s[num_workers] / self.batches
            for n in range(1, self.batches + 1)
        ]
        taken_s = next(
            (times_s[:n] for n in range(1, self.batches) if until(times_s[:n])), times_s
        )
        self.spent_s += taken_s[-1]
        self.tried.append(num_workers)
        return taken_s


@pytest.mark.parametrize(
    ("peer", "cpus", "epochs_s", "pick", "tried", "spent_s"),
    [
        # No improvement four times.
        (
            peers.seed,
            16,
            {0: 10, 1: 9, 2: 5, 3: 6, 4: 5, 5: 6, 6: 6, 7: 1},
            2,
            [0, 1, 2, 3, 4, 5, 6],
            47,
        ),
        # Epochs slower than the best are stopped. Slow at 0: not 1; slow at 2: none
        # below 3.
        (
            peers.nws,
            8,
            {4: 20, 0: 100, 3: 12, 2: 30, 5: 8},
            5,
            [4, 0, 3, 2, 5],
            20 + 21 + 12 + 12.3 + 8,
        ),
        # A quarter less at every step, and refines once there is none; 500 batches at
        # most.
        (
            peers.paddle,
            16,
            {0: 10, 2: 7, 4: 6, 3: 5, 5: 3, 6: 3.2, 7: 3.2},
            5,
            [0, 2, 4, 3, 4, 5, 6, 6, 7],
            None,
        ),
        (peers.binary, 1, {}, 1, [], 0),
        (
            peers.climber,
            2,
            {1: 5.0, 2: 4.0, 3: 3.0, 4: 3.5},
            3,
            [1, 2, 3, 4],
            0.51 * 15.5,
        ),
    ],
)
def test_picks_of_other_methods(
    peer: Any,
    cpus: int,
    epochs_s: Mapping[int, float],
    pick: int,
    tried: list[int],
    spent_s: float | None,
) -> None:
    timer = FakeTimer(epochs_s, 100)
    assert peer(timer, Task(cpus=cpus, batches=100, batch_size=2)) == pick
    assert timer.tried == tried
    assert spent_s is None or timer.spent_s == pytest.approx(spent_s)


def runs_of(*passes: Mapping[int, float | None]) -> list[Run]:
    """One pass per repeat."""
    return [
        Run(workload="w", workers=workers, repeat=repeat, number=1, epoch_s=epoch_s)
        for repeat, epochs_s in enumerate(passes, start=1)
        for workers, epoch_s in epochs_s.items()
    ]


def truth(*passes: Mapping[int, float | None]) -> Truth:
    found = truth_of(runs_of(*passes))
    assert found is not None
    return found


def test_the_truth_is_the_least_median() -> None:
    steady = {2: 2.0, 8: 5.0}  # most numbers were equally fast in all passes
    found = truth({0: 4.0, 4: 1.0, **steady}, {4: 9.0, **steady}, {4: 3.0, **steady})
    assert (found.best, found.best_s, found.passes) == (Setting(2), 2.0, 3)
    assert [found.slowness_of(Setting(pick)) for pick in (2, 4, 0, 3)] == [
        0.0,
        0.5,
        1.0,
        None,
    ]
    assert found.slowness_of(None) is None
    prices = [4.0, 2.0 * 1.03 ** math.log2(3)]
    assert [found.regret(Setting(pick)) for pick in (0, 2)] == pytest.approx(
        [prices[0] / prices[1] - 1, 0.0]
    )
    assert truth({8: 1.0, 4: 1.0}).best == Setting(4)  # the fewest workers of equals
    # 3 is in one pass only
    in_one_pass = truth({2: 2.0, 4: 3.0}, {2: 2.0, 4: 3.0}, {2: 2.0, 3: 1.9, 4: 3.0})
    assert in_one_pass.best == Setting(2)
    found = truth({2: 2.0, 4: 3.0, 8: 3.0}, {2: 4.0, 4: 6.0, 8: 5.0}, {2: 2.0, 4: 3.0})
    assert found.epochs_s == {Setting(2): 2.0, Setting(4): 3.0, Setting(8): 2.75}
    assert found.slowness == {1: 1.0, 2: 2.0, 3: 1.0}


def test_picks_with_other_settings_are_compared_with_the_best_of_the_oracle() -> None:
    usual = Run(workload="w", workers=4, repeat=1, number=1, epoch_s=1.0)
    longer_queue = replace(usual, epoch_s=0.5, own=False, prefetch_factor=8)
    persistent = replace(usual, epoch_s=0.8, persistent=True)
    found = truth_of([usual, longer_queue, persistent])
    assert found is not None
    assert found.best == Setting(4, persistent=True)
    assert found.slowness_of(Setting(4)) == pytest.approx(0.25)
    assert found.slowness_of(Setting(4, 8)) == pytest.approx(-0.375)
    assert found.slowness_of(Setting(4, 1)) is None


# The order of measuring, with simulated methods and machine.

EPOCHS_S = {0: 27.0, 1: 11.4, 2: 6.0, 3: 27.0, 4: 7.2}


def done_by(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    arguments: str,
    epochs_s: Mapping[int, float] = EPOCHS_S,
) -> tuple[list[str], dict[str, str]]:
    """The runs of a command line, and the files of its results; a start of workers
    takes 0.2 s."""
    done: list[str] = []

    def call(function: object, argument: Any, timeout_s: float = 0.0) -> Any:
        if function is search.count_gpus:
            return 0
        if not argument.least_s:  # a warm-up, with as many workers as CPUs
            return bare.Epochs(0.0, True, None)
        setting = Setting(argument.num_workers, persistent=argument.persistent)
        done.append(f"run {setting}")
        if argument.num_workers > 8:
            raise RuntimeError("too large")
        epoch_s = epochs_s.get(argument.num_workers, 54.0)
        return bare.Epochs(epoch_s - 0.18 * argument.persistent, True, None)

    def play(method_run: MethodRun, machine: object) -> Outcome:
        done.append(f"play {method_run.method} {method_run.repeat}")
        workload, method, repeat = (
            method_run.workload.name,
            method_run.method,
            method_run.repeat,
        )
        cost_s = 6.0 if method_run.checkout else 3.0
        return Outcome(
            workload=workload, method=method, repeat=repeat, pick=4, cost_s=cost_s
        )

    monkeypatch.setattr(support, "LOCK_FILE", str(folder / "lock"))
    monkeypatch.setattr(support, "start_fork_server", lambda: None)
    monkeypatch.setattr(child, "call", call)
    monkeypatch.setattr(search, "run_method", play)
    files = [
        "--output",
        str(folder / "results"),
        "--journal",
        str(folder / "search.jsonl"),
    ]
    assert (
        main(
            [
                "search",
                "--only",
                "short",
                "--candidates",
                "0,1,2,16",
                *files,
                *arguments.split(),
            ]
        )
        == 0
    )
    files_of = (folder / "results").iterdir()
    return done, {path.name: path.read_text("utf-8") for path in files_of}


def test_methods_precede_the_oracle_and_gaps_are_filled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done, results = done_by(
        monkeypatch, tmp_path, "--repeats 2 --methods adaptive zero"
    )
    assert [
        sorted(done[first:last])
        for first, last in ((0, 2), (2, 6), (6, 8), (8, 11), (11, 13), (13, 17))
    ] == [
        ["play adaptive 1", "play zero 1"],
        ["run 0", "run 1", "run 16", "run 2"],
        ["run 3", "run 4"],  # a neighbour of the best, and the pick
        ["run 1", "run 2", "run 4"],
        ["play adaptive 2", "play zero 2"],
        ["run 2", "run 2", "run 4", "run 4"],
    ]
    scored = "short,adaptive,4 x2,22.6 % (22.6 %),20.0 %,0.50,3.0,"
    assert f"\n{scored}" in results["scores.csv"]
    readme = results["README.md"]
    assert "by `scripts/benchmark search --only short --candidates 0,1,2,16" in readme
    assert (
        done_by(monkeypatch, tmp_path, "--repeats 2 --methods adaptive zero --resume")[
            0
        ]
        == []
    )
    done, results = done_by(
        monkeypatch, tmp_path, "--repeats 2 --methods adaptive zero cpus --resume"
    )
    assert done == ["play cpus 1", "play cpus 2"]
    assert "\nshort,zero,4 x2," in results["scores.csv"]


def test_where_epochs_are_short_the_oracle_has_workers_that_persist(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done, results = done_by(
        monkeypatch,
        tmp_path,
        "--repeats 1 --passes 1 --methods plain",
        {0: 4.5, 1: 1.9, 2: 1.0, 3: 1.3, 4: 1.4},
    )
    without = ["run 0", "run 1", "run 16", "run 2", "run 3"]
    assert sorted(done[1:6]) == without
    assert done[6:8] == ["run 2 (persistent)", "run 16 (persistent)"]
    assert sorted(done[8:10]) == ["run 1 (persistent)", "run 3 (persistent)"]
    assert done[10:] == ["run 4"]  # the pick
    assert "\nshort,2 (persistent),0.82," in results["oracle.csv"]


def test_costs_are_compared_with_another_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checkout = tmp_path / "old"
    (checkout / "nws_sweep").mkdir(parents=True)
    (checkout / "nws_sweep/__init__.py").touch()
    arguments = f"--repeats 2 --methods plain --passes 0 --against {checkout}"
    done, results = done_by(monkeypatch, tmp_path, arguments)
    assert sorted(done) == [
        "play plain 1",
        "play plain 2",
        "play plain of old 1",
        "play plain of old 2",
    ]
    assert results["costs_of_another_version.csv"].splitlines()[1:3] == [
        "short,3.0,6.0,0.50,0.50 to 0.50",
        "all 2 pairs,,,0.50,0.50 to 0.50",
    ]


@pytest.mark.parametrize("name", ["step 20 ms", "step computes", "slow sampler"])
def test_a_search_of_a_quiet_simulated_machine_prints_the_truth(name: str) -> None:
    """No noise: what is left are the batches that a window has."""
    curve = next(curve for curve in curves.CURVES if curve.name == name)
    machine = simulated_machine.machine_of(
        curve, simulated_machine.Condition(name="quiet"), seed=0
    )
    measure = MeasureRules(windows=3)
    record = simulated.searched(
        machine, measure, strategy="exhaustive", candidates=(0, 1, 4)
    )
    for trial in record.trials:
        assert trial.measurement is not None
        assert trial.measurement.batch_s is not None
        assert trial.measurement.batch_s.value == pytest.approx(
            curves.pace_s(curve, trial.settings), rel=0.02
        )
    assert simulated.compared(curve, machine, record).impossible == 0


@pytest.mark.parametrize(
    ("name", "machine", "most"),
    [
        ("peak at 3", "noise 5 %", 0.06),  # was never measured between 2 and 4
        ("sorted", "noise 15 %", 0.1),  # answered 8 of 22
        # answered 8 of 57
        pytest.param("every eighth", "noise 5 %", 0.1, marks=pytest.mark.extended),
        # answered 15 of 109
        pytest.param("gain to 64", "neighbour", 0.5, marks=pytest.mark.extended),
    ],
)
def test_what_once_was_answered_wrong_is_answered_right(
    name: str, machine: str, most: float
) -> None:
    curve = next(curve for curve in curves.CURVES if curve.name == name)
    condition = next(
        condition
        for condition in simulated_machine.CONDITIONS
        if condition.name == machine
    )
    assert (
        max(simulated.simulated(curve, condition, seed).regret for seed in range(2))
        <= most
    )


def test_the_best_settings_of_a_curve_have_no_regret_and_workers_beyond_them_have_a_price() -> (
    None
):
    free = dict.fromkeys(("fork_s", "start_s", "stop_s"), 0.0)
    curve = curves.Curve(
        name="computing", about="", cpu_s=0.02, batches=200, most_workers=6, costs=free
    )
    settings, _ = curves.best(curve)
    assert (settings.num_workers, curves.regret(curve, settings)) == (2, 0.0)
    assert curves.regret(curve, curves.settings_of(4)) == pytest.approx(
        1.03 ** math.log2(5 / 3) - 1, abs=0.01
    )
    assert curves.regret(curve, curves.settings_of(1)) > 0.7


def test_workers_that_persist_start_in_one_epoch_of_ten() -> None:
    curve = curves.Curve(
        name="starting",
        about="",
        cpu_s=0.02,
        first_cpu_s=0.0,
        batches=100,
        costs={"start_s": 5.0, "stop_s": 0.0},
    )
    epochs_s = {
        persists: 100 * curves.batch_s(curve, curves.settings_of(1, persists=persists))
        for persists in (False, True)
    }
    assert epochs_s[False] - epochs_s[True] == pytest.approx(0.9 * 5.0, abs=0.05)


def test_a_number_is_set_in_its_module_and_where_it_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = 1234.5
    for name in (
        "nws_sweep.defines",
        "nws_sweep.imports",
        "nws_sweep.has_another",
        "program",
    ):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(LIMIT_S=limit))
    another = ablation.Constant("nws_sweep.has_another", "LIMIT_S")
    monkeypatch.setattr(ablation, "constants", lambda: [another])
    ablation.set_value(ablation.Constant("nws_sweep.defines", "LIMIT_S"), 0.0)
    values = [
        sys.modules[name].LIMIT_S for name in ("nws_sweep.defines", "nws_sweep.imports")
    ]
    assert (values, another.value, sys.modules["program"].LIMIT_S) == (
        [0.0, 0.0],
        limit,
        limit,
    )


def test_each_number_of_the_search_has_values_without_effect_that_are_not_its_own() -> (
    None
):
    found = ablation.constants()
    assert len(found) > 20
    assert [
        constant.label for constant in found if constant.value in constant.neutral
    ] == []
    labels = {constant.name for constant in found} | {
        _with_module(constant) for constant in found
    }
    assert set(ablation._NEUTRAL) <= labels, "of a number that is gone"


def test_the_table_of_named_numbers_is_complete() -> None:
    page = (
        (ROOT / "docs/understand/searching.md")
        .read_text("utf-8")
        .split("\n## Named numbers\n")[1]
        .split("\n## ")[0]
    )
    rows = [
        line.split("|")[1:3]
        for line in page.splitlines()
        if line.startswith("| ") and "`" in line
    ]
    described = {
        (package.strip(), name)
        for package, names in rows
        for name in re.findall("`([A-Z_]+)`", names)
    }
    numbers = ablation.constants(("searching", "model", "online"))
    named = {(constant.module.split(".")[1], constant.name) for constant in numbers}
    codes, derived = {"STARTING", "READY", "FAILED"}, {"_LONG_S"}
    named = {(package, name) for package, name in named if name not in codes | derived}
    assert described == named | {("model", "PREFETCH_FACTORS")}


def _with_module(constant: ablation.Constant) -> str:
    return f"{constant.module.rpartition('.')[2]}.{constant.name}"


@pytest.mark.extended
def test_simulated_searches_write_their_results(tmp_path: Path) -> None:
    only = ["computing", "equal"]
    arguments = ["--repeats", "1", "--only", *only, "--jobs", "2"]
    assert main(["simulated", *arguments, "--output", str(tmp_path)]) == 0
    machines = [condition.name for condition in simulated_machine.CONDITIONS]
    by_machine, by_curve = (
        list(csv.reader((tmp_path / f"{name}.csv").read_text("utf-8").splitlines()))
        for name in ("by_machine", "by_curve")
    )
    assert [row[0] for row in by_machine] == ["machine", *machines, "all"]
    named = [(machine, curve) for machine in machines for curve in only]
    assert [(machine, curve) for machine, curve, *_ in by_curve[1:]] == named
    readme = (tmp_path / "README.md").read_text("utf-8")
    assert readme.startswith("# Simulated searches\n\nOf ")
