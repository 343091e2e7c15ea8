"""Compares search methods: in each repeat, all methods and then the oracle, for each
workload."""

import os
import random
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import child, oracle, support
from benchmarks.catalogue import SEARCH_WORKLOADS, Workload, chosen
from benchmarks.journal import Journal, Outcome, Run
from benchmarks.methods import (
    METHODS,
    OTHER,
    Machine,
    MethodRun,
    of_another_version,
    run_method,
    takes_too_long,
)  # fmt: skip
from benchmarks.passes import Passes, Place
from benchmarks.scores import Score, scores_of
from benchmarks.search_results import results_of
from benchmarks.support import print_line
from benchmarks.targets import advantages, verdicts
from nws_sweep.system import host, host_lock
from nws_sweep.system.host import usable_cpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the command line."""

    repeats: int  # at least 1
    only: tuple[str, ...]  # names of workloads; empty for all
    output: Path  # the folder of the results
    journal: Path  # raw figures
    methods: tuple[str, ...]
    # a checkout of another version, whose adaptive search is compared too
    against: Path | None
    # num_workers that the oracle measures besides the picks
    candidates: tuple[int, ...]
    passes: int  # of the oracle in each repeat; 0 compares costs only
    least_s: float  # shortest run of the oracle
    limit_s: float  # longer epochs of the oracle are projected
    resume: bool  # keep the figures of the journal
    command: str  # the command line

    @property
    def workloads(self) -> list[Workload]:
        """The workloads chosen by ``only``."""
        return chosen(SEARCH_WORKLOADS, self.only)

    @property
    def all_methods(self) -> tuple[str, ...]:
        """The methods, and those of the other version."""
        chosen_methods = sorted(self.methods, key=METHODS.index)
        return (
            (*chosen_methods, *of_another_version(self.against, chosen_methods))
            if self.against
            else tuple(chosen_methods)
        )


def run(options: Options) -> None:
    """Measures missing figures and writes the results after each repeat; errors are those
    of ``Journal`` and ``child``."""
    support.start_fork_server()
    benchmark = _SearchBenchmark(options)
    for repeat in range(1, options.repeats + 1):
        for workload in options.workloads:
            benchmark.measure(workload, repeat)
        benchmark.write()
    for line in benchmark.summary():
        print_line(line)
    print_line(f"written to {options.output}")


def count_gpus(_: None) -> int:
    """GPUs that torch finds; called in a child, since torch initialises CUDA."""
    import torch

    return torch.cuda.device_count()


class _SearchBenchmark:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._methods = options.all_methods
        self._machine = Machine(cpus=usable_cpus(), gpus=child.call(count_gpus, None))
        # Without repeats, workloads, methods and passes: --resume may add to all of
        # them.
        made_with = {
            "benchmark": "search", "least_s": options.least_s, "limit_s": options.limit_s,
            "threads": os.environ.get("OMP_NUM_THREADS"), "host": asdict(host.describe()),
            "machine": asdict(self._machine),
        }  # fmt: skip
        self._journal = Journal(options.journal, made_with, resume=options.resume)
        self._passes = Passes(
            journal=self._journal,
            candidates=options.candidates,
            least_s=options.least_s,
            limit_s=options.limit_s,
        )

    def measure(self, workload: Workload, repeat: int) -> None:
        """Measures what is missing of a repeat of a workload, while no other nws_sweep
        runs on this machine."""
        with host_lock.held(support.LOCK_FILE, print_line):
            done = {
                o.method
                for o in self._journal.of(Outcome)
                if (o.workload, o.repeat) == (workload.name, repeat)
            }
            missing = [
                m
                for m in self._methods
                if m not in done and not takes_too_long(m, workload, repeat)
            ]
            if missing:
                self._passes.warm_up(workload, self._machine.cpus)
            for method in random.Random(f"{workload.name}-{repeat}").sample(
                missing, len(missing)
            ):
                self._run_method(method, workload, repeat)
            for number in range(1, self._options.passes + 1):
                self._passes.measure(
                    Place(workload=workload, repeat=repeat, number=number),
                    self._journal.picks(workload.name),
                )

    def _run_method(self, method: str, workload: Workload, repeat: int) -> None:
        method_run = MethodRun(
            method=method,
            workload=workload,
            repeat=repeat,
            log_path=self._options.journal.with_name(f"search-{workload.name}.log"),
            checkout=self._options.against if OTHER in method else None,
        )
        outcome = run_method(method_run, self._machine)
        self._journal.add(outcome)
        faults = "; ".join((*outcome.crashes, *outcome.left_behind))
        label = f"repeat {repeat}/{self._options.repeats} {workload.name}"
        print_line(
            f"{label} {method}: picks {outcome.pick} in {outcome.cost_s:.1f} s {faults}".rstrip()
        )

    def write(self) -> None:
        """Writes the results."""
        origin = support.origin(self._options.command, self._options.repeats, "repeat")
        results = results_of(self._scores, self._truths, self._options.workloads)
        results.write(self._options.output, origin)

    def summary(self) -> list[str]:
        """The verdicts, and a line per advantage of another method."""
        better = [
            f"better than plain: {line}"
            for line in advantages(self._scores, self._truths)
        ]
        return [*verdicts(self._scores, self._truths), *better]

    @property
    def _truths(self) -> dict[str, oracle.Truth]:
        repeats = self._options.repeats
        names = [workload.name for workload in self._options.workloads]
        runs = {
            name: [
                r
                for r in self._journal.of(Run)
                if r.workload == name and r.repeat <= repeats
            ]
            for name in names
        }
        truths = {
            name: oracle.truth_of(of_workload) for name, of_workload in runs.items()
        }
        return {name: truth for name, truth in truths.items() if truth is not None}

    @property
    def _scores(self) -> list[Score]:
        outcomes = [
            o for o in self._journal.of(Outcome) if o.repeat <= self._options.repeats
        ]
        return scores_of(outcomes, self._truths, self._options.workloads, self._methods)
