"""Whole searches on simulated machines, and an observer that records their events."""

from collections.abc import Callable, Iterable

from nws_sweep.results import Configuration, LoaderSettings, SearchRecord, Trial, TrialState
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
        return [int(event.split()[1]) for event in self.events if event.startswith("done")]


def machine_of(
    make_s: Callable[[int], float] = lambda workers: 1.0 * max(1, workers / 4),
    batches: int | None = 1000,
    step_s: float = 0.0,
    start_s: float = 1.0,
) -> FakeMachine:
    """A dataset that sleeps: n workers are n times as fast up to 4; the start-up takes 1 s a worker."""
    clock = FakeClock()

    def make_loader(settings: LoaderSettings) -> SimulatedLoader:
        workers = settings.num_workers
        length = 1000 if batches is None else batches
        return SimulatedLoader(clock, length, make_s(workers), workers, start_s=start_s * workers, batch_size=8)

    return FakeMachine(make_loader, batches, clock, step_s)


def run_search(chosen: Configuration, machine: FakeMachine) -> tuple[SearchRecord, Recorder]:
    recorder = Recorder()
    start = SearchRecord(configuration=chosen, host=factories.HOST)
    result = search(start, machine.environment(), recorder)
    assert not machine.alive, "a trial process is still alive"
    check_rows(result.trials, machine.batches_per_epoch)
    return result, recorder


def check_rows(trials: Iterable[Trial], batches: int | None) -> None:
    """Asserts that the figures of each row agree with each other; ``batches`` of an epoch, None if unknown."""
    for trial in trials:
        if trial.state is TrialState.OK:
            assert trial.objective_s is not None, trial
        found, queue = trial.measurement, trial.settings.queued_batches
        if batches is None or found is None or found.epoch_s is None or found.batch_s is None:
            continue
        batch_s = found.batch_s.value
        least_s = (batches - queue - trial.num_workers) * batch_s
        assert 0.97 * least_s <= found.epoch_s <= 1.03 * (found.startup_s + (batches + queue) * batch_s), trial.settings


def by_workers(result: SearchRecord) -> dict[int, Trial]:
    return {trial.num_workers: trial for trial in result.trials}
