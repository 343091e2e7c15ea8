"""Searches with default arguments, beside neighbours too, and bare loops of the same
machine in turn."""

import os
import random
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import methods, neighbours, oracle, support
from benchmarks.catalogue import NUMBERS_WORKLOADS, Workload, chosen
from benchmarks.journal import QUIET, Journal, Outcome, Run, Setting
from benchmarks.numbers_results import Figures, results_of, summary
from benchmarks.passes import Passes, Place
from benchmarks.support import print_line
from nws_sweep.system import host, host_lock

# num_workers of the oracle; then it looks a tenth around the best
_CANDIDATES = (0, 1, 2, 4, 8, 16, 24, 32, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the command line."""

    repeats: int  # at least 1
    only: tuple[str, ...]  # names of workloads; empty for all
    beside: tuple[str, ...]  # of ``neighbours.KINDS``
    output: Path  # the folder of the results
    journal: Path  # raw figures
    least_s: float  # shortest bare run
    limit_s: float  # longer bare epochs are projected
    resume: bool  # keep the figures of the journal
    command: str  # the command line


def run(options: Options) -> None:
    """Measures missing figures and writes the results after each repeat; errors are those
    of ``Journal`` and ``child``."""
    support.start_fork_server()
    benchmark = _NumbersBenchmark(options)
    for repeat in range(1, options.repeats + 1):
        for workload in benchmark.workloads:
            with host_lock.held(support.LOCK_FILE, print_line):
                benchmark.measure(workload, repeat)
        benchmark.write(repeat)
    print_line(f"written to {options.output}")


class _NumbersBenchmark:
    def __init__(self, options: Options) -> None:
        self.workloads = chosen(NUMBERS_WORKLOADS, options.only)
        self._options = options
        self._machine = methods.Machine(cpus=host.usable_cpus(), gpus=0)
        # Without repeats, workloads and neighbours: --resume may add to all of them.
        made_with = {
            "benchmark": "numbers",
            "least_s": options.least_s,
            "limit_s": options.limit_s,
            "threads": os.environ.get("OMP_NUM_THREADS"),
            "host": asdict(host.describe()),
        }
        self._journal = Journal(options.journal, made_with, resume=options.resume)
        self._passes = Passes(
            journal=self._journal,
            candidates=_CANDIDATES,
            least_s=options.least_s,
            limit_s=options.limit_s,
            steps=oracle.STEPS[:1],
        )

    def measure(self, workload: Workload, repeat: int) -> None:
        """Measures a repeat: beside each neighbour first, then on the quiet machine,
        before a pass of bare runs.

        In the first repeat another pass comes before the search.
        """
        self._passes.warm_up(workload, self._machine.cpus)
        for kind in _in_random_order(self._options.beside, f"{workload.name}-{repeat}"):
            if kind != QUIET:
                self._measure_beside(workload, repeat, kind)
        first, second = (
            Place(workload=workload, repeat=repeat, number=number) for number in (1, 2)
        )
        if repeat == 1:  # later repeats compare the best so far and the rows
            self._passes.measure(first, ())
        if QUIET in self._options.beside:
            outcome = self._search(workload, repeat, QUIET)
            self._passes.measure_settings(second, settings_of(outcome))
        self._passes.measure(second, self._journal.picks(workload.name))

    def _measure_beside(self, workload: Workload, repeat: int, kind: str) -> None:
        with neighbours.beside(kind):
            outcome = self._search(workload, repeat, kind)
            if kind != neighbours.ALTERNATING:
                place = Place(workload=workload, repeat=repeat, number=1, beside=kind)
                self._passes.measure_settings(place, settings_of(outcome))

    def _search(self, workload: Workload, repeat: int, kind: str) -> Outcome:
        """The outcome in the journal, or that of a search now."""
        key = (workload.name, repeat, kind)
        outcomes = self._journal.of(Outcome)
        former = [
            outcome
            for outcome in outcomes
            if (outcome.workload, outcome.repeat, outcome.beside) == key
        ]
        if former:
            return former[0]
        method_run = methods.MethodRun(
            method=methods.PLAIN,
            workload=workload,
            repeat=repeat,
            log_path=self._options.journal.with_name(f"numbers-{workload.name}.log"),
            beside=kind,
        )
        outcome = methods.run_method(method_run, self._machine)
        self._journal.add(outcome)
        faults = "; ".join((*outcome.crashes, *outcome.left_behind))
        line = f"answer {outcome.label} in {outcome.cost_s:.1f} s {faults}".rstrip()
        print_line(f"repeat {repeat} {workload.name}, {neighbours.KINDS[kind]}: {line}")
        return outcome

    def write(self, repeats: int) -> None:
        """Writes the results of the first repeats, and prints its summary."""
        figures = self._figures(repeats)
        origin = support.origin(self._options.command, repeats, "repeat")
        results_of(figures).write(self._options.output, origin)
        for line in summary(figures):
            print_line(line)

    def _figures(self, repeats: int) -> Figures:
        names = {workload.name for workload in self.workloads}
        outcomes = [
            o
            for o in self._journal.of(Outcome)
            if o.workload in names and o.repeat <= repeats
        ]
        runs = [
            r
            for r in self._journal.of(Run)
            if r.workload in names and r.repeat <= repeats
        ]
        return Figures(
            workloads=self.workloads,
            outcomes=[
                outcome
                for outcome in outcomes
                if outcome.beside in self._options.beside
            ],
            runs=runs,
            truths={
                name: truth
                for name in names
                if (truth := _truth(name, runs)) is not None
            },
            cpus=self._machine.cpus,
        )


def _truth(name: str, runs: list[Run]) -> oracle.Truth | None:
    return oracle.truth_of(
        [run for run in runs if run.workload == name and run.beside == QUIET]
    )


def settings_of(outcome: Outcome) -> set[Setting]:
    """The settings of the rows that have figures."""
    return {row.setting for row in outcome.rows if not row.fault}


def _in_random_order(kinds: tuple[str, ...], seed: str) -> list[str]:
    return random.Random(seed).sample(kinds, len(kinds))
