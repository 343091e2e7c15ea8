"""The search on simulated machines whose truth is known: exact and instant."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nws_sweep.errors import ConfigurationError, TrialError, TrialOutOfMemory, TrialTimeout
from nws_sweep.records import (
    Burst,
    BurstKind,
    Configuration,
    LoaderSettings,
    MeasureRules,
    SearchRecord,
    SearchRules,
    Trial,
    TrialState,
)
from nws_sweep.runner import search
from tests import factories
from tests.fakes import FACTS, FakeArm, FakeClock, FakeMachine, SimulatedLoader
from tests.searching import Recorder, by_workers, machine_of, run_search


def configuration(
    strategy: str = "exhaustive",
    candidates: tuple[int, ...] = (0, 1, 2, 4),
    reference: int | None = None,
    maximum_patience: int = 0,
    seed: int = 0,
    **measure: object,
) -> Configuration:
    rules = {"bursts": 3, "window_s": 10.0, "max_seconds": 1000.0, **measure}
    return factories.configuration(
        loader=LoaderSettings(batch_size=8, prefetch_factor=2, persistent_workers=True),
        measure=MeasureRules(**rules),  # type: ignore[arg-type]
        search=SearchRules(
            strategy=strategy, candidates=candidates, maximum_patience=maximum_patience, reference=reference
        ),
        seed=seed,
    )


def only_trial(chosen: Configuration, machine: FakeMachine) -> Trial:
    result, _ = run_search(chosen, machine)
    (trial,) = result.trials
    return trial


def test_every_candidate_is_measured_and_told() -> None:
    machine = machine_of()
    result, recorder = run_search(configuration(), machine)
    assert sorted(by_workers(result)) == [0, 1, 2, 4]
    assert sorted(recorder.done) == [0, 1, 2, 4]
    assert recorder.events[-1] == "finished"
    assert result.complete
    assert result.facts == FACTS


def test_times_are_the_simulated_truth_though_candidates_are_paused_for_others() -> None:
    result, _ = run_search(configuration(), machine_of())
    epochs = {trial.num_workers: trial.objective_s for trial in result.trials}
    # start-up (workers seconds, and a batch), then what is left after the first clump
    expected = {0: 1000.0, 1: 2.0 + 999, 2: 3.0 + 998 / 2, 4: 5.0 + 996 / 4}
    assert epochs == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("strategy", ["exhaustive", "adaptive", "patience"])
def test_what_the_loader_does_without_the_consumer_is_told_too(strategy: str) -> None:
    """The consumer of 0.4 s hides that 4 workers make a batch in 0.25 s, and without workers adds to the loading."""
    machine = machine_of(consume_s=0.4, start_s=0.0)
    result, _ = run_search(configuration(strategy, maximum_patience=3), machine)
    trials = by_workers(result)
    for number, loading_s in ((0, 1.0), (4, 0.25)):
        found = trials[number].measurement
        assert found is not None
        assert found.loading_s == pytest.approx(loading_s, rel=0.03)
    assert trials[4].objective_s == pytest.approx(1000 * 0.4, rel=0.01)


def test_what_fails_without_the_consumer_costs_the_trial_nothing_else() -> None:
    machine = machine_of(consume_s=0.4)

    def fail(burst: Burst) -> Burst:
        if burst.kind is BurstKind.LOADING:
            raise TrialError("it was killed")
        return burst

    machine.distort = fail
    trial = only_trial(configuration(candidates=(2,)), machine)
    assert (trial.state, trial.reason) == (TrialState.OK, "")
    assert trial.measurement is not None
    assert trial.measurement.loading_s is None


def test_without_a_consumer_there_is_no_such_window() -> None:
    machine = machine_of()
    run_search(configuration(), machine)
    assert all(request.kind is not BurstKind.LOADING for _, request in machine.requests)


def test_after_whole_epochs_workers_are_started_once_more_to_see_their_memory_and_nothing_else() -> None:
    machine = machine_of(consume_s=0.4, batches=50)
    result, _ = run_search(configuration(mode="epoch"), machine)
    looks = [
        (workers, request.min_batches) for workers, request in machine.requests if request.kind is BurstKind.LOADING
    ]
    assert sorted(looks) == [(1, 1), (2, 1), (4, 1)]
    for trial in result.trials:
        assert trial.measurement is not None
        assert [burst.kind for burst in trial.bursts if burst.counts] == [BurstKind.EPOCH]
        assert (trial.measurement.loading_s is None) == (trial.num_workers > 0)
        assert trial.measurement.memory_growth_bytes is None


def test_candidates_take_turns_in_an_order_drawn_anew_each_round_and_given_by_the_seed() -> None:
    def turns(seed: int) -> list[int]:
        machine = machine_of()
        run_search(configuration(candidates=(0, 1, 2, 3, 4), seed=seed), machine)
        return machine.turns

    assert turns(1) == turns(1)
    assert turns(1) != turns(2)
    rounds = [turns(1)[start : start + 5] for start in range(0, 20, 5)]
    assert all(sorted(each) == [0, 1, 2, 3, 4] for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1


def test_with_interleave_of_one_candidates_are_measured_one_after_the_other() -> None:
    machine = machine_of()
    run_search(configuration(interleave=1), machine)
    assert machine.turns == sorted(machine.turns)
    assert machine.most_alive == 1


def test_no_more_candidates_than_asked_for_are_alive_at_once() -> None:
    machine = machine_of()
    result, _ = run_search(configuration(candidates=tuple(range(10)), interleave=3), machine)
    assert sorted(by_workers(result)) == list(range(10))
    assert machine.most_alive == 3


def drifting(machine: FakeMachine, slower_per_s: float) -> FakeMachine:
    """Everything takes longer as time goes by: the machine heats up."""

    def distort(burst: Burst) -> Burst:
        factor = 1 + slower_per_s * machine.clock.now
        waits = tuple(wait * factor for wait in burst.wait_s)
        machine.clock.advance(sum(waits) - sum(burst.wait_s))
        return replace(burst, wait_s=waits, produced=burst.produced)

    machine.distort = distort
    return machine


def test_drift_of_the_machine_does_not_look_like_an_effect_of_the_workers() -> None:
    """Six equally fast candidates on a machine that becomes slower: paired they stay together, one by one not."""

    def spread(interleave: int) -> float:
        machine = drifting(machine_of(lambda workers: float(max(1, workers))), 0.002)
        chosen = configuration(candidates=(1, 2, 3, 4, 5, 6), interleave=interleave, precision=0.9, bursts=6)
        paces = [trial.measurement.batch_s.value for trial in run_search(chosen, machine)[0].trials]  # type: ignore[union-attr]
        return max(paces) / min(paces) - 1

    assert spread(interleave=8) < 0.15
    assert spread(interleave=1) > 3 * spread(interleave=8)


def test_noisy_candidates_are_measured_longer_than_quiet_ones_up_to_the_limit() -> None:
    rng = random.Random(7)
    machine = machine_of()
    quiet_windows: dict[int, int] = {}

    def distort(burst: Burst) -> Burst:
        if machine.requests[-1][0] != 2:
            return burst
        return replace(burst, produced=max(8, round((burst.produced or 0) * rng.uniform(0.5, 1.5)) // 8 * 8))

    machine.distort = distort
    result, _ = run_search(configuration(max_seconds=300.0), machine)
    for trial in result.trials:
        quiet_windows[trial.num_workers] = sum(burst.kind is BurstKind.STEADY for burst in trial.bursts)
    assert quiet_windows[2] > 2 * quiet_windows[1]
    assert quiet_windows[0] == quiet_windows[1] == 4
    assert by_workers(result)[2].notes == (
        "stopped at measure.max_seconds=300 before the interval was within measure.precision=0.05",
    )


def test_patience_stops_the_search_and_says_why() -> None:
    result, _ = run_search(configuration("patience", (0, 1, 2, 3)), machine_of())
    assert sorted(by_workers(result)) == [0, 1]  # one worker is slower than none, patience 0
    assert "num_workers=0" in result.stop_reason


def test_the_best_so_far_is_measured_on_beside_those_that_come_later() -> None:
    machine = machine_of()
    run_search(configuration("patience", tuple(range(8)), maximum_patience=1), machine)
    later = machine.turns[machine.turns.index(3) - 1 :]
    assert 2 in later  # 0, 1; then 2, 3 beside 0; ...
    assert machine.turns.count(4) > 4


def test_the_reference_is_measured_even_if_the_strategy_stops_before_it() -> None:
    result, _ = run_search(configuration("patience", (0, 1, 2, 3, 4), reference=4), machine_of())
    assert sorted(by_workers(result)) == [0, 1, 4]


def test_a_reference_among_the_candidates_is_measured_once() -> None:
    machine = machine_of()
    run_search(configuration(reference=2), machine)
    assert sorted(settings.num_workers for settings in machine.opened) == [0, 1, 2, 4]


def test_a_reference_that_beats_the_strategys_answer_is_said_in_the_stop_reason() -> None:
    result, _ = run_search(configuration("patience", (0, 1, 2, 3, 4), reference=4), machine_of())
    assert result.stop_reason == (
        "1 candidate after num_workers=0 did not improve on it (patience 0); but the reference num_workers=4 was "
        "faster, and 2 other candidates were not tried: more patience may find a better one"
    )


def test_finished_trials_that_the_start_has_are_not_measured_again() -> None:
    whole, _ = run_search(configuration(), machine_of())
    kept = tuple(trial if trial.num_workers < 2 else replace(trial, finished=False) for trial in whole.trials)
    machine = machine_of()
    rest = search(replace(whole, trials=kept, stop_reason=""), machine.surroundings(), Recorder())
    assert [settings.num_workers for settings in machine.opened] == [2, 4]
    assert by_workers(rest)[4].objective_s == pytest.approx(by_workers(whole)[4].objective_s, rel=0.01)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (TrialError("boom"), TrialState.FAILED),
        (TrialTimeout("late"), TrialState.TIMEOUT),
        (TrialOutOfMemory("full"), TrialState.OUT_OF_MEMORY),
    ],
)
def test_a_failing_candidate_becomes_a_row_and_the_search_goes_on(error: TrialError, state: TrialState) -> None:
    machine = machine_of()
    machine.failures = {1: error}
    result, recorder = run_search(configuration(), machine)
    states = {trial.num_workers: (trial.state, trial.reason) for trial in result.trials}
    assert states[1] == (state, str(error))
    assert [states[n][0] for n in (0, 2, 4)] == [TrialState.OK] * 3
    assert recorder.done.count(1) == 1


def test_what_was_measured_before_a_failure_is_kept() -> None:
    machine = machine_of()

    def distort(burst: Burst) -> Burst:
        if len(machine.requests) == 3:
            raise TrialError("killed")
        return burst

    machine.distort = distort
    trial = only_trial(configuration(candidates=(2,)), machine)
    assert (trial.state, trial.reason) == (TrialState.FAILED, "killed")
    assert len(trial.bursts) == 2
    assert trial.measurement is None


def test_between_rounds_the_unfinished_trials_are_there_and_marked() -> None:
    _, recorder = run_search(configuration(), machine_of())
    first = recorder.results[0]
    assert sorted(by_workers(first)) == [0, 1, 2, 4]
    assert not any(trial.finished for trial in first.trials)
    assert all(trial.bursts and trial.objective_s for trial in first.trials)
    assert not first.complete


def test_without_workers_the_settings_are_canonical_and_the_row_says_so() -> None:
    machine = machine_of()
    trial = only_trial(configuration(candidates=(0,)), machine)
    assert (trial.settings.prefetch_factor, trial.settings.persistent_workers) == (None, False)
    assert trial.notes == ("num_workers=0 has no prefetch_factor, persistent_workers",)
    assert machine.opened == [trial.settings]
    with_workers = only_trial(configuration(candidates=(1,)), machine_of())
    assert with_workers.notes == ()
    assert with_workers.settings.prefetch_factor == 2


@pytest.mark.parametrize("length", [0, None])
def test_a_loader_without_batches_is_a_failure_not_a_loop(length: int | None) -> None:
    clock = FakeClock()
    machine = FakeMachine(lambda settings: SimulatedLoader(clock, 0, 1.0), length, clock)
    trial = only_trial(configuration(candidates=(1,)), machine)
    assert trial.state is TrialState.FAILED
    assert "gave no batch of 8" in trial.reason


def test_the_cost_of_trial_and_search_is_their_time() -> None:
    machine = machine_of()
    result, _ = run_search(configuration(), machine)
    assert result.cost_s == pytest.approx(machine.clock.now)
    assert sum(trial.cost_s for trial in result.trials) == pytest.approx(machine.clock.now)


def test_a_trial_that_beats_its_cpu_time_is_measured_again_and_then_never_recommended() -> None:
    machine = machine_of()
    machine.cpu_s = 4.0  # two CPUs: no batch can take less than 2 s
    trial = only_trial(configuration(candidates=(4,)), machine)
    assert trial.state is TrialState.MISMEASURED
    assert trial.reason.startswith("250 ms a batch cannot be: it takes 4.00 s of CPU time, at least 2.00 s on 2 usable")
    assert trial.reason.endswith("; measured twice")
    assert len(machine.opened) == 2
    assert trial.objective_s is None
    assert trial.measurement is not None


def test_a_trial_that_is_right_the_second_time_is_kept_and_its_first_windows_are_not_counted() -> None:
    machine = machine_of()

    def distort(burst: Burst) -> Burst:
        machine.cpu_s = 4.0 if len(machine.opened) == 1 else 0.1
        return burst

    machine.distort = distort
    trial = only_trial(configuration(candidates=(4,)), machine)
    assert trial.state is TrialState.OK
    assert trial.notes[0].startswith("measured again, since 250 ms a batch cannot be")
    kinds = [burst.kind for burst in trial.bursts]
    assert kinds.count(BurstKind.STEADY) == 4
    assert len(kinds) > 2 * 4


def test_what_disturbed_a_trial_is_recorded() -> None:
    machine = machine_of()
    machine.cpu_s, machine.other_cpu_s = 0.1, 0.125
    trial = only_trial(configuration(candidates=(4,)), machine)
    assert trial.noise is not None
    assert trial.noise.other_cpus == pytest.approx(0.5, rel=0.2)  # 0.125 s in each batch of 0.25 s


def batch_of(machine: FakeMachine, size_bytes: int) -> FakeMachine:
    def distort(burst: Burst) -> Burst:
        return replace(burst, batch_bytes=size_bytes, batch_tensors=2) if burst.startup_s is not None else burst

    machine.distort = distort
    return machine


def test_a_candidate_whose_batches_cannot_fit_into_shared_memory_is_skipped_with_the_figures() -> None:
    machine = batch_of(machine_of(), 1000)
    machine.shm_bytes = 6000
    result, recorder = run_search(configuration(), machine)
    trials = by_workers(result)
    assert trials[4].state is TrialState.SKIPPED
    assert trials[4].reason == (
        "it needs 9.00 kB of shared memory (9 batches of 1.00 kB on their way), and 6.00 kB are free in /dev/shm"
    )
    assert [trials[n].state for n in (0, 1, 2)] == [TrialState.OK] * 3
    assert 4 not in {settings.num_workers for settings in machine.opened}
    assert recorder.done.count(4) == 1


def test_candidates_that_do_not_fit_beside_each_other_are_measured_one_after_the_other() -> None:
    machine = machine_of()
    machine.budget_bytes = 250  # an arm holds 100 to 140
    result, _ = run_search(configuration(), machine)
    assert all(trial.state is TrialState.OK for trial in result.trials)
    assert len(result.trials) == 4
    assert machine.most_alive == 2


def test_a_candidate_that_does_not_fit_even_alone_is_skipped() -> None:
    machine = machine_of()
    machine.budget_bytes = 130
    trials = by_workers(run_search(configuration(), machine)[0])
    assert trials[4].state is TrialState.SKIPPED
    assert trials[4].reason == (
        "it needs 140 B of memory (100 B for the dataset, 4 workers of 10 B, 9 batches of 0 B), and 130 B are left"
    )
    assert trials[2].state is TrialState.OK


def cold(machine: FakeMachine, cached_batches: int = 0) -> FakeMachine:
    """Data that come from disk the first time: the first ``cached_batches`` are in the page cache."""
    state = {"read": cached_batches}

    def read(batches: int) -> int:
        state["read"] -= batches
        return 0 if state["read"] >= 0 else 100_000 * batches

    machine.read = read
    return machine


def test_what_read_from_disk_does_not_count_where_the_cache_should_be_warm_not_even_its_beginning() -> None:
    """Batches that were not read before take 100 times as long; the projected epoch must not know it."""
    clock = FakeClock()
    machine = FakeMachine(lambda settings: loader(settings.num_workers), 400, clock)
    seen: set[int] = set()
    cold_batches = [0]

    def make_s(batch: int) -> float:
        cold = batch not in seen
        seen.add(batch)
        cold_batches[0] += cold
        return 1.0 if cold else 0.01

    def loader(workers: int) -> SimulatedLoader:
        return SimulatedLoader(clock, 400, make_s, workers, batch_size=8)

    def read(batches: int) -> int:
        count, cold_batches[0] = cold_batches[0], 0
        return 2_000_000 * count

    machine.read = read
    result, _ = run_search(configuration(candidates=(0, 4), window_s=0.2), machine)
    found = by_workers(result)
    assert found[0].objective_s == pytest.approx(4.0, rel=0.02)
    assert found[4].objective_s == pytest.approx(1.0, rel=0.05)
    assert sorted(settings.num_workers for settings in machine.opened)[:2] == [0, 0]
    assert 2 in {settings.num_workers for settings in machine.opened}  # the arm that reads ahead
    assert all(sum(b.kind is BurstKind.STEADY for b in trial.bursts) >= 4 for trial in result.trials)


def test_data_that_no_cache_holds_are_measured_as_they_are() -> None:
    machine = cold(machine_of())
    result, _ = run_search(configuration(candidates=(0, 2)), machine)
    for trial in result.trials:
        assert trial.state is TrialState.OK
        assert trial.measurement is not None
        assert trial.measurement.disk_bytes == pytest.approx(100_000, rel=0.05)


def test_as_is_neither_discards_nor_reads_ahead() -> None:
    machine = cold(machine_of())
    result, _ = run_search(configuration(candidates=(0, 2), cache="as_is"), machine)
    assert len(machine.opened) == 2
    assert all(sum(b.kind is BurstKind.STEADY for b in trial.bursts) == 4 for trial in result.trials)


def test_cold_drops_the_datasets_files_before_each_turn(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a").write_text("a")
    machine = cold(machine_of())
    machine.files = (str(folder),)
    run_search(configuration(candidates=(0, 2), cache="cold"), machine)
    assert set(machine.dropped) == {(str(folder / "a"),)}
    assert len(machine.dropped) == len(machine.turns) - 1  # the first one tells the files, and does not count


def test_cold_without_files_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match=r"measure\.cache=cold: .*measure\.cache_files=\[\.\.\.\]"):
        run_search(configuration(cache="cold"), machine_of())


def test_whole_epochs_are_interleaved_too() -> None:
    machine = machine_of(batches=20)
    result, _ = run_search(configuration(mode="epoch", epochs=3), machine)
    assert len(machine.turns) == 12
    assert machine.turns != sorted(machine.turns)
    epochs = {trial.num_workers: trial.objective_s for trial in result.trials}
    assert epochs == pytest.approx({0: 20.0, 1: 21.0, 2: 12.0, 4: 9.0})


def test_a_companion_that_fails_loses_that_turn_and_not_its_trial() -> None:
    machine = machine_of()

    def distort(burst: Burst) -> Burst:
        if machine.requests[-1][0] == 0 and len(machine.turns) > 9:
            raise TrialError("killed")
        return burst

    machine.distort = distort
    result, recorder = run_search(configuration("patience", tuple(range(8)), maximum_patience=1), machine)
    best = by_workers(result)[0]
    assert (best.state, best.reason) == (TrialState.OK, "")
    assert best.objective_s == pytest.approx(1000.0)
    assert recorder.done.count(0) == 1
    assert result.complete


def test_a_companion_is_not_concluded_twice() -> None:
    machine = machine_of()
    chosen = configuration("patience", tuple(range(8)), maximum_patience=1, max_seconds=25.0)
    result, _ = run_search(chosen, machine)
    for trial in result.trials:
        assert sum(note.startswith("stopped at") for note in trial.notes) <= 1


class ReadOnce(SimulatedLoader):
    """A stream that goes on where it was: ``__iter__`` gives the same iterator again."""

    def __iter__(self) -> Iterator[int]:
        if not self.epochs_begun:
            self.stream = super().__iter__()
        return self.stream


def test_a_stream_that_can_be_read_only_once_ends_with_what_was_measured() -> None:
    clock = FakeClock()
    machine = FakeMachine(lambda settings: ReadOnce(clock, 60, 1.0), None, clock)
    trial = only_trial(configuration(candidates=(0,), bursts=20), machine)
    assert trial.state is TrialState.OK
    assert trial.measurement is not None
    assert trial.measurement.batch_s is not None
    assert trial.measurement.batch_s.value == pytest.approx(1.0)
    assert trial.notes[-1].startswith("stopped at the end of the data, which can be read only once,")


def test_a_length_that_is_wrong_is_forgotten_for_all_candidates() -> None:
    """One that was seen to the end and one that was not must be ranked by the same quantity."""
    clock = FakeClock()

    def make_loader(settings: LoaderSettings) -> SimulatedLoader:
        return SimulatedLoader(clock, 100, 1.0, settings.num_workers, batch_size=8)

    machine = FakeMachine(make_loader, 1000, clock)
    result, _ = run_search(configuration(candidates=(0, 4)), machine)
    assert [trial.measurement.epoch_s for trial in result.trials] == [None, None]  # type: ignore[union-attr]
    slow, fast = (by_workers(result)[n].objective_s for n in (0, 4))
    assert (slow, fast) == pytest.approx((1.0, 0.25), rel=0.02)
    assert any("an epoch ended after 100 batches, though its length says 1000" in n for n in result.trials[0].notes)


def test_where_whole_epochs_are_measured_the_smallest_candidate_shows_what_a_batch_weighs() -> None:
    machine = batch_of(machine_of(batches=20), 1000)
    machine.shm_bytes = 6000
    trials = by_workers(run_search(configuration(mode="epoch"), machine)[0])
    assert trials[4].state is TrialState.SKIPPED
    assert "9.00 kB of shared memory" in trials[4].reason
    assert [trials[n].state for n in (0, 1, 2)] == [TrialState.OK] * 3


def test_an_interruption_ends_all_arms_and_tells_what_there_is() -> None:
    machine = machine_of()

    def distort(burst: Burst) -> Burst:
        if len(machine.turns) > 6:
            raise KeyboardInterrupt
        return burst

    machine.distort = distort
    recorder = Recorder()
    start = SearchRecord(configuration=configuration(), host=factories.HOST)
    with pytest.raises(KeyboardInterrupt):
        search(start, machine.surroundings(), recorder)
    assert not machine.alive
    assert recorder.events[-1] == "interrupted"
    assert sorted(by_workers(recorder.results[-1])) == [0, 1, 2, 4]


def test_a_second_interruption_while_arms_are_ended_leaves_none() -> None:
    machine = machine_of()
    ended = []

    @contextlib.contextmanager
    def open_arm(configuration: Configuration, memory_bytes: int | None) -> Iterator[FakeArm]:
        with machine.open_arm(configuration, memory_bytes) as arm:
            try:
                yield arm
            finally:
                ended.append(arm)
                if len(ended) == 1:
                    raise KeyboardInterrupt

    surroundings = replace(machine.surroundings(), open_arm=open_arm)
    with pytest.raises(KeyboardInterrupt):
        search(SearchRecord(configuration=configuration(), host=factories.HOST), surroundings, Recorder())
    assert not machine.alive
    assert len(ended) == 4


def test_a_candidate_may_hold_what_the_others_leave_of_the_budget() -> None:
    machine = machine_of()
    machine.budget_bytes = 1000
    run_search(configuration(candidates=(0, 4)), machine)
    # 100 and 140 are held once both are alive
    assert set(machine.allowed) == {(0, 1000), (0, 860), (4, 900)}


def test_a_candidate_that_is_found_to_hold_too_much_after_its_turn_is_out_of_memory() -> None:
    machine = machine_of()
    machine.budget_bytes = 1000

    def distort(burst: Burst) -> Burst:
        machine.arm_bytes = 2000 if len(machine.turns) > 3 else 100
        return burst

    machine.distort = distort
    trial = only_trial(configuration(candidates=(0,), bursts=9), machine)
    assert trial.state is TrialState.OUT_OF_MEMORY
    assert "held 2.00 kB of memory" in trial.reason
