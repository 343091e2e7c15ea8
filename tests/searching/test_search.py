"""Searches on simulated machines with known true times."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nws_sweep.errors import (
    ConfigurationError,
    TrialError,
    TrialInterrupted,
    TrialOutOfMemory,
    TrialTimeout,
)
from nws_sweep.records import (
    Configuration,
    LoaderSettings,
    Measurement,
    MeasureRules,
    SearchRules,
    Trial,
    TrialState,
    Window,
    WindowKind,
)
from nws_sweep.searching.rounds import Rounds
from tests import factories
from tests.fakes import FACTS, FakeClock, FakeMachine, SimulatedLoader
from tests.oracle import Load, simulate
from tests.simulated import Recorder, by_workers, machine_of, run_search


def configuration(
    strategy: str = "exhaustive",
    candidates: tuple[int, ...] = (0, 1, 2, 4),
    reference: int | None = None,
    patience: int = 0,
    seed: int = 0,
    **measure: Any,
) -> Configuration:
    rules = {"windows": 3, "window_s": 10.0, "trial_limit_s": 1000.0, **measure}
    return factories.configuration(
        loader=LoaderSettings(batch_size=8, prefetch_factor=2, persistent_workers=True),
        measure=MeasureRules(**rules),
        search=SearchRules(
            strategy=strategy,
            candidates=candidates,
            patience=patience,
            reference=reference,
        ),
        seed=seed,
    )


def measured(chosen: Configuration, machine: FakeMachine) -> dict[int, Trial]:
    return by_workers(run_search(chosen, machine)[0])


def only_trial(machine: FakeMachine, num_workers: int = 4, **measure: Any) -> Trial:
    return measured(configuration(candidates=(num_workers,), **measure), machine)[
        num_workers
    ]


def found(trial: Trial) -> Measurement:
    assert trial.measurement is not None
    return trial.measurement


def costs(trials: dict[int, Trial]) -> dict[int, float | None]:
    return {number: trial.objective_s for number, trial in trials.items()}


def test_every_candidate_is_measured_and_reported_with_its_true_times() -> None:
    machine = machine_of()
    machine.other_cpu_s = 0.125
    result, recorder = run_search(configuration(reference=2), machine)
    assert sorted(recorder.done) == sorted(by_workers(result)) == [0, 1, 2, 4]
    assert sorted(settings.num_workers for settings in machine.opened) == [0, 1, 2, 4]
    # A tenth of the start-up (1 s per worker), a batch, then the batches after the
    # first multiple of the workers.
    expected = {0: 1000.0, 1: 1.1 + 999, 2: 1.2 + 998 / 2, 4: 1.4 + 996 / 4}
    assert costs(by_workers(result)) == pytest.approx(expected, rel=0.001)
    assert recorder.events[-1] == "finished"
    assert (result.complete, result.facts) == (True, FACTS)
    assert (
        result.cost_s
        == sum(trial.cost_s for trial in result.trials)
        == pytest.approx(machine.clock.now)
    )
    first = recorder.results[0]
    assert sorted(by_workers(first)) == [0, 1, 2, 4]
    assert not first.complete
    assert all(
        trial.windows and trial.objective_s and not trial.finished
        for trial in first.trials
    )
    noise = by_workers(result)[4].noise
    assert noise is not None
    assert noise.other_cpus == pytest.approx(0.5, rel=0.2)  # in each batch of 0.25 s


def steady_batch_s(wait_s: list[float], num_workers: int, step_s: float) -> float:
    """Seconds per batch of an epoch without its first quarter, by an independent
    simulation."""
    moments_s = simulate(
        Load(
            cpu_s=[0.0] * len(wait_s),
            wait_s=wait_s,
            num_workers=num_workers,
            step_s=step_s,
        )
    )
    first = len(wait_s) // 4
    return (moments_s[-1] - moments_s[first]) / (len(wait_s) - first)


@pytest.mark.parametrize("step_s", [0.0, 0.3])
@pytest.mark.parametrize("dear_s", [1.0, 6.0])
def test_rows_have_the_pace_of_an_independent_simulation(
    step_s: float, dear_s: float
) -> None:
    wait_s = [dear_s if batch % 8 == 0 else 1.0 for batch in range(1000)]
    clock = FakeClock()

    def make_loader(settings: LoaderSettings) -> SimulatedLoader:
        return SimulatedLoader(
            clock, 1000, wait_s.__getitem__, settings.num_workers, batch_size=8
        )

    machine = FakeMachine(make_loader, 1000, clock, step_s)
    rows = measured(
        configuration(candidates=(0, 1, 2, 3, 7, 8), window_s=200.0), machine
    )
    paces_s = {
        number: (pace := found(trial).batch_s) and pace.value
        for number, trial in rows.items()
    }
    truth_s = {number: steady_batch_s(wait_s, number, step_s) for number in rows}
    assert paces_s == pytest.approx(truth_s, rel=0.03)


def test_after_whole_epochs_workers_are_started_once_more_to_measure_their_memory() -> (
    None
):
    machine = machine_of(step_s=0.4, batches=50)
    loader = LoaderSettings(batch_size=8, prefetch_factor=2)
    trials = measured(replace(configuration(mode="epoch"), loader=loader), machine)
    looks = [
        (n, request.min_batches)
        for n, request in machine.requests
        if request.kind is WindowKind.WARM_UP
    ]
    # the second reads records
    assert sorted(looks) == [(1, 1), (1, 1), (2, 1), (2, 1), (4, 1), (4, 1)]
    for trial in trials.values():
        # batches.csv has no other batch
        assert [window.kind for window in trial.windows] == [WindowKind.EPOCH]
        assert found(trial).memory_growth_bytes is None


@pytest.mark.parametrize("measure", [{"windows": 4}, {"mode": "epoch", "epochs": 4}])
def test_the_order_of_time_slices_is_random_in_each_round_and_determined_by_the_seed(
    measure: Any,
) -> None:
    def slices(seed: int) -> list[int]:
        machine = machine_of(batches=20 if "mode" in measure else 1000)
        run_search(
            configuration(candidates=(0, 1, 2, 3, 4), seed=seed, **measure), machine
        )
        return machine.slices

    first = slices(1)
    assert slices(1) == first != slices(2)
    rounds = [first[start : start + 5] for start in range(0, 20, 5)]
    assert all(sorted(each) == [0, 1, 2, 3, 4] for each in rounds)
    assert len({tuple(each) for each in rounds}) > 2


def test_interleave_limits_the_candidates_alive_and_1_measures_one_after_the_other() -> (
    None
):
    machine, alone = machine_of(), machine_of()
    assert sorted(
        measured(configuration(candidates=tuple(range(10)), interleave=3), machine)
    ) == list(range(10))
    assert (machine.most_alive, len(machine.opened)) == (3, 10)
    run_search(configuration(interleave=1), alone)
    assert (alone.most_alive, alone.slices) == (1, sorted(alone.slices))
    # which end for one another
    rivals = machine_of(lambda workers: 0.32 * max(1, workers / 6), 2000, start_s=0.01)
    result, _ = run_search(
        configuration("adaptive", tuple(range(33)), interleave=1), rivals
    )
    assert (rivals.most_alive, result.complete, bool(result.verdict)) == (1, True, True)
    assert all(trial.state is TrialState.OK for trial in result.trials)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (TrialError("boom"), TrialState.FAILED),
        (TrialTimeout("late"), TrialState.TIMEOUT),
        (TrialOutOfMemory("full"), TrialState.OUT_OF_MEMORY),
        (TrialInterrupted("killed"), TrialState.INTERRUPTED),
    ],
)
def test_a_failed_candidate_is_a_row_and_the_search_continues(
    error: TrialError, state: TrialState
) -> None:
    machine = machine_of()
    machine.failures = {1: error}
    result, recorder = run_search(configuration(), machine)
    states = {trial.num_workers: (trial.state, trial.reason) for trial in result.trials}
    assert states.pop(1) == (state, str(error))
    assert states == dict.fromkeys((0, 2, 4), (TrialState.OK, ""))
    assert recorder.done.count(1) == 1


def test_a_candidate_that_others_kill_keeps_the_windows_that_it_had() -> None:
    machine = machine_of()

    def kill(window: Window) -> Window:
        if machine.slices.count(2) == 3:
            raise TrialInterrupted("the trial process was killed by SIGKILL")
        return window

    machine.distort = kill
    result, _ = run_search(configuration(), machine)
    trial = by_workers(result)[2]
    assert (trial.state, trial.notes[-1]) == (
        TrialState.OK,
        "ended early: the trial process was killed by SIGKILL",
    )
    assert found(trial).batch_s is not None
    assert result.is_final


def test_without_workers_the_settings_are_canonical_and_the_row_says_so() -> None:
    machine = machine_of()
    trial = only_trial(machine, 0)
    assert (trial.settings.prefetch_factor, trial.settings.persistent_workers) == (
        None,
        False,
    )
    assert trial.notes == ("num_workers=0 has no prefetch_factor, persistent_workers",)
    assert machine.opened == [trial.settings]
    with_workers = only_trial(machine_of(), 1)
    assert (with_workers.notes, with_workers.settings.prefetch_factor) == ((), 2)


def test_a_trial_that_is_faster_than_its_cpu_time_allows_is_measured_again_and_never_recommended() -> (
    None
):
    machine = machine_of()
    machine.cpu_s = 4.0  # two CPUs: no batch can take less than 2 s
    trial = only_trial(machine)
    assert trial.state is TrialState.MISMEASURED
    impossible = "265 ms a batch is impossible: the CPU time of a batch, shared by the CPUs, takes at least 2.00 s"
    assert trial.reason == f"{impossible}; measured twice"
    assert (len(machine.opened), trial.objective_s, found(trial).cpu_s) == (
        2,
        None,
        4.0,
    )


def test_a_second_measurement_that_is_correct_counts_alone() -> None:
    machine = machine_of()

    def distort(window: Window) -> Window:
        machine.cpu_s = 4.0 if len(machine.opened) == 1 else 0.1
        return window

    machine.distort = distort
    trial = only_trial(machine)
    assert trial.state is TrialState.OK
    assert trial.notes[0].startswith(
        "measured again because 265 ms a batch is impossible"
    )
    steady = [window for window in trial.windows if window.kind is WindowKind.STEADY]
    assert (len(steady), len(trial.windows) > 2 * 3) == (4, True)


def test_the_best_so_far_is_measured_beside_later_candidates_and_fails_if_it_fails_there() -> (
    None
):
    machine = machine_of()

    def distort(window: Window) -> Window:
        if machine.requests[-1][0] == 0 and len(machine.slices) > 6:
            raise TrialError("killed")
        return window

    machine.distort = distort
    result, recorder = run_search(
        configuration("patience", tuple(range(8)), patience=1), machine
    )
    best = by_workers(result)[0]
    assert 0 in machine.slices[6:]
    assert (best.state, best.reason, best.objective_s) == (
        TrialState.FAILED,
        "killed",
        None,
    )
    assert any(window.counts for window in best.windows), (
        "nothing that was measured is lost"
    )
    assert recorder.done.count(0) == 1
    assert result.complete


class ReadOnce(SimulatedLoader):
    """A stream whose ``__iter__`` returns the same iterator each time."""

    def __iter__(self) -> Iterator[int]:
        if not self.epochs_begun:
            self.stream = super().__iter__()
        return self.stream


@pytest.mark.parametrize("measure", [{"windows": 20}, {"mode": "epoch", "epochs": 2}])
def test_a_stream_that_can_be_read_only_once_is_measured_to_its_end(
    measure: Any,
) -> None:
    clock = FakeClock()
    trial = only_trial(
        FakeMachine(lambda settings: ReadOnce(clock, 60, 1.0), None, clock),
        0,
        **measure,
    )
    assert trial.state is TrialState.OK
    # of all batches, whose number is known at the end
    assert trial.objective_s == pytest.approx(60.0)
    assert trial.notes[-1].startswith(
        "stopped at the end of the data, which can be read only once"
    )


@pytest.mark.parametrize(
    ("kind", "batches", "length", "missing"),
    [
        (SimulatedLoader, 0, 0, "batch"),
        (SimulatedLoader, 0, None, "batch"),
        (ReadOnce, 1, None, "further batch"),
    ],
)
def test_a_loader_without_a_batch_for_a_window_fails(
    kind: Any, batches: int, length: int | None, missing: str
) -> None:
    clock = FakeClock()
    trial = only_trial(
        FakeMachine(lambda settings: kind(clock, batches, 1.0), length, clock), 0
    )
    reason = f"the loader returned no {missing} of 8 (drop_last=False)"
    assert (trial.state, trial.reason) == (TrialState.FAILED, reason)


def test_an_epoch_of_a_stream_is_known_once_one_has_ended_of_any_candidate() -> None:
    machine = machine_of(batches=100, start_s=2.0)
    machine.batches_per_epoch = None
    trials = measured(configuration(candidates=(0, 4)), machine)
    assert {n: found(trial).epoch_s for n, trial in trials.items()} == pytest.approx(
        {0: 100.0, 4: 33.0}, rel=0.05
    )
    assert {trial.batches for trial in trials.values()} == {100}


def test_the_epoch_of_an_earlier_trial_has_the_batches_that_its_loader_had() -> None:
    """The dataset makes the batches. The epoch took 8 s."""
    chosen = replace(configuration(), loader=LoaderSettings(batch_size=None))
    earlier = factories.trial(
        0, 8.0, settings=chosen.loader.with_workers(0), batches=16
    )
    start = factories.search_result(earlier, configuration=chosen)
    (seen,) = Rounds(
        start, machine_of().environment(), Recorder(), math.inf
    ).observations()
    assert (seen.batches, seen.cost_s) == (16, 0.5)


def test_a_wrong_length_is_ignored_for_all_candidates() -> None:
    """Complete and incomplete epochs must be ranked by the same quantity."""
    machine = machine_of(batches=100, start_s=0.0)
    machine.batches_per_epoch = 1000
    trials = measured(configuration(candidates=(0, 4)), machine)
    assert {(found(trial).epoch_s, trial.batches) for trial in trials.values()} == {
        (None, None)
    }
    assert costs(trials) == pytest.approx({0: 1.0, 4: 0.25}, rel=0.02)
    assert any(
        "an epoch ended after 100 batches, but its length is 1000" in n
        for n in trials[0].notes
    )


def test_workers_that_end_their_shares_of_a_dataset_with_shorter_batches_are_ranked_by_whole_epochs() -> (
    None
):
    """1000 samples in batches of 64: ``len`` counts 16, but 15 workers have two each,
    and the longest epoch."""
    clock = FakeClock()
    paces_s = {0: 0.06, 4: 0.2, 15: 0.6}
    machine = FakeMachine(
        lambda s: SimulatedLoader(clock, 30 if s.num_workers == 15 else 16, paces_s[s.num_workers], s.num_workers), 16,
        clock, facts=replace(FACTS, iterable=True),
    )  # fmt: skip
    result, _ = run_search(configuration(candidates=(0, 4, 15), mode="epoch"), machine)
    trials = by_workers(result)
    assert [trials[n].objective_s for n in (0, 4, 15)] == pytest.approx(
        [0.96, 0.8, 1.2]
    )
    assert not any(
        "ranked by seconds per batch" in note
        for trial in trials.values()
        for note in trial.notes
    )


def test_a_candidate_whose_batches_exceed_shared_memory_is_skipped_with_the_reason() -> (
    None
):
    machine = machine_of()
    machine.distort = lambda window: replace(
        window, batch_bytes=1000 if window.startup_s else None, batch_tensors=2
    )
    machine.shm_bytes = 6000
    result, recorder = run_search(configuration(), machine)
    trials = by_workers(result)
    assert trials[4].state is TrialState.SKIPPED
    assert trials[4].reason.startswith(
        "it needs 9.00 kB of shared memory (9 batches of 1.00 kB in flight), and "
    )
    assert {trials[n].state for n in (0, 1, 2)} == {TrialState.OK}
    assert 4 not in {settings.num_workers for settings in machine.opened}
    assert recorder.done.count(4) == 1


@pytest.mark.parametrize("measure", [{}, {"mode": "epoch"}])
def test_candidates_that_do_not_fit_together_alternate_and_one_that_does_not_fit_alone_is_skipped(
    measure: Any,
) -> None:
    machine = machine_of(batches=20 if measure else 1000)
    machine.budget_bytes = 250  # a trial process has 100 to 140
    trials = measured(configuration(**measure), machine)
    assert [trials[n].state for n in (0, 1, 2, 4)] == [TrialState.OK] * 4
    assert machine.most_alive == 2
    machine = machine_of()
    machine.budget_bytes = 130
    alone = measured(configuration(), machine)
    assert (alone[2].state, alone[4].state) == (TrialState.OK, TrialState.SKIPPED)
    assert alone[4].reason.startswith(
        "it needs 140 B of memory (100 B for the dataset, 4 workers of 10 B, "
    )


def test_a_candidate_may_use_the_rest_of_the_memory_budget() -> None:
    machine = machine_of()
    machine.budget_bytes = 1000
    run_search(configuration(candidates=(0, 4)), machine)
    assert machine.allowed[:2] == [(0, 1000), (4, 900)]
    assert set(machine.allowed[2:]) == {(0, 860), (4, 900)}  # both alive: 100 and 140


def test_a_candidate_above_the_memory_budget_after_its_time_slice_is_out_of_memory() -> (
    None
):
    machine = machine_of()
    machine.budget_bytes = 1000

    def distort(window: Window) -> Window:
        machine.process_bytes = 2000 if len(machine.slices) > 3 else 100
        return window

    machine.distort = distort
    trial = only_trial(machine, 0, windows=9)
    assert trial.state is TrialState.OUT_OF_MEMORY
    assert "held 2.00 kB of memory" in trial.reason


@pytest.mark.parametrize(
    ("candidates", "opened"), [((0, 2), [0, 2]), ((1, 2), [1, 2, 1])]
)
def test_a_first_time_slice_from_storage_does_not_count(
    candidates: tuple[int, int], opened: list[int]
) -> None:
    """Epochs of one time slice; the first reading of a batch takes 100 times as long.
    Persistent workers restart."""
    seen: set[int] = set()
    counted = [0]

    def make_s(batch: int) -> float:
        is_cold = batch not in seen
        seen.add(batch)
        return 1.0 if is_cold else 0.01

    def read(batches: int) -> int:
        before, counted[0] = counted[0], len(seen)
        return 2_000_000 * (len(seen) - before)

    clock = FakeClock()
    machine = FakeMachine(
        lambda s: SimulatedLoader(clock, 20, make_s, s.num_workers, batch_size=8),
        20,
        clock,
    )
    machine.read = read
    trials = measured(configuration(candidates=candidates, mode="epoch"), machine)
    assert costs(trials) == pytest.approx({candidates[0]: 0.2, 2: 0.1}, rel=0.05)
    assert [len(trials[n].windows) for n in candidates] == [2, 1]
    assert [settings.num_workers for settings in machine.opened] == opened


@pytest.mark.parametrize("cache", ["auto", "warm"])
def test_of_data_larger_than_memory_no_batch_is_measured_twice(cache: str) -> None:
    """An epoch reads 30 GB, of which 20 GB fit into memory; a batch that was read
    before takes 1 % of the time."""
    seen: set[int] = set()
    clock, batches = FakeClock(), 3000

    def make_loader(settings: LoaderSettings) -> SimulatedLoader:
        first = int(machine.places[-1] * batches)

        def make_s(batch: int) -> float:
            number = (first + batch) % batches
            is_new = number not in seen
            seen.add(number)
            return 0.1 if is_new else 0.001

        return SimulatedLoader(
            clock, batches, make_s, settings.num_workers, batch_size=8
        )

    machine = FakeMachine(
        make_loader, batches, clock, free_bytes=20 * 10**9, read=lambda n: 10**7 * n
    )
    chosen = configuration(
        candidates=(0, 1, 2), cache=cache, window_s=2.0, trial_limit_s=12.0
    )
    trials = measured(chosen, machine)
    paces = [estimate.value for n in range(3) if (estimate := found(trials[n]).batch_s)]
    assert (paces == pytest.approx([0.1, 0.1, 0.05], rel=0.1)) == (cache == "auto")
    is_own = cache == "auto"
    assert (
        len(set(machine.places)) == len(machine.places) == 4
        if is_own
        else set(machine.places) == {0.0}
    )
    assert (
        any(
            "each number of workers reads other batches" in note
            for note in trials[0].notes
        )
        == is_own
    )


@pytest.mark.parametrize(("throttled_s", "least_s"), [(0.0, 0.2), (0.5, 1.0)])
def test_windows_are_ten_periods_long_where_a_cpu_quota_throttles(
    throttled_s: float, least_s: float
) -> None:
    machine = machine_of(lambda _: 0.01)

    def distort(window: Window) -> Window:
        machine.throttled_s += throttled_s
        return window

    machine.distort = distort
    later = [
        window.elapsed_s
        for window in only_trial(machine, window_s=0.2, windows=5).windows
        if window.counts
    ][1:]
    assert min(later) == pytest.approx(least_s, rel=0.3)


def test_an_epoch_that_grows_with_the_workers_is_told() -> None:
    clock, stream = FakeClock(), replace(FACTS, iterable=True)

    def make_loader(settings: LoaderSettings) -> SimulatedLoader:
        return SimulatedLoader(
            clock, 4 * max(1, settings.num_workers), 1.0, settings.num_workers
        )

    trials = measured(
        configuration(candidates=(0, 4)),
        FakeMachine(make_loader, None, clock, facts=stream),
    )
    (line,) = trials[4].warnings
    assert line.startswith(
        "the length of an epoch depends on num_workers: 4 batches with 0, 16 with 4;"
    )


@pytest.mark.parametrize(("persists", "more_s"), [(True, 0.0), (False, 2.0)])
def test_an_epoch_contains_the_time_in_which_a_large_program_forks_its_workers(
    persists: bool, more_s: float
) -> None:
    chosen = configuration(candidates=(4,))
    chosen = replace(chosen, loader=replace(chosen.loader, persistent_workers=persists))
    small, large = machine_of(), machine_of()
    large.fork_s = 0.5
    one, other = (found(measured(chosen, machine)[4]) for machine in (small, large))
    assert one.epoch_s is not None
    assert other.epoch_s is not None
    assert other.startup_s - one.startup_s == pytest.approx(more_s)
    assert other.epoch_s - one.epoch_s == pytest.approx(more_s, abs=0.1)


def test_cold_drops_the_files_that_are_named_before_each_time_slice_and_needs_files(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_text("a")
    machine = machine_of()
    machine.read = lambda batches: 100_000 * batches
    for trial in measured(
        configuration(candidates=(0, 2), cache="cold", cache_files=(str(tmp_path),)),
        machine,
    ).values():
        assert trial.state is TrialState.OK
        assert found(trial).disk_bytes == pytest.approx(100_000, rel=0.05)
    assert set(machine.dropped) == {(str(tmp_path / "a"),)}
    assert len(machine.dropped) == len(machine.slices)
    for files, where in ((("nowhere",), "nowhere"), (None, "")):
        line = rf"cold: no files in measure.cache_files=\[{where}\]; name the files or folders that the dataset reads"
        with pytest.raises(ConfigurationError, match=line):
            run_search(configuration(cache="cold", cache_files=files), machine_of())
