"""Times bare loops, a search by nws_sweep, and bare loops again, for each workload in each round."""

import os
import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import bare, child, epoch_times, support, sweep_search
from benchmarks.bias_page import page, rows_of, verdicts
from benchmarks.catalogue import WORKLOADS, Workload, chosen
from benchmarks.journal import BARE_AFTER, BARE_BEFORE, KINDS, NWS_SWEEP, Figure, Journal
from benchmarks.support import print_line
from nws_sweep import units
from nws_sweep.results import SearchRules, Trial
from nws_sweep.system import host, host_lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the command line."""

    rounds: int  # at least 1
    only: tuple[str, ...]  # names of workloads; empty for all
    workers: tuple[int, ...]
    output: Path  # the page
    journal: Path  # raw figures
    least_s: float  # shortest bare run
    quick: bool  # shorter epochs
    resume: bool  # keep the rounds of the journal
    command: str  # the command line


def run(options: Options) -> None:
    """Measures the missing rounds and writes the page; errors are those of ``Journal`` and ``child.call``."""
    made_with = {
        "workers": list(options.workers), "least_s": options.least_s, "quick": options.quick,
        "threads": os.environ.get("OMP_NUM_THREADS"), "host": asdict(host.describe()),
    }  # fmt: skip
    journal = Journal(options.journal, made_with, resume=options.resume)
    journal.rewrite(complete(journal.of(Figure), options.workers))
    support.start_fork_server()
    workloads = chosen(WORKLOADS, options.only)
    if options.quick:
        workloads = [workload.shortened() for workload in workloads]
    for number in range(1, options.rounds + 1):
        for workload in workloads:
            if not any((f.workload, f.round) == (workload.name, number) for f in journal.of(Figure)):
                _measure(workload, number, options, journal)
    names = {workload.name for workload in workloads}
    rows = rows_of([f for f in journal.of(Figure) if f.workload in names and f.round <= options.rounds])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    origin = support.origin(options.command, options.rounds, "round")
    options.output.write_text(page(rows, workloads, origin), "utf-8")
    for verdict in verdicts(rows):
        print_line(verdict)
    print_line(f"written to {options.output}")


def complete(figures: Iterable[Figure], workers: Sequence[int]) -> list[Figure]:
    """The figures of complete rounds; those of an incomplete round are measured again together."""
    by_round: dict[tuple[str, int], list[Figure]] = {}
    for figure in figures:
        by_round.setdefault((figure.workload, figure.round), []).append(figure)
    wanted = len(KINDS) * len(workers)
    return [figure for found in by_round.values() if len(found) == wanted for figure in found]


def _measure(workload: Workload, number: int, options: Options, journal: Journal) -> None:
    """Measures one round of a workload, while no other nws_sweep runs on this machine."""
    label = f"round {number}/{options.rounds} {workload.name}"
    rules = SearchRules(strategy="exhaustive", candidates=tuple(sorted(options.workers)))
    configuration = sweep_search.configuration_of(workload, rules, number)
    log_path = options.journal.with_name(f"{workload.name}.log")
    with host_lock.held(support.LOCK_FILE, print_line):
        journal.add(*_bare(workload, number, BARE_BEFORE, options))
        result = sweep_search.find(configuration, log_path, lambda line: print_line(f"{label} nws_sweep: {line}"))
        journal.add(*(figure_of(workload, trial, number) for trial in result.trials))
        journal.add(*_bare(workload, number, BARE_AFTER, options))


def _bare(workload: Workload, number: int, kind: str, options: Options) -> list[Figure]:
    order = random.Random(f"{workload.name}-{number}-{kind}").sample(options.workers, len(options.workers))
    figures = [_bare_figure(workload, number, kind, workers, options.least_s) for workers in order]
    line = ", ".join(f"{f.workers}: {1000 * (f.batch_s or 0):.2f}" for f in sorted(figures, key=lambda f: f.workers))
    print_line(f"round {number}/{options.rounds} {workload.name} {kind} (ms a batch) {line}")
    return figures


def _bare_figure(workload: Workload, number: int, kind: str, workers: int, least_s: float) -> Figure:
    recipe = bare.Recipe(workload=workload, num_workers=workers, least_s=least_s)
    epochs, lengths_s = child.call(bare.run_epochs, recipe)
    return Figure(
        workload=workload.name,
        workers=workers,
        round=number,
        kind=kind,
        batch_s=epoch_times.steady_batch_s(epoch_times.counting(epochs), workers),
        epoch_s=statistics.fmean(epoch_times.counting(lengths_s)),
        detail={
            "epoch_s": lengths_s,
            "first_s": [timestamps[0] for timestamps in epochs],
            "batch_s": [epoch_times.steady_batch_s([timestamps], workers) for timestamps in epochs],
        },
    )


def figure_of(workload: Workload, trial: Trial, number: int) -> Figure:
    """The figure of one trial of nws_sweep."""
    found = trial.measurement
    valid = found if trial.objective_s is not None else None
    batch = valid.batch_s if valid else None
    names = ("startup_s", "wait_s", "step_s", "cpu_s", "bias_bound")
    return Figure(
        workload=workload.name,
        workers=trial.num_workers,
        round=number,
        kind=NWS_SWEEP,
        batch_s=batch.value if batch else None,
        epoch_s=valid.epoch_s if valid else None,
        half_width=units.uncertainty(batch) if batch else None,
        detail={
            "state": trial.state.value,
            "reason": trial.reason,
            "notes": list(trial.notes),
            **{name: getattr(found, name, None) for name in names},
            "windows": [[b.kind.value, b.batches, b.elapsed_s, b.startup_s, b.produced] for b in trial.windows],
            "cost_s": trial.cost_s,
        },
    )
