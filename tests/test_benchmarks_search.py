"""The comparison of search methods: decisions and sums with figures made up; and once, on something tiny, all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bare, child, contest, leftovers, pace, peers, stage, stretch
from benchmarks.__main__ import main
from benchmarks.catalogue import NAMES, SEARCH_NAMES, SEARCH_WORKLOADS, Workload
from benchmarks.heuristics import HEURISTICS
from benchmarks.methods import (
    ADAPTIVE,
    EXHAUSTIVE,
    METHODS,
    Machine,
    Turn,
    about,
    answer_of,
    is_projected,
    played,
)
from benchmarks.oracle import Projection, Truth, noise_floor, truth_of, wanted
from benchmarks.outcomes import Journal, Outcome, Run
from benchmarks.page import Origin
from benchmarks.peers import Task, binary_share, mean_batch_s, nws_order
from benchmarks.search_page import page, picks, table
from benchmarks.standings import Standing, standings_of
from benchmarks.targets import advantages, verdicts
from nws_sweep.records import TrialState, Verdict
from tests import factories
from tests.conftest import ROOT

# What others decide.


def timer(epochs_s: Mapping[int, float], batches: int = 100) -> Projection:
    return Projection(epochs_s.__getitem__, batches)


def task(cpus: int, batches: int = 100, batch_size: int = 2) -> Task:
    return Task(cpus=cpus, batches=batches, batch_size=batch_size)


def test_the_seed_stops_when_its_patience_is_exceeded() -> None:
    time_epoch = timer({0: 10, 1: 9, 2: 5, 3: 6, 4: 5, 5: 6, 6: 6, 7: 1})
    assert peers.seed(time_epoch, task(cpus=16)) == 2
    assert time_epoch.tried == [0, 1, 2, 3, 4, 5, 6]  # no improvement four times
    assert time_epoch.spent_s == pytest.approx(47)


def test_the_seed_tries_no_more_workers_than_cpus() -> None:
    time_epoch = timer({0: 3, 1: 2, 2: 1})
    assert peers.seed(time_epoch, task(cpus=2)) == 2
    assert time_epoch.tried == [0, 1, 2]


def test_nws_begins_with_half_the_cpus() -> None:
    assert nws_order(8) == [4, 0, 1, 3, 2, 5, 6, 7, 8]
    assert nws_order(2) == [1, 0, 2]
    assert nws_order(1) == [0, 1]


def test_nws_breaks_off_what_is_slower_than_its_best_and_stops_at_a_small_gain() -> None:
    time_epoch = timer({4: 20, 0: 100, 3: 12, 2: 30, 5: 8})
    assert peers.nws(time_epoch, task(cpus=8)) == 5
    assert time_epoch.tried == [4, 0, 3, 2, 5]  # slow at 0: not 1; slow at 2: none below 3
    assert time_epoch.spent_s == pytest.approx(20 + 21 + 12 + 12.3 + 8)


def test_nws_stops_when_it_gains_little_or_more_workers_are_slower() -> None:
    time_epoch = timer({1: 20, 0: 10, 2: 12})
    assert peers.nws(time_epoch, task(cpus=4)) == 0
    assert time_epoch.tried == [2, 0]  # it gains less than 5 s
    time_epoch = timer({1: 10, 0: 30, 2: 12, 3: 1})
    assert peers.nws(time_epoch, task(cpus=3)) == 1
    assert time_epoch.tried == [1, 0, 2]


def test_paddle_wants_a_quarter_less_at_every_step_and_refines_once_there_is_none() -> None:
    time_epoch = timer({0: 10, 2: 7, 4: 6, 3: 5, 5: 3, 6: 3.2, 7: 3.2})
    assert peers.paddle(time_epoch, task(cpus=16)) == 5
    assert time_epoch.tried == [0, 2, 4, 3, 4, 5, 6, 6, 7]


def test_paddle_times_five_hundred_batches_at_most() -> None:
    time_epoch = timer({0: 100.0}, batches=10_000)
    assert peers.paddle(time_epoch, task(cpus=2)) == 0
    assert time_epoch.tried == [0]  # below half of two CPUs
    assert time_epoch.spent_s == pytest.approx(5)


@pytest.mark.parametrize("best", range(1, 17))
def test_binary_finds_the_only_minimum(best: int) -> None:
    time_epoch = timer({n: 10.0 + abs(n - best) for n in range(1, 17)})
    assert peers.binary(time_epoch, task(cpus=16)) == best
    assert len(time_epoch.tried) == len(set(time_epoch.tried)) <= 8


def test_binary_is_done_at_once_with_one_cpu() -> None:
    time_epoch = timer({})
    assert peers.binary(time_epoch, task(cpus=1)) == 1
    assert time_epoch.tried == []


def test_binary_takes_a_share_of_an_epoch_and_gives_up_the_slow_sooner() -> None:
    time_epoch = timer({1: 1000.0, 2: 4000.0}, batches=1000)
    assert peers.binary(time_epoch, task(cpus=2, batches=1000, batch_size=2048)) == 1
    assert time_epoch.spent_s == pytest.approx(402 + 4 * 14)
    assert [binary_share(size) for size in (1, 2, 2048, 4096)] == pytest.approx([0.03, 0.03, 0.4, 0.4])


def test_the_mean_of_batches_leaves_out_the_first() -> None:
    assert mean_batch_s([7.0, 7.0, 7.0, 8.0, 10.0], after=3) == 1.5
    assert mean_batch_s([1.0, 2.0], after=0) == 1.0
    assert mean_batch_s([1.0, 3.0], after=5) == 2.0  # as many as there are
    assert mean_batch_s([1.0], after=5) == 1.0


@pytest.mark.parametrize(
    ("cpus", "gpus", "expected"), [(2, 0, [0, 2, 1, 2, 4]), (16, 2, [0, 16, 15, 8, 8]), (1, 1, [0, 1, 0, 1, 4])]
)
def test_rules_of_thumb(cpus: int, gpus: int, expected: list[int]) -> None:
    assert [rule(cpus, gpus) for rule in HEURISTICS.values()] == expected


# What an epoch takes.


def test_an_epoch_is_broken_off_after_whole_clumps_beyond_the_queue() -> None:
    def may_stop(position: int, elapsed_s: float = 4.0) -> bool:
        return pace.may_stop(position, elapsed_s, workers=2, queue=4, limit_s=3.5)

    assert [position for position in range(1, 13) if may_stop(position)] == [8, 10, 12]
    assert not may_stop(8, elapsed_s=3.0)
    assert pace.may_stop(3, 4.0, workers=0, queue=0, limit_s=3.5)


def test_the_rest_of_an_epoch_goes_on_at_the_steady_pace() -> None:
    # two workers of a second a batch, and three seconds for their start
    seen = pace.Epoch((4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 7.0, 7.0))
    assert pace.projected_epoch_s(seen, batches=20, workers=2, queue=4) == 13.0
    assert pace.projected_epoch_s(seen, batches=8, workers=2, queue=4) == 7.0


class Loader:
    """Sixty batches of a millisecond and no more."""

    def __len__(self) -> int:
        return 60

    def __iter__(self) -> Iterator[int]:
        for batch in range(60):
            time.sleep(0.001)
            yield batch


def recipe(**changes: Any) -> bare.Recipe:
    defaults: dict[str, Any] = {
        "dataset": {},
        "consumer": {},
        "batch_size": 1,
        "num_workers": 0,
        "prefetch_factor": 2,
        "least_s": 0.0,
    }
    return bare.Recipe(**{**defaults, **changes})


def test_a_long_run_is_broken_off_or_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    consumed: list[int] = []
    monkeypatch.setattr(bare, "made", lambda chosen: (None, consumed.append))
    monkeypatch.setattr(bare, "open_loader", lambda dataset, chosen: Loader())
    whole = stretch.loop(stretch.Order(recipe=recipe(least_s=0.1), limit_s=60.0))
    assert whole.whole
    assert len(whole.epochs) in (1, 2)  # one of 0.1 s on a busy machine
    assert consumed == [0, *len(whole.epochs) * list(range(60))]  # the first batch of all counts for nothing
    broken = stretch.loop(stretch.Order(recipe=recipe(), limit_s=0.01))
    assert not broken.whole
    (epoch,) = broken.epochs
    assert 3 <= len(epoch.consumed_s) <= 11
    assert broken.epoch_s(recipe()) > 0.06


# What the oracle says.


def runs_of(*passes: Mapping[int, float | None], workload: str = "w") -> list[Run]:
    """One pass a repeat."""
    return [
        Run(workload=workload, workers=workers, repeat=repeat, number=1, epoch_s=epoch_s)
        for repeat, epochs_s in enumerate(passes, start=1)
        for workers, epoch_s in epochs_s.items()
    ]


def truth(epochs_s: Mapping[int, float], floor: float | None = None) -> Truth:
    found = truth_of(runs_of(epochs_s))
    assert found is not None
    return replace(found, noise_floor=floor)


def test_the_truth_is_the_least_median() -> None:
    steady = {2: 2.0, 8: 5.0}  # most numbers say that the machine was as fast in each pass
    found = truth_of(runs_of({0: 4.0, 4: 1.0, **steady}, {4: 9.0, **steady}, {4: 3.0, **steady}))
    assert found is not None
    assert (found.best, found.best_s, found.passes) == (2, 2.0, 3)
    assert [found.regret(pick) for pick in (2, 4, 0, 3, None)] == [0.0, 0.5, 1.0, None, None]
    assert truth_of([]) is None


def test_how_slow_the_machine_was_in_a_pass_is_taken_out() -> None:
    found = truth_of(runs_of({2: 2.0, 4: 3.0, 8: 3.0}, {2: 4.0, 4: 6.0, 8: 5.0}, {2: 2.0, 4: 3.0}))
    assert found is not None
    assert found.epochs_s == {2: 2.0, 4: 3.0, 8: 2.75}
    assert found.slowness == {1: 1.0, 2: 2.0, 3: 1.0}


def test_who_was_measured_in_few_passes_is_not_the_best_by_luck() -> None:
    found = truth_of(runs_of({2: 2.0, 4: 3.0}, {2: 2.0, 4: 3.0}, {2: 2.0, 3: 1.9, 4: 3.0}))
    assert found is not None
    assert (found.best, found.regret(3)) == (2, 0.0)


def test_the_fewest_workers_of_equals_are_the_best() -> None:
    assert truth({8: 1.0, 4: 1.0}).best == 4


def test_what_was_not_measured_lies_between_its_neighbours() -> None:
    found = truth({0: 8.0, 4: 4.0, 8: 5.0})
    assert [found.epoch_s(workers) for workers in (0, 1, 4, 6, 8, 9)] == [8.0, 7.0, 4.0, 4.5, 5.0, 5.0]


def test_the_noise_floor_is_what_the_other_half_thinks_of_the_winner() -> None:
    passes: list[Mapping[int, float | None]] = [{0: 9.0, 2: 1.0, 4: 1.5}, {2: 1.25, 4: 1.0}, {2: 1.0, 4: 1.5}]
    assert noise_floor(runs_of(*passes)) == 0.25
    assert noise_floor(runs_of(passes[0])) is None
    assert noise_floor(runs_of({0: 1.0}, {1: 1.0})) is None


def test_no_more_runs_for_obvious_losers_and_what_broke() -> None:
    first: dict[int, float | None] = {0: 2.1, 1: 1.9, 2: 1.0, 4: 1.1, 32: None}
    values = (0, 1, 2, 4, 8, 32)
    assert wanted(values, []) == [0, 1, 2, 4, 8, 32]
    assert wanted(values, runs_of(first)) == [1, 2, 4, 8]  # one run may be off
    assert wanted(values, runs_of(first, {1: 1.9, 2: 1.0})) == [2, 4, 8]


# What is kept.


def outcome(method: str = ADAPTIVE, pick: int | None = 2, **changes: Any) -> Outcome:
    return Outcome(**{"workload": "cifar", "method": method, "repeat": 1, "pick": pick, "cost_s": 3.0, **changes})


def test_a_journal_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "new" / "search.jsonl"
    journal = Journal(path, {"a": 1}, resume=True)
    journal.add_outcome(outcome(tied=(3,), tried=(0, 1, 2), crashes=("it broke",), detail={"cost": None}))
    journal.add_run(runs_of({2: 1.5})[0])
    with path.open("a") as file:
        file.write('{"run": {"workl')
    again = Journal(path, {"a": 1}, resume=True)
    assert (again.outcomes, again.runs) == (journal.outcomes, journal.runs)
    assert again.has("cifar", ADAPTIVE, 1)
    assert not again.has("cifar", ADAPTIVE, 2)
    with pytest.raises(ValueError, match="leave out --resume"):
        Journal(path, {"a": 2}, resume=True)


# What our own search says.


def test_the_verdict_decides_where_there_is_one() -> None:
    settings = {n: factories.loader_settings(n) for n in (1, 2, 4)}
    verdict = Verdict(recommended=settings[4], fastest=settings[2], tied=(settings[2], settings[1]))
    trials = (factories.trial(2, 1.0), factories.trial(4, 2.0), factories.failed_trial(8))
    answer = answer_of(factories.search_result(*trials, verdict=verdict))
    assert (answer.pick, answer.tied, answer.tried) == (4, (2, 1), (2, 4, 8))
    assert answer.crashes == ("num_workers=8: failed: it broke",)
    json.dumps(answer.detail)


def test_without_a_verdict_the_trials_decide() -> None:
    skipped = factories.failed_trial(16, "too large", TrialState.SKIPPED)
    answer = answer_of(factories.search_result(factories.trial(2, 1.01), factories.trial(4, 1.0), skipped))
    assert (answer.pick, answer.tied, answer.crashes) == (2, (), ())
    assert answer.detail["not_ok"] == ["num_workers=16: skipped: too large"]
    assert answer_of(factories.search_result(skipped)).pick is None


def silent(line: str) -> None:
    """Says nothing."""


def turn(method: str, workload: Workload = SEARCH_WORKLOADS[0]) -> Turn:
    return Turn(method=method, workload=workload, repeat=1, log_path=Path("/nowhere/log"))


def test_what_breaks_a_method_is_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("no such strategy")

    monkeypatch.setattr("benchmarks.methods.ours.find", broken)
    found = played(turn(ADAPTIVE), Machine(cpus=2, gpus=0), silent)
    assert (found.pick, found.crashes) == (None, ("RuntimeError: no such strategy",))
    assert found.cost_s > 0


def test_rules_of_thumb_cost_nothing() -> None:
    assert played(turn("cpus_less_one"), Machine(cpus=8, gpus=0), silent) == outcome(
        "cpus_less_one", 7, workload="latency", cost_s=0.0
    )


def test_processes_left_behind_are_counted_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NWS_SWEEP_BENCHMARK", "")
    leftovers.mark()
    before = leftovers.family()
    # Its parent is gone. A program that it starts would have no environment for a moment.
    subprocess.run([sys.executable, "-c", "import os, time\nif not os.fork(): time.sleep(60)"], check=True)
    (orphan,) = leftovers.family() - before
    (line,) = leftovers.ended(before, grace_s=0.0)
    assert line.startswith(f"process {orphan.pid} (")
    assert leftovers.ended(before, grace_s=10.0) == ()


# What is made of it.


def standing(method: str = ADAPTIVE, regret: float | None = 0.0, cost_s: float = 2.0, **changes: Any) -> Standing:
    defaults: dict[str, Any] = {
        "workload": "cifar", "method": method, "picks": (2,), "regrets": (regret,), "costs_s": (cost_s,), "best_s": 2.0,
    }  # fmt: skip
    return Standing(**{**defaults, **changes})


CIFAR, FIFTY, MILLION = (w for w in SEARCH_WORKLOADS if w.name in ("cifar", "fifty", "million"))


def test_a_standing_is_over_all_repeats() -> None:
    outcomes = [
        outcome(pick=2, fastest=4, repeat=1, cost_s=1.0, tried=(0, 1)),
        outcome(pick=4, repeat=2, cost_s=4.0, tried=(0,), tied=(2,), crashes=("it broke",)),
        outcome(pick=2, repeat=3, cost_s=3.0, left_behind=("process 7",)),
        outcome("zero", 0, cost_s=0.0),
    ]
    found = standings_of(outcomes, {"cifar": truth({0: 4.0, 2: 2.0, 4: 3.0})}, [CIFAR], METHODS, cpus=2)
    own, zero = found
    assert (own.picks, own.regrets) == ((2, 4, 2), (0.0, 0.5, 0.0))
    assert (own.regret, own.high_regret, own.cost_s, own.cost_epochs) == (0.0, 0.5, 3.0, 1.5)
    assert (own.fastest_regret, zero.fastest_regret) == (0.5, None)
    assert (own.trials, own.ambiguous) == ((2, 1, 0), 1)
    assert (own.crashes, own.left_behind) == (("repeat 2: it broke",), ("repeat 3: process 7",))
    assert (zero.method, zero.regret, zero.cost_epochs) == ("zero", 1.0, 0.0)


def test_to_come_to_nothing_is_no_good_regret() -> None:
    (own,) = standings_of([outcome(), outcome(pick=None)], {"cifar": truth({2: 1.0})}, [CIFAR], METHODS, cpus=2)
    assert (own.regret, own.high_regret) == (None, None)


def test_the_95th_percentile_of_many_is_not_the_largest() -> None:
    assert standing(regrets=tuple(0.01 * n for n in range(1, 21))).high_regret == 0.19
    assert standing(regrets=(0.0, 0.3, 0.1)).high_regret == 0.3


def test_whole_epochs_that_take_too_long_are_projected() -> None:
    truths = {"million": truth({0: 40.0, 1: 44.0, 2: 20.0})}
    found = standings_of([outcome(workload="million")], truths, [MILLION], (ADAPTIVE, "seed", "paddle"), cpus=2)
    assert [(s.method, s.projected) for s in found] == [(ADAPTIVE, False), ("seed", True)]
    assert (found[1].picks, found[1].regret, found[1].trials) == ((2,), 0.0, (3,))
    assert found[1].cost_s == pytest.approx(104.0)
    assert [is_projected("seed", workload) for workload in (MILLION, FIFTY)] == [True, False]


def test_targets_are_met_at_their_limits() -> None:
    found = [
        standing(regret=0.01, cost_s=2.0, fastest_regrets=(0.0, 0.01, 0.03)),
        standing(EXHAUSTIVE, cost_s=8.0),
        standing(workload="fifty", regrets=(0.0, 0.05, 0.0), cost_s=1.0),
        standing(workload="million", cost_s=1.1),
    ]
    told = verdicts(found, {})
    assert [line.rpartition(": ")[2] for line in told[:8]] == 8 * ["met"]
    assert told[8] == "searches that ended ambiguous: 0 of 3, 0 %"


def test_what_misses_a_target_is_named() -> None:
    found = [
        standing(
            regrets=(0.02, 0.02, 0.06),
            costs_s=(5.0,),
            picks=(4, 4, 8),
            ambiguous=2,
            crashes=("it broke",),
            fastest_regrets=(0.0, 0.02, 0.02),
        ),
        standing(EXHAUSTIVE, cost_s=10.0),
        standing(workload="fifty", regret=None, cost_s=1.0, left_behind=("process 7", "process 8")),
        standing(workload="million", cost_s=1.5),
    ]
    told = [line.partition(": ")[2] for line in verdicts(found, {"cifar": truth({0: 1.0}, floor=0.03)})]
    assert told == [
        "missed by cifar with a noise floor of 3.0 % (2.0 %), fifty (no value)",
        "missed by cifar with a noise floor of 3.0 % (6.0 %), fifty (no value)",
        "missed by cifar with a noise floor of 3.0 % (2.0 %)",
        "missed by cifar (2.50)",
        "missed by 1.50 s / 1.00 s (1.50)",
        "missed by cifar (0.50)",
        "missed by cifar (1)",
        "missed by fifty (2)",
        "2 of 5, 40 % (cifar 2)",
    ]


def test_to_fail_is_no_low_cost() -> None:
    found = [standing(cost_s=0.1, picks=(None,)), standing(EXHAUSTIVE, cost_s=10.0)]
    told = verdicts(found, {})
    assert told[3].endswith("missed by cifar (no value)")
    assert told[5].endswith("missed by cifar (no value)")


def test_nothing_measured_meets_no_target() -> None:
    assert all(line.endswith(": not measured") for line in verdicts([], {}))


def test_it_is_said_where_others_are_better() -> None:
    found = [
        standing(regret=0.02, cost_s=4.0),
        standing("seed", 0.0, 30.0),
        standing("paddle", 0.5, 1.0),
        standing("zero", 0.02, 0.0),
        standing("cpus", 0.015, 0.0),
        standing("nws", None, 9.0),
    ]
    assert advantages(found, {"cifar": truth({2: 1.0}, floor=0.01)}) == [
        "regret on cifar: seed 0.0 %, adaptive 2.0 %",
        "regret on cifar: cpus 1.5 %, adaptive 2.0 %, less apart than the noise floor",
        "cost on cifar: paddle 1.0 s with a regret of 50.0 %, adaptive 4.0 s with 2.0 %",
    ]
    assert advantages([standing(regret=None), standing("nws", 0.5, 9.0)], {}) == [
        "regret on cifar: nws 50.0 %, adaptive no value"
    ]


def test_picks_are_counted() -> None:
    assert picks((4, 2, 2, None)) == "2 x2, 4, none"


def test_the_table_shows_what_was_found() -> None:
    rows = [
        standing(picks=(2, 2), regrets=(0.0, 0.04), costs_s=(1.0, 3.0), trials=(4, 5), ambiguous=1, crashes=("x",)),
        standing("seed", workload="million", trials=(3,), projected=True),
    ]
    lines = table(rows).splitlines()
    assert lines[2] == "| cifar | adaptive | 2 x2 | 2.0 % (4.0 %) | 1.00 | 2.0 | 4 to 5 | 1 | 1 |"
    assert lines[3] == "| million | seed (p) | 2 | 0.0 % (0.0 %) | 1.00 | 2.0 | 3 |  |  |"
    assert lines[5].startswith("(p) not played")
    assert lines[7] == "- adaptive on cifar, x"


def test_the_page_says_what_the_figures_are() -> None:
    origin = Origin(host=factories.HOST, command="scripts/benchmark search", date="2024-05-01", rounds=5, threads="1")
    truths = {"cifar": truth({0: 4.0, 2: 2.0}, floor=0.015)}
    text = page([standing(method) for method in METHODS], truths, SEARCH_WORKLOADS, origin)
    assert "Made on 2024-05-01 by `scripts/benchmark search`, 5 repeats" in text
    assert "| cifar | 2 | 2 | 1 | 1.5 % | 0: 4, 2: 2 |" in text
    assert "- nowhere" in text
    assert all(f"- {method}: {about(method)}" in text for method in METHODS)
    assert all(f"- {workload.name}: " in text for workload in SEARCH_WORKLOADS)


# What is measured, and in which order.


def test_the_other_benchmark_keeps_its_workloads() -> None:
    assert NAMES == ("latency", "cpu", "memory", "jpeg", "heavy", "bursty", "consumer")
    assert SEARCH_NAMES[:7] == NAMES
    assert SEARCH_NAMES[7:] == ("cifar", "short", "fifty", "million", "remote")


def test_length_is_all_that_tells_the_long_from_the_short() -> None:
    assert (FIFTY.dataset["samples"], MILLION.dataset["samples"]) == (50_000, 1_280_000)
    assert FIFTY.dataset | {"samples": 0} == MILLION.dataset | {"samples": 0}
    assert FIFTY.batch_size == MILLION.batch_size
    for workload in (CIFAR, FIFTY, MILLION):
        assert workload.batches == -(-workload.dataset["samples"] // workload.batch_size)


EPOCHS_S = {0: 3.0, 1: 1.9, 2: 1.0, 4: 1.2}


class Stage:
    """Puts made-up methods and a made-up machine in the place of the real ones, and writes down what is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.done: list[str] = []
        self.folder = tmp_path
        monkeypatch.setattr(stage, "LOCK_FILE", str(tmp_path / "lock"))
        monkeypatch.setattr(stage, "start_fork_server", lambda: None)
        monkeypatch.setattr(child, "call", lambda *arguments: 0)
        monkeypatch.setattr(stretch, "measure", self._measure)
        monkeypatch.setattr(contest, "played", self._played)

    def _measure(self, order: stretch.Order) -> stretch.Stretch:
        workers = order.recipe.num_workers
        if not order.recipe.least_s:  # it warms up
            return stretch.Stretch(epochs=(pace.Epoch((1.0,)),), batches=1)
        self.done.append(f"run {workers}")
        if workers > 8:
            raise RuntimeError("too large")
        return stretch.Stretch(epochs=(pace.Epoch((EPOCHS_S[workers],)),), batches=1)

    def _played(self, chosen: Turn, machine: Machine, say: object) -> Outcome:
        self.done.append(f"play {chosen.method} {chosen.repeat}")
        return outcome(chosen.method, 4, workload=chosen.workload.name, repeat=chosen.repeat)

    def run(self, *arguments: str) -> tuple[list[str], str]:
        """What this run did, and its page."""
        self.done.clear()
        files = ["--output", str(self.folder / "page.md"), "--journal", str(self.folder / "search.jsonl")]
        assert main(["search", "--only", "short", "--candidates", "0,1,2,16", *files, *arguments]) == 0
        return list(self.done), (self.folder / "page.md").read_text("utf-8")


def runs_in(done: Sequence[str]) -> list[str]:
    return sorted(entry for entry in done if entry.startswith("run"))


def test_methods_come_first_and_then_the_oracle_without_losers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done, text = Stage(monkeypatch, tmp_path).run("--repeats", "2", "--methods", "adaptive", "zero")
    assert sorted(done[:2]) == ["play adaptive 1", "play zero 1"]
    assert runs_in(done[2:7]) == ["run 0", "run 1", "run 16", "run 2", "run 4"]  # the pick too
    assert runs_in(done[7:10]) == ["run 1", "run 2", "run 4"]
    assert sorted(done[10:12]) == ["play adaptive 2", "play zero 2"]
    assert runs_in(done[12:]) == ["run 2", "run 2", "run 4", "run 4"]
    assert "| short | adaptive | 4 x2 | 20.0 % (20.0 %) | 3.00 | 3.0 |" in text


def test_a_comparison_goes_on_with_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    benchmark = Stage(monkeypatch, tmp_path)
    benchmark.run("--repeats", "1", "--methods", "zero")
    assert benchmark.run("--repeats", "1", "--methods", "zero", "--resume")[0] == []
    done, text = benchmark.run("--repeats", "1", "--methods", "zero", "adaptive", "--resume")
    assert done == ["play adaptive 1"]
    assert "| short | zero | 4 |" in text
    assert "| short | adaptive | 4 |" in text
    assert benchmark.run("--repeats", "1", "--methods", "zero")[0][0] == "play zero 1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repeats", "0"], "'0': allowed is a whole number from 1"),
        (["--candidates", "1,x"], "'1,x': allowed are whole numbers from 0"),
        (["--only", "none"], "invalid choice: 'none'"),
        (["--methods", "none"], "invalid choice: 'none'"),
    ],
)
def test_a_wrong_command_line_is_refused_in_words(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["search", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.apart
@pytest.mark.slow
def test_the_quick_benchmark_writes_its_page(tmp_path: Path) -> None:
    output, journal = tmp_path / "search.md", tmp_path / "search.jsonl"
    options = ["--quick", "--only", "short", "--methods", "zero", "seed", "--candidates", "0,2", "--passes", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "search", *options, "--output", output, "--journal", journal],
        cwd=ROOT, env={**os.environ, "NWS_SWEEP_LOCK_FILE": str(tmp_path / "lock")}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = Journal(journal, json.loads(journal.read_text().splitlines()[0]), resume=True)
    found = {o.method: o for o in kept.outcomes}
    assert found["seed"].tried[:2] == (0, 1)
    assert found["seed"].cost_s > sum(elapsed_s for _, _, elapsed_s in found["seed"].detail["probes"]) > 0.4
    assert not found["seed"].left_behind
    assert {0, 2} <= {run.workers for run in kept.runs}
    assert all(run.epoch_s for run in kept.runs)
    assert "| short | seed |" in output.read_text("utf-8")
