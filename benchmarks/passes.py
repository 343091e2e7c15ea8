"""Passes of the oracle: bare runs of the settings that may be the best, and of those
that methods picked."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from benchmarks import bare, child, neighbours, oracle
from benchmarks.catalogue import Workload
from benchmarks.epoch_times import PREFETCH_FACTOR
from benchmarks.journal import QUIET, Journal, Run
from benchmarks.support import print_line

Setting = tuple[int, int]  # num_workers and prefetch_factor
_MOST_ROUNDS = 6  # of neighbours of the best in a pass, of each of the steps


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
        self._measure_epoch(workload, (workers, PREFETCH_FACTOR), 0.0)

    def measure(self, place: Place, picks: Collection[Setting]) -> None:
        """Measures the oracle's own num_workers, neighbours of the best until it stays,
        then the picks."""
        workload = place.workload
        usual = {n for n in self.candidates if n <= workload.most_workers}
        former = {run.workers for run in self._runs(workload) if run.own}
        done = self._measure_numbers(place, usual | former)
        for step in self.steps:
            for _ in range(_MOST_ROUNDS):
                near = oracle.neighbours_of_the_best(
                    self._runs(workload), 2 * workload.most_workers, step
                )
                if not (more := self._measure_numbers(place, near)):
                    break
                done += more
        worth = oracle.worth_measuring(
            {n for n, prefetch in picks if prefetch == PREFETCH_FACTOR},
            self._runs(workload),
        )
        done += self.measure_settings(place, {(n, PREFETCH_FACTOR) for n in worth})
        done += self.measure_settings(
            place, {setting for setting in picks if setting[1] != PREFETCH_FACTOR}
        )
        if done:
            _print(place, done)

    def measure_settings(
        self, place: Place, settings: Collection[Setting], *, own: bool = False
    ) -> list[Run]:
        """Runs these settings, in random order, if they have no run in this place."""
        here = [run for run in self.journal.of(Run) if _is_of(run, place)]
        done = {(run.workers, run.prefetch_factor) for run in here}
        missing = sorted(set(settings) - done)
        draw = random.Random(
            f"{place.workload.name}-{place.repeat}-{place.number}-{len(done)}"
        )
        draw.shuffle(missing)
        return [self._run(place, setting, own) for setting in missing]

    def _measure_numbers(self, place: Place, numbers: Collection[int]) -> list[Run]:
        worth = oracle.worth_measuring(numbers, self._runs(place.workload))
        return self.measure_settings(
            place, {(workers, PREFETCH_FACTOR) for workers in worth}, own=True
        )

    def _runs(self, workload: Workload) -> list[Run]:
        runs = [run for run in self.journal.of(Run) if run.workload == workload.name]
        return oracle.usual_runs(run for run in runs if run.beside == QUIET)

    def _run(self, place: Place, setting: Setting, own: bool) -> Run:
        epochs = None
        try:
            epochs = self._measure_epoch(place.workload, setting, self.least_s)
        except RuntimeError as error:  # such as too little shared memory
            print_line(f"{place.workload.name} bare, {setting[0]} workers: {error}")
        run = Run(
            workload=place.workload.name,
            workers=setting[0],
            prefetch_factor=setting[1],
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
            num_workers=setting[0],
            prefetch_factor=setting[1],
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
    ordered = sorted(runs, key=lambda run: (run.workers, run.prefetch_factor))
    line = ", ".join(f"{run.workers}: {run.epoch_s or 0:.3g}" for run in ordered)
    about = neighbours.KINDS[place.beside]
    print_line(
        f"repeat {place.repeat} {place.workload.name}, {about}: pass {place.number} (s an epoch) {line}"
    )
