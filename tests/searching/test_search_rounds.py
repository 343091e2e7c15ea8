"""The adaptive search with its rounds and trial processes, on simulated machines."""

import math
from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.analysis import advice
from nws_sweep.errors import TimeLimitReached, TrialError
from nws_sweep.records import (
    Configuration,
    LoaderSettings,
    MeasureRules,
    SampleMade,
    SamplePart,
    SamplesLogged,
    SearchRecord,
    SearchRules,
    Status,
    Trial,
    TrialState,
    Window,
    WindowKind,
)
from nws_sweep.searching.earlier_results import continued
from nws_sweep.searching.search import search
from tests import factories
from tests.conftest import rounds
from tests.fakes import FakeMachine
from tests.simulated import Recorder, by_workers, machine_of, run_search


def configuration(measure: dict[str, Any] | None = None, **rules: Any) -> Configuration:
    return factories.configuration(
        loader=LoaderSettings(batch_size=8, prefetch_factor=2),
        measure=MeasureRules(**measure or {}),
        search=SearchRules(
            **{"strategy": "adaptive", "candidates": tuple(range(33)), **rules}
        ),
    )


def sleeping(
    batch_s: float = 0.32, step_s: float = 0.04, batches: int | None = 2000
) -> FakeMachine:
    """A dataset that sleeps, and a training step that eight workers keep busy."""
    return machine_of(lambda workers: batch_s, batches, step_s, start_s=0.01)


def recommended(result: SearchRecord) -> LoaderSettings:
    assert result.verdict is not None
    return result.verdict.recommended


def test_the_knee_is_predicted_and_found_in_a_fraction_of_an_epoch() -> None:
    machine = sleeping()
    result, recorder = run_search(configuration(), machine)
    trials = by_workers(result)
    assert recommended(result).num_workers == 8
    assert result.stop_reason == (
        "num_workers=8 is the fastest; no candidate can be faster, since it keeps the training step busy all the time"
    )
    assert result.cost_s < 0.25 * 2000 * 0.04
    assert len(trials) <= 4
    assert sorted(recorder.done) == sorted(trials)
    assert (pace := trials[8].measurement and trials[8].measurement.batch_s)
    assert pace.value == pytest.approx(0.04, rel=0.01)
    assert (pace.low is not None, pace.n >= 3) == (True, True)
    # An eliminated trial is ended at once, and its row says so; its few windows have
    # an interval by the common noise.
    assert trials[0].measurement is not None
    assert trials[0].measurement.batch_s is not None
    assert trials[0].measurement.batch_s.low is not None
    assert (trials[0].state, trials[0].notes[-1]) == (
        TrialState.OK,
        "ended after 2 rounds",
    )
    kinds = [request.kind for workers, request in machine.requests if workers == 0]
    assert kinds.count(WindowKind.STEADY) == 2
    assert kinds[-1] is WindowKind.STEADY


@pytest.mark.parametrize(("batch_s", "tries"), [(0.001, 1), (0.32, 0)])
def test_whole_batches_are_tried_once_where_samples_take_microseconds(
    batch_s: float, tries: int
) -> None:
    machine = sleeping(batch_s, step_s=0.0)
    result, _ = run_search(configuration(candidates=(0, 1, 2)), machine)
    assert machine.tries == tries
    assert result.facts
    (line,) = advice.on_samples(result) or ("",)
    assert line == tries * (
        "index whole batches: dataset[indices] gives equal batches 5.0x as fast as samples that are collated (tried "
        "without workers: 400 µs instead of 2.00 ms); DataLoader(dataset, batch_size=None, "
        "sampler=BatchSampler(RandomSampler(dataset), 8, drop_last=False))"
    )


@pytest.mark.parametrize(
    ("budget_s", "strategy"),
    [(1.0, "adaptive"), (2.0, "adaptive"), (3.0, "adaptive"), (20.0, "exhaustive")],
)
def test_a_time_budget_ends_the_search_to_within_a_window_with_the_best_so_far(
    budget_s: float, strategy: str
) -> None:
    machine = sleeping()
    result, _ = run_search(
        configuration(time_limit_s=budget_s, strategy=strategy), machine
    )
    assert (result.verdict and result.verdict.provisional, result.complete) == (
        True,
        True,
    )
    assert result.stop_reason == f"the time limit of {budget_s:g} s was spent"
    windows = [window.elapsed_s for trial in result.trials for window in trial.windows]
    assert budget_s <= machine.clock.now <= budget_s + max(windows) + 0.5
    alive = machine.alive_at_ends[0]
    assert machine.alive_at_ends[:alive] == [alive] * alive  # all end at the same time
    assert machine.alive == []
    nothing, _ = run_search(
        configuration(time_limit_s=1e-6, strategy=strategy), sleeping()
    )
    assert nothing.error == (
        "nothing was measured: the time limit of 1e-06 s was spent; set a larger one"
    )
    assert (nothing.verdict, nothing.complete) == (None, False)  # it is repeated
    assert all(trial.state is TrialState.OK for trial in result.trials)


def test_a_candidate_that_hangs_until_the_time_limit_has_a_row() -> None:
    machine = sleeping()

    def hang(window: Window) -> Window:
        if machine.requests[-1][0]:
            machine.clock.advance(59.0)
            raise TimeLimitReached
        return window

    machine.distort = hang
    result, _ = run_search(configuration(), machine)
    assert [trial.state for trial in result.trials] == [
        TrialState.OK,
        TrialState.INTERRUPTED,
    ]
    assert (
        result.trials[1].reason
        == "no batch within 60.0 s, until the search's time limit"
    )
    assert result.verdict is not None
    assert result.status is Status.UNDECIDED


@pytest.mark.parametrize(
    ("strategy", "limit_s"), [("adaptive", 1.0), ("exhaustive", 3.0)]
)
def test_a_search_that_its_limit_ended_goes_on_and_repeats_nothing_that_has_figures(
    strategy: str, limit_s: float
) -> None:
    chosen = configuration(
        candidates=(0, 2, 4, 8), time_limit_s=limit_s, strategy=strategy
    )
    first, _ = run_search(chosen, sleeping())
    assert first.status in (Status.UNDECIDED, Status.PROVISIONAL)
    measured, machine = set(first.measured_numbers), sleeping()
    start = continued(
        SearchRecord(configuration=first.configuration, host=first.host), first
    )
    unlimited = replace(chosen, search=replace(chosen.search, time_limit_s=600.0))
    again = search(
        replace(start, configuration=unlimited), machine.environment(), Recorder()
    )
    assert not {settings.num_workers for settings in machine.opened} & measured
    assert again.status is Status.MEASURED
    assert measured < set(again.measured_numbers)
    assert again.cost_s > first.cost_s


def test_patience_ends_a_search_of_failures() -> None:
    machine = sleeping()
    machine.failures = {n: TrialError("boom") for n in range(33)}
    result, _ = run_search(configuration(), machine)
    assert (result.verdict, result.stop_reason) == (
        None,
        "4 candidates could not be measured",
    )


def test_if_a_paused_candidate_holds_a_lock_candidates_are_paused_only_when_idle() -> (
    None
):
    """The second to be measured does not come forward: the one before was stopped with
    the lock in its hands."""
    machine = sleeping()
    stalls: list[int] = []

    def stall_once(window: Window) -> Window:
        workers = machine.requests[-1][0]
        if workers and not stalls:
            stalls.append(workers)
            (process,) = machine.running
            process.stall()
            assert len(machine.running) == len(machine.alive), "all are resumed"
        return window

    machine.distort = stall_once
    result, _ = run_search(configuration(), machine)
    assert (
        by_workers(result)[stalls[0]]
        .notes[0]
        .startswith("it made no progress while the others were paused")
    )
    assert (
        machine.idle_waits >= sum(len(trial.windows) > 0 for trial in result.trials) - 1
    )
    assert all(trial.state is TrialState.OK for trial in result.trials)


def logged(content: str) -> tuple[SampleMade, ...]:
    part = SamplePart(form=b"", content=content.encode())
    return tuple(SampleMade(worker=0, key=key, parts=(part,)) for key in range(8))


def test_a_candidate_with_wrong_samples_is_never_recommended_unless_the_check_is_off() -> (
    None
):
    machine = sleeping()
    right, wrong = logged("right"), logged("wrong")
    machine.without_workers = right
    machine.one_at_a_time = lambda samples: right[: len(samples)]
    machine.logged = {
        n: SamplesLogged(samples=right if n == 1 else wrong) for n in range(1, 33)
    }
    result, _ = run_search(configuration(), machine)
    states = {trial.num_workers: trial.state for trial in result.trials}
    assert recommended(result).num_workers in (0, 1)
    assert (states.pop(0), states.pop(1, TrialState.OK)) == (
        TrialState.OK,
        TrialState.OK,
    )
    assert set(states.values()) == {TrialState.WRONG_SAMPLES}
    trial = max(result.trials, key=lambda trial: trial.num_workers)
    assert (trial.measurement, trial.objective_s) == (None, None)
    assert trial.reason.startswith("8 of 8 compared samples differ")
    unchecked, _ = run_search(replace(configuration(), check_samples=False), machine)
    assert {trial.state for trial in unchecked.trials} == {TrialState.OK}


def test_samples_loaded_for_a_comparison_are_no_cpu_time_of_batches() -> None:
    machine = machine_of(lambda workers: 0.32, 2000, start_s=0.01)
    machine.cpu_s = 0.02
    machine.without_workers = right = logged("right")
    machine.logged = {n: SamplesLogged(samples=right) for n in range(1, 33)}
    result, _ = run_search(
        configuration({"precision": 1e-9}, strategy="exhaustive", candidates=(0, 1)),
        machine,
    )
    found = by_workers(result)[0].measurement
    assert found is not None
    assert found.cpu_s == pytest.approx(0.02)


def test_candidates_that_failed_or_did_not_fit_are_not_called_slower() -> None:
    machine = sleeping()
    machine.failures = {n: TrialError("boom") for n in (8, 32)}
    result, _ = run_search(configuration(), machine)
    failed = sorted(
        trial.num_workers for trial in result.trials if trial.state is TrialState.FAILED
    )
    assert failed
    assert (
        f"num_workers={', '.join(map(str, failed))} could not be measured"
        in result.stop_reason
    )
    slower = result.stop_reason.partition("more workers (")[2].partition(")")[0]
    assert not set(map(str, failed)) & set(slower.split(", "))


# Seconds per batch: no gain from workers, and a gain up to four workers.
# seconds in which a worker makes a batch, which takes 1 s without workers
USELESS, USEFUL = 8.0, 0.1


def scaling(per_worker_s: float) -> FakeMachine:
    made = machine_of(
        lambda workers: per_worker_s * max(1, workers / 4) if workers else 1.0,
        batches=100,
        start_s=0.1,
    )
    made.facts = replace(made.facts, samples=100 * 64)
    return made


def interrupt(
    configuration: Configuration, per_worker_s: float, slices: int
) -> tuple[SearchRecord | None, SearchRecord]:
    """The records at the interruption (None if the search ended before) and at the
    end."""
    interrupted, recorder, left = scaling(per_worker_s), Recorder(), iter(range(slices))

    def check() -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    start = SearchRecord(configuration=configuration, host=factories.HOST)
    try:
        return None, search(
            start, replace(interrupted.environment(), check_interrupts=check), recorder
        )
    except KeyboardInterrupt:
        there = recorder.results[-1]
    assert not interrupted.alive
    whole = scaling(per_worker_s)
    result = search(there, whole.environment(), Recorder())
    assert result.cost_s == pytest.approx(there.cost_s + whole.clock.now)
    return there, result


def finished(result: SearchRecord) -> dict[int, Trial]:
    return {trial.num_workers: trial for trial in result.trials if trial.finished}


def best(result: SearchRecord) -> tuple[int, float]:
    """The recommended candidate, and seconds of an epoch with it."""
    workers = recommended(result).num_workers
    return workers, finished(result)[workers].objective_s or math.nan


@pytest.mark.parametrize(
    "strategy",
    [
        *(
            pytest.param(name, marks=pytest.mark.extended)
            for name in ("exhaustive", "patience")
        ),
        "adaptive",
    ],
)
@pytest.mark.parametrize("per_worker_s", [USELESS, USEFUL])
def test_a_search_finds_the_same_after_any_interruption(
    strategy: str, per_worker_s: float
) -> None:
    rules = factories.search_rules(
        strategy=strategy, candidates=tuple(range(7)), patience=2, reference=None
    )
    configuration = factories.configuration(search=rules)
    _, whole = interrupt(configuration, per_worker_s, 10**6)
    expected, least_s = best(whole)
    assert (least_s < 50) == (per_worker_s == USEFUL)
    step = 11 if strategy != "adaptive" else 4 if rounds(1) == 1 else 1
    for slices in range(0, 1000, step):
        there, result = interrupt(configuration, per_worker_s, slices)
        if there is None:
            break
        kept, found = finished(there), finished(result)
        for workers, trial in kept.items():
            assert found[workers].windows == trial.windows, "measured again"
            assert found[workers].objective_s == pytest.approx(trial.objective_s)
        assert result.complete
        workers, epoch_s = best(result)
        assert epoch_s <= least_s * 1.03, slices
        # which depends on the precision of the first windows
        if strategy != "adaptive":
            assert (workers, result.stop_reason) == (expected, whole.stop_reason)
            assert set(found) == set(finished(whole))
    assert slices > 3
