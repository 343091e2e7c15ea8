"""The comparison: bare loops, our search, bare loops again, workload after workload, round after round."""

from __future__ import annotations

import os
import random
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks import bare, ours, pace, stage
from benchmarks.catalogue import PREFETCH_FACTOR, WORKLOADS, Workload
from benchmarks.comparison import rows_of, verdicts
from benchmarks.figures import BARE_AFTER, BARE_BEFORE, Figure, Journal
from benchmarks.page import Origin, page
from benchmarks.stage import say
from nws_sweep import host, hostlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asks for.

    Attributes:
        rounds: Rounds, at least 1.
        only: Names of workloads; empty for all.
        workers: Numbers of workers.
        output: The page.
        journal: The file of raw figures.
        least_s: Length of a bare run at least, s.
        quick: Shorter epochs.
        resume: Keep the rounds that the journal has.
        arguments: The command line.
    """

    rounds: int
    only: tuple[str, ...]
    workers: tuple[int, ...]
    output: Path
    journal: Path
    least_s: float
    quick: bool
    resume: bool
    arguments: tuple[str, ...] = ()

    @property
    def workloads(self) -> list[Workload]:
        """The chosen ones."""
        chosen = [workload for workload in WORKLOADS if not self.only or workload.name in self.only]
        return [workload.shortened() for workload in chosen] if self.quick else chosen


def run(options: Options) -> None:
    """Measures what is missing and writes the page.

    Raises:
        ValueError: If the journal to go on with was made with other settings.
        RuntimeError: If a bare loop gave no result.
    """
    machine = host.describe()
    journal = Journal(options.journal, _made_with(options, asdict(machine)), resume=options.resume)
    stage.start_fork_server()
    for number in range(1, options.rounds + 1):
        for workload in options.workloads:
            if not journal.has(workload.name, number):
                _measure(workload, number, options, journal)
    chosen = {workload.name for workload in options.workloads}
    figures = [f for f in journal.figures if f.workload in chosen and f.round <= options.rounds]
    rows = rows_of(figures)
    origin = Origin(
        host=machine,
        command=shlex.join(["scripts/benchmark", *options.arguments]),
        date=datetime.now().astimezone().date().isoformat(),
        rounds=options.rounds,
        threads=os.environ.get("OMP_NUM_THREADS", "unset"),
    )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(rows, options.workloads, origin), "utf-8")
    for verdict in verdicts(rows):
        say(verdict)
    say(f"written to {options.output}")


def _made_with(options: Options, machine: Mapping[str, Any]) -> dict[str, Any]:
    threads = os.environ.get("OMP_NUM_THREADS")
    settings = {"workers": list(options.workers), "least_s": options.least_s, "quick": options.quick}
    return {**settings, "threads": threads, "host": dict(machine)}


def _measure(workload: Workload, number: int, options: Options, journal: Journal) -> None:
    """One round of one workload, nothing of nws_sweep beside it on this machine."""
    label = f"round {number}/{options.rounds} {workload.name}"
    with hostlock.held(stage.LOCK_FILE, "the benchmark", say):
        journal.add(_bare(workload, number, BARE_BEFORE, options))
        log_path = options.journal.with_name(f"{workload.name}.log")
        found = ours.measure(workload, options.workers, number, log_path, lambda line: say(f"{label} ours: {line}"))
        journal.add(found)
        journal.add(_bare(workload, number, BARE_AFTER, options))


def _bare(workload: Workload, number: int, kind: str, options: Options) -> list[Figure]:
    order = random.Random(f"{workload.name}-{number}-{kind}").sample(options.workers, len(options.workers))
    figures = [_bare_figure(workload, number, kind, workers, options.least_s) for workers in order]
    told = ", ".join(f"{f.workers}: {1000 * (f.batch_s or 0):.2f}" for f in sorted(figures, key=lambda f: f.workers))
    say(f"round {number}/{options.rounds} {workload.name} {kind} (ms a batch) {told}")
    return figures


def _bare_figure(workload: Workload, number: int, kind: str, workers: int, least_s: float) -> Figure:
    recipe = bare.Recipe(
        dataset=workload.dataset,
        consumer=workload.consumer,
        batch_size=workload.batch_size,
        num_workers=workers,
        prefetch_factor=PREFETCH_FACTOR,
        least_s=least_s,
    )
    epochs = bare.measure(recipe)
    counted = pace.counting(epochs)
    detail: dict[str, list[Any]] = {
        "epoch_s": [epoch.epoch_s for epoch in epochs],
        "first_s": [epoch.consumed_s[0] for epoch in epochs],
        "batch_s": [pace.steady_batch_s([epoch], workers, recipe.queue) for epoch in epochs],
        "ends_s": [pace.ends_s(epoch, workers, recipe.queue) for epoch in epochs],
    }
    return Figure(
        workload=workload.name,
        workers=workers,
        round=number,
        kind=kind,
        batch_s=pace.steady_batch_s(counted, workers, recipe.queue),
        epoch_s=pace.mean_epoch_s(counted),
        detail=detail,
    )
