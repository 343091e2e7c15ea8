from __future__ import annotations

from dataclasses import replace

import pytest

from nws_sweep.errors import TrialError, TrialOutOfMemory, TrialTimeout
from nws_sweep.records import (
    Configuration,
    Host,
    LoaderSettings,
    MeasureRules,
    SearchResult,
    SearchRules,
    TrialState,
)
from nws_sweep.runner import run_trial, search
from tests.fakes import FailingArm, FakeArm, FakeClock, SimulatedLoader, arm_factory

HOST = Host(
    hostname="here", platform="p", cpu_model="c", cpu_count=4, usable_cpus=4, memory_bytes=1, python="3", torch="2",
    torchvision="0", nws_sweep="0",
)  # fmt: skip


class Recorder:
    """Writes down what an observer is told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def trial_started(self, num_workers: int) -> None:
        self.events.append(f"start {num_workers}")

    def trial_finished(self, result: SearchResult) -> None:
        self.events.append(f"done {result.trials[-1].num_workers}")

    def search_finished(self, result: SearchResult) -> None:
        self.events.append("finished")


def configuration(
    strategy: str = "exhaustive", candidates: tuple[int, ...] = (0, 1, 2, 4), reference: int | None = None
) -> Configuration:
    return Configuration(
        columns={"dataset": "fake"},
        dataset={"_target_": "fake"},
        consumer={"_target_": "none"},
        loader=LoaderSettings(batch_size=8, prefetch_factor=2, persistent_workers=True),
        measure=MeasureRules(bursts=3, seconds=30.0, max_seconds=100.0),
        search=SearchRules(strategy=strategy, candidates=candidates, maximum_patience=0, reference=reference),
    )


def simulated(batches: int | None = 1000) -> tuple[FakeClock, FakeArm]:
    """A dataset that sleeps: n workers are n times as fast up to 4, above that start-up eats the gain."""
    clock = FakeClock()

    def make_loader(settings: LoaderSettings) -> SimulatedLoader:
        workers = settings.num_workers
        return SimulatedLoader(
            clock, 1000 if batches is None else batches, 1.0 * max(1, workers / 4), workers, start_s=1.0 * workers
        )

    return clock, FakeArm(clock, make_loader, batches)


def run_search(chosen: Configuration, arm: FakeArm, clock: FakeClock) -> tuple[SearchResult, Recorder]:
    recorder = Recorder()
    start = SearchResult(configuration=chosen, host=HOST)
    return search(start, arm_factory(arm), recorder, clock), recorder


def test_every_candidate_is_measured_and_told_in_order() -> None:
    clock, arm = simulated()
    result, recorder = run_search(configuration(), arm, clock)
    assert [trial.num_workers for trial in result.trials] == [0, 1, 2, 4]
    expected = [event for n in (0, 1, 2, 4) for event in (f"start {n}", f"done {n}")]
    assert recorder.events == [*expected, "finished"]
    assert result.complete
    assert result.facts == FakeArm.facts


def test_times_are_the_simulated_truth() -> None:
    clock, arm = simulated()
    result, _ = run_search(configuration(), arm, clock)
    epochs = {trial.num_workers: trial.objective_s for trial in result.trials}
    # start-up (workers seconds, and a batch) and 999 batches of 1 / n seconds
    assert epochs == pytest.approx({0: 1000.0, 1: 2.0 + 999, 2: 3.0 + 999 / 2, 4: 5.0 + 999 / 4})


def test_patience_stops_the_search_and_says_why() -> None:
    clock, arm = simulated()
    result, _ = run_search(configuration("patience", (0, 1, 2, 3)), arm, clock)
    assert [trial.num_workers for trial in result.trials] == [0, 1]  # one worker is slower than none, patience 0
    assert "num_workers=0" in result.stop_reason


def test_the_reference_is_measured_even_if_the_strategy_stopped_before() -> None:
    clock, arm = simulated()
    result, _ = run_search(configuration("patience", (0, 1, 2, 3, 4), reference=4), arm, clock)
    assert [trial.num_workers for trial in result.trials] == [0, 1, 4]


def test_a_reference_already_measured_is_not_measured_again() -> None:
    clock, arm = simulated()
    result, _ = run_search(configuration(reference=2), arm, clock)
    assert [trial.num_workers for trial in result.trials] == [0, 1, 2, 4]


def test_trials_that_the_start_has_are_not_measured_again() -> None:
    clock, arm = simulated()
    whole, _ = run_search(configuration(), arm, clock)
    begun = replace(whole, trials=whole.trials[:2], stop_reason="")
    clock, arm = simulated()
    rest = search(begun, arm_factory(arm), Recorder(), clock)
    assert [settings.num_workers for settings in arm.opened] == [2, 4]
    assert [trial.objective_s for trial in rest.trials] == [trial.objective_s for trial in whole.trials]


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (TrialError("boom"), TrialState.FAILED),
        (TrialTimeout("late"), TrialState.TIMEOUT),
        (TrialOutOfMemory("full"), TrialState.OUT_OF_MEMORY),
    ],
)
def test_a_failing_candidate_becomes_a_row_and_the_search_goes_on(error: TrialError, state: TrialState) -> None:
    clock, arm = simulated()
    result, _ = run_search(configuration(), FailingArm(arm, {1: error}), clock)
    states = {trial.num_workers: (trial.state, trial.reason) for trial in result.trials}
    assert states[1] == (state, str(error))
    assert [states[n][0] for n in (0, 2, 4)] == [TrialState.OK] * 3


def test_what_was_measured_before_a_failure_is_kept() -> None:
    clock, arm = simulated()

    class DiesLater(FakeArm):
        def burst(self, request):  # type: ignore[no-untyped-def]
            if len(self.requests) == 2:
                raise TrialError("killed")
            return super().burst(request)

    dying = DiesLater(clock, arm._make_loader, 1000)
    trial, _ = run_trial(configuration(), 2, arm_factory(dying), clock)
    assert trial.state is TrialState.FAILED
    assert len(trial.bursts) == 2
    assert trial.measurement is None


def test_without_workers_the_settings_are_canonical_and_the_row_says_so() -> None:
    clock, arm = simulated()
    trial, _ = run_trial(configuration(), 0, arm_factory(arm), clock)
    assert (trial.settings.prefetch_factor, trial.settings.persistent_workers) == (None, False)
    assert trial.notes == ("num_workers=0 has no prefetch_factor, persistent_workers",)
    assert arm.opened == [trial.settings]
    with_workers, _ = run_trial(configuration(), 1, arm_factory(arm), clock)
    assert with_workers.notes == ()
    assert with_workers.settings.prefetch_factor == 2


@pytest.mark.parametrize("length_known", [True, False])
def test_a_loader_without_batches_is_a_failure_not_a_loop(length_known: bool) -> None:
    clock = FakeClock()
    arm = FakeArm(clock, lambda settings: SimulatedLoader(clock, 0, 1.0), 0 if length_known else None)
    trial, _ = run_trial(configuration(), 1, arm_factory(arm), clock)
    assert trial.state is TrialState.FAILED
    assert "gave no batch of 8" in trial.reason


def test_the_cost_of_trial_and_search_is_their_time() -> None:
    clock, arm = simulated()
    result, _ = run_search(configuration(), arm, clock)
    assert result.cost_s == pytest.approx(clock.now)
    assert sum(trial.cost_s for trial in result.trials) == pytest.approx(clock.now)


def test_a_reference_that_beats_the_strategys_answer_is_said_in_the_stop_reason() -> None:
    clock, arm = simulated()
    result, _ = run_search(configuration("patience", (0, 1, 2, 3, 4), reference=4), arm, clock)
    assert result.stop_reason == (
        "1 candidate after num_workers=0 did not improve on it (patience 0); then the reference num_workers=4 was "
        "faster, and 2 other candidates were not tried: more patience may find a better one"
    )
