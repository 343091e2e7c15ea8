"""Passes of the oracle: bare runs of the settings that may be the best, and of those
that methods picked."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from benchmarks import bare, child, neighbours, oracle
from benchmarks.catalogue import Workload
from benchmarks.journal import QUIET, Journal, Run, Setting
from benchmarks.support import print_line

_MOST_ROUNDS = 6  # of neighbours of the best in a pass, of each of the steps
# The oracle's own workers persist, too, where an epoch with the best number is shorter:
# starting a hundred workers is a twentieth of it.
_SHORT_EPOCH_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a run belongs to."""

    workload: Workload
    repeat: int  # from 1
    number: int  # of the pass in its repeat, from 1
    beside: str = QUIET  # the neighbour


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Measures what the journal lacks."""

    journal: Journal
    candidates: Sequence[int]  # num_workers of the oracle's own
    least_s: float  # shortest run
    limit_s: float  # longer epochs are projected
    # how far neighbours of the best are, as shares of it
    steps: Sequence[float] = oracle.STEPS

    def warm_up(self, workload: Workload, workers: int) -> None:
        """Makes files and fills the page cache."""
        self._measure_epoch(workload, Setting(workers), 0.0)

    def measure(self, place: Place, picks: Collection[Setting]) -> None:
        """Measures the oracle's own num_workers, neighbours of the best until it stays,
        the same of workers that persist where epochs are short, then the picks."""
        workload = place.workload
        usual = {n for n in self.candidates if n <= workload.most_workers}
        former = {run.workers for run in self._runs(workload) if run.own}
        done = self._measure_own(place, usual | former)
        done += self._measure_neighbours(place)
        best = oracle.cheapest(self._runs(workload))
        if best and self._least_s(workload, best) < _SHORT_EPOCH_S:
            former = {
                run.workers for run in self._runs(workload, persistent=True) if run.own
            }
            done += self._measure_persistent(place, best.workers, usual | former)
            done += self._measure_neighbours(place, persistent=True)
        worth = oracle.worth_measuring(picks, self._quiet_runs(workload))
        done += self.measure_settings(place, set(worth))
        if done:
            _print(place, done)

    def measure_settings(
        self, place: Place, settings: Collection[Setting], *, own: bool = False
    ) -> list[Run]:
        """Runs these settings, in random order, if they have no run in this place."""
        here = [run for run in self.journal.of(Run) if _is_of(run, place)]
        done = {run.setting for run in here}
        missing = sorted(set(settings) - done)
        draw = random.Random(
            f"{place.workload.name}-{place.repeat}-{place.number}-{len(done)}"
        )
        draw.shuffle(missing)
        return [self._run(place, setting, own) for setting in missing]

    def _measure_own(
        self, place: Place, numbers: Collection[int], *, persistent: bool = False
    ) -> list[Run]:
        settings = [Setting(number, persistent=persistent) for number in numbers]
        runs = self._runs(place.workload, persistent=persistent)
        worth = oracle.worth_measuring(settings, runs)
        return self.measure_settings(place, set(worth), own=True)

    def _measure_neighbours(
        self, place: Place, *, persistent: bool = False
    ) -> list[Run]:
        """Measures neighbours of the best number until it stays."""
        done = []
        most = 2 * place.workload.most_workers
        for step in self.steps:
            for _ in range(_MOST_ROUNDS):
                runs = self._runs(place.workload, persistent=persistent)
                near = oracle.neighbours_of_the_best(runs, most, step)
                more = self._measure_own(place, near, persistent=persistent)
                if not more:
                    break
                done += more
        return done

    def _measure_persistent(
        self, place: Place, fewest: int, numbers: Collection[int]
    ) -> list[Run]:
        """Measures workers that persist, from ``fewest`` up while more help: the best
        number that starts in each epoch is not too many where workers start once."""
        done = []
        for number in sorted(numbers):
            if number >= max(1, fewest):
                setting = Setting(number, persistent=True)
                done += self.measure_settings(place, {setting}, own=True)
                runs = self._runs(place.workload, persistent=True)
                if oracle.is_past_the_best(runs, setting):
                    break
        return done

    def _least_s(self, workload: Workload, best: Setting) -> float:
        """The shortest epoch with the best settings, s."""
        runs = self._runs(workload)
        return min(run.epoch_s for run in runs if run.setting == best and run.epoch_s)

    def _runs(self, workload: Workload, *, persistent: bool = False) -> list[Run]:
        """The quiet runs by which num_workers is judged."""
        return oracle.numbers(self._quiet_runs(workload), persistent=persistent)

    def _quiet_runs(self, workload: Workload) -> list[Run]:
        runs = [run for run in self.journal.of(Run) if run.workload == workload.name]
        return [run for run in runs if run.beside == QUIET]

    def _run(self, place: Place, setting: Setting, own: bool) -> Run:
        epochs = None
        try:
            epochs = self._measure_epoch(place.workload, setting, self.least_s)
        except RuntimeError as error:  # such as too little shared memory
            print_line(f"{place.workload.name} bare, {setting} workers: {error}")
        run = Run(
            workload=place.workload.name,
            workers=setting.workers,
            prefetch_factor=setting.prefetch_factor,
            persistent=setting.persistent,
            repeat=place.repeat,
            number=place.number,
            beside=place.beside,
            own=own,
            epoch_s=epochs and epochs.epoch_s,
            batch_s=epochs and epochs.batch_s,
            whole=epochs is None or epochs.is_whole,
        )
        self.journal.add(run)
        return run

    def _measure_epoch(
        self, workload: Workload, setting: Setting, least_s: float
    ) -> bare.Epochs:
        recipe = bare.Recipe(
            workload=workload,
            num_workers=setting.workers,
            prefetch_factor=setting.prefetch_factor,
            persistent=setting.persistent,
            least_s=least_s,
            limit_s=self.limit_s,
        )
        return child.call(bare.measure_epoch, recipe, 120.0 + 10 * self.limit_s)


def _is_of(run: Run, place: Place) -> bool:
    name = place.workload.name
    return (run.workload, run.repeat, run.number, run.beside) == (
        name,
        place.repeat,
        place.number,
        place.beside,
    )


def _print(place: Place, runs: Sequence[Run]) -> None:
    ordered = sorted(runs, key=lambda run: run.setting)
    line = ", ".join(f"{run.setting}: {run.epoch_s or 0:.3g}" for run in ordered)
    about = neighbours.KINDS[place.beside]
    print_line(
        f"repeat {place.repeat} {place.workload.name}, {about}: pass {place.number} (s an epoch) {line}"
    )
