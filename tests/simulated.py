"""Whole searches on simulated machines, and an observer that records their events."""

import math
from collections.abc import Callable, Iterable

from nws_sweep.records import (
    Configuration,
    LoaderSettings,
    MeasureRules,
    SearchRecord,
    TimeSlice,
    Trial,
    TrialState,
)
from nws_sweep.searching.rows import Figures
from nws_sweep.searching.schedule import Conditions
from nws_sweep.searching.search import search
from tests import factories
from tests.fakes import FakeClock, FakeMachine, SimulatedLoader


class Recorder:
    """Records the events of a search."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.results: list[SearchRecord] = []

    def slice_started(self, num_workers: int) -> None:
        self.events.append(f"slice {num_workers}")

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        assert trial in result.trials
        self.events.append(f"done {trial.num_workers}")

    def round_finished(self, result_so_far: Callable[[], SearchRecord]) -> None:
        self.results.append(result_so_far())

    def note(self, line: str) -> None:
        self.events.append(f"note {line}")

    def interrupted(self, result: SearchRecord) -> None:
        self.events.append("interrupted")
        self.results.append(result)

    def search_finished(self, result: SearchRecord) -> None:
        self.events.append("finished")

    @property
    def done(self) -> list[int]:
        return [
            int(event.split()[1]) for event in self.events if event.startswith("done")
        ]


def machine_of(
    make_s: Callable[[int], float] = lambda workers: 1.0 * max(1, workers / 4),
    batches: int | None = 1000,
    step_s: float = 0.0,
    start_s: float = 1.0,
) -> FakeMachine:
    """A dataset that sleeps: n workers are n times as fast up to 4; the start-up takes
    1 s a worker."""
    clock = FakeClock()

    def make_loader(settings: LoaderSettings) -> SimulatedLoader:
        workers = settings.num_workers
        length = 1000 if batches is None else batches
        return SimulatedLoader(
            clock,
            length,
            make_s(workers),
            workers,
            start_s=start_s * workers,
            batch_size=settings.batch_size or 1,
        )

    return FakeMachine(make_loader, batches, clock, step_s)


def run_search(
    chosen: Configuration, machine: FakeMachine
) -> tuple[SearchRecord, Recorder]:
    recorder = Recorder()
    start = SearchRecord(configuration=chosen, host=factories.HOST)
    result = search(start, machine.environment(), recorder)
    assert not machine.alive, "a trial process is still alive"
    check_rows(result.trials, machine.batches_per_epoch, machine.cores)
    return result, recorder


def check_rows(
    trials: Iterable[Trial], batches: int | None, cpus: float = math.inf
) -> None:
    """Asserts that the figures of each row agree with each other, and beat no physical
    limit.

    Args:
        trials: The rows.
        batches: Of an epoch; None if unknown.
        cpus: CPUs that each trial may use.
    """
    for trial in trials:
        check_limits(trial, cpus)
        if trial.state is TrialState.OK:
            assert trial.objective_s is not None, trial
        found, queue = trial.measurement, trial.settings.queued_batches
        if (
            batches is None
            or found is None
            or found.epoch_s is None
            or found.batch_s is None
        ):
            continue
        batch_s = found.batch_s.value
        least_s = (batches - queue - trial.num_workers) * batch_s
        assert (
            0.97 * least_s
            <= found.epoch_s
            <= 1.03 * (found.startup_s + (batches + queue) * batch_s)
        ), trial.settings


def check_limits(trial: Trial, cpus: float) -> None:
    """Asserts that a row with a time beats no physical limit of the batches that its
    windows took."""
    measurement = trial.measurement
    if (
        trial.state is not TrialState.OK
        or measurement is None
        or measurement.batch_s is None
        or not trial.windows
    ):
        return
    slices = tuple(
        TimeSlice(windows=(window,), round=number)
        for number, window in enumerate(trial.windows)
    )
    conditions = Conditions(
        settings=trial.settings,
        rules=MeasureRules(),
        batches_per_epoch=trial.batches,
        cores=cpus,
    )
    low, high = (
        math.log(end / measurement.batch_s.value) for end in measurement.batch_s.ends
    )
    assert Figures(slices, conditions).impossible((high - low) / 2) == "", (
        trial.settings
    )


def by_workers(result: SearchRecord) -> dict[int, Trial]:
    return {trial.num_workers: trial for trial in result.trials}
