"""Compares search methods: in each repeat, all methods and then the oracle, for each workload."""

import os
import random
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import against, bare, child, oracle, support
from benchmarks.catalogue import SEARCH_WORKLOADS, Workload, chosen
from benchmarks.epoch_times import PREFETCH_FACTOR
from benchmarks.journal import Journal, Outcome, Run
from benchmarks.methods import METHODS, OTHER, Machine, MethodRun, run_method, takes_too_long
from benchmarks.scores import Score, scores_of
from benchmarks.search_page import page
from benchmarks.support import print_line
from benchmarks.targets import advantages, verdicts
from nws_sweep.system import host, host_lock
from nws_sweep.system.host import usable_cpus

_MOST_ROUNDS = 6  # of neighbours of the best in a pass, of each of the steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the command line."""

    repeats: int  # at least 1
    only: tuple[str, ...]  # names of workloads; empty for all
    output: Path  # the page
    journal: Path  # raw figures
    methods: tuple[str, ...]
    against: Path | None  # a checkout of another version, whose adaptive search is compared too
    candidates: tuple[int, ...]  # num_workers that the oracle measures besides the picks
    passes: int  # of the oracle in each repeat, at least 1
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
        own = sorted(self.methods, key=METHODS.index)
        return (*own, *against.methods_of(self.against, own)) if self.against else tuple(own)


def run(options: Options) -> None:
    """Measures missing figures and writes the page after each repeat; errors are those of ``Journal`` and ``child``."""
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
        # Without repeats, workloads, methods and passes: --resume may add to all of them.
        made_with = {
            "benchmark": "search", "least_s": options.least_s, "limit_s": options.limit_s,
            "threads": os.environ.get("OMP_NUM_THREADS"), "host": asdict(host.describe()),
            "machine": asdict(self._machine),
        }  # fmt: skip
        self._journal = Journal(options.journal, made_with, resume=options.resume)

    def measure(self, workload: Workload, repeat: int) -> None:
        """Measures what is missing of a repeat of a workload, while no other nws_sweep runs on this machine."""
        with host_lock.held(support.LOCK_FILE, print_line):
            done = {o.method for o in self._journal.of(Outcome) if (o.workload, o.repeat) == (workload.name, repeat)}
            missing = [m for m in self._methods if m not in done and not takes_too_long(m, workload, repeat)]
            if missing:  # makes files and fills the page cache before the first method
                self._measure_epoch(workload, self._machine.cpus, 0.0)
            for method in random.Random(f"{workload.name}-{repeat}").sample(missing, len(missing)):
                self._run_method(method, workload, repeat)
            for number in range(1, self._options.passes + 1):
                self._pass(workload, repeat, number)

    def _measure_epoch(
        self, workload: Workload, workers: int, least_s: float, prefetch_factor: int = PREFETCH_FACTOR
    ) -> tuple[float, bool]:
        limit_s = self._options.limit_s
        recipe = bare.Recipe(
            workload=workload, num_workers=workers, prefetch_factor=prefetch_factor, least_s=least_s, limit_s=limit_s
        )
        return child.call(bare.measure_epoch, recipe, 60.0 + 10 * limit_s)

    def _run_method(self, method: str, workload: Workload, repeat: int) -> None:
        label = self._label(workload, repeat)
        log_path = self._options.journal.with_name(f"search-{workload.name}.log")
        method_run = MethodRun(method=method, workload=workload, repeat=repeat, log_path=log_path)
        if self._options.against and OTHER in method:
            outcome = against.run_method(self._options.against, method_run)
        else:
            outcome = run_method(method_run, self._machine, lambda line: print_line(f"{label} {method}: {line}"))
        self._journal.add(outcome)
        faults = "; ".join((*outcome.crashes, *outcome.left_behind))
        print_line(f"{label} {method}: picks {outcome.pick} in {outcome.cost_s:.1f} s {faults}".rstrip())

    def _pass(self, workload: Workload, repeat: int, number: int) -> None:
        """Measures the oracle's own num_workers, neighbours of the best until it stays, then other picks."""
        own = {run.workers for run in self._runs(workload) if run.own}
        usual = {n for n in self._options.candidates if n <= workload.most_workers}
        found = self._measure_numbers(workload, repeat, number, own | usual)
        for step in oracle.STEPS:
            for _ in range(_MOST_ROUNDS):
                near = oracle.neighbours_of_the_best(self._runs(workload), 2 * workload.most_workers, step)
                if not (more := self._measure_numbers(workload, repeat, number, near)):
                    break
                found += more
        picks = {workers for workers, prefetch_factor in self._picks(workload) if prefetch_factor == PREFETCH_FACTOR}
        found += self._measure_numbers(workload, repeat, number, picks, own=False)
        self._measure_other_picks(workload, repeat, number)
        if found:
            line = ", ".join(f"{run.workers}: {run.epoch_s or 0:.3g}" for run in sorted(found, key=lambda r: r.workers))
            print_line(f"{self._label(workload, repeat)} oracle, pass {number} (s an epoch) {line}")

    def _measure_numbers(
        self, workload: Workload, repeat: int, number: int, wanted: Collection[int], *, own: bool = True
    ) -> list[Run]:
        """A run of each num_workers that is worth one and has none in this pass, in random order."""
        runs = self._runs(workload)
        done = {run.workers for run in runs if (run.repeat, run.number) == (repeat, number)}
        values = [n for n in oracle.worth_measuring(wanted, runs) if n not in done]
        random.Random(f"{workload.name}-{repeat}-{number}-{len(done)}").shuffle(values)
        return [self._run(workload, (workers, PREFETCH_FACTOR), repeat, number, own) for workers in values]

    def _measure_other_picks(self, workload: Workload, repeat: int, number: int) -> None:
        """A run of each pick with another prefetch_factor that has none in this pass."""
        now = (workload.name, repeat, number)
        runs = [run for run in self._journal.of(Run) if (run.workload, run.repeat, run.number) == now]
        done = {(run.workers, run.prefetch_factor) for run in runs}
        for settings in sorted(self._picks(workload) - done):
            if settings[1] != PREFETCH_FACTOR:
                self._run(workload, settings, repeat, number, own=False)

    def _runs(self, workload: Workload) -> list[Run]:
        return oracle.usual_runs(run for run in self._journal.of(Run) if run.workload == workload.name)

    def _picks(self, workload: Workload) -> set[tuple[int, int]]:
        """The picks with their prefetch_factor."""
        outcomes = [outcome for outcome in self._journal.of(Outcome) if outcome.workload == workload.name]
        return {(outcome.pick, outcome.prefetch_factor) for outcome in outcomes if outcome.pick is not None}

    def _run(self, workload: Workload, settings: tuple[int, int], repeat: int, number: int, own: bool) -> Run:
        """A run with these num_workers and prefetch_factor."""
        (workers, prefetch_factor), epoch_s, is_whole = settings, None, True
        try:
            epoch_s, is_whole = self._measure_epoch(workload, workers, self._options.least_s, prefetch_factor)
        except RuntimeError as error:  # such as too little shared memory
            print_line(f"{self._label(workload, repeat)} oracle, {workers} workers: {error}")
        run = Run(
            workload=workload.name, workers=workers, repeat=repeat, number=number, epoch_s=epoch_s, whole=is_whole,
            own=own, prefetch_factor=prefetch_factor,
        )  # fmt: skip
        self._journal.add(run)
        return run

    def _label(self, workload: Workload, repeat: int) -> str:
        return f"repeat {repeat}/{self._options.repeats} {workload.name}"

    def write(self) -> None:
        """Writes the page."""
        self._options.output.parent.mkdir(parents=True, exist_ok=True)
        origin = support.origin(self._options.command, self._options.repeats, "repeat")
        text = page(self._scores, self._truths, self._options.workloads, origin)
        self._options.output.write_text(text, "utf-8")

    def summary(self) -> list[str]:
        """The verdicts, and a line per advantage of another method."""
        better = [f"better than plain: {line}" for line in advantages(self._scores, self._truths)]
        return [*verdicts(self._scores, self._truths), *better]

    @property
    def _truths(self) -> dict[str, oracle.Truth]:
        repeats = self._options.repeats
        names = [workload.name for workload in self._options.workloads]
        runs = {
            name: [r for r in self._journal.of(Run) if r.workload == name and r.repeat <= repeats] for name in names
        }
        truths = {name: oracle.truth_of(found) for name, found in runs.items()}
        return {name: truth for name, truth in truths.items() if truth is not None}

    @property
    def _scores(self) -> list[Score]:
        outcomes = [o for o in self._journal.of(Outcome) if o.repeat <= self._options.repeats]
        return scores_of(outcomes, self._truths, self._options.workloads, self._methods)
