"""Predicts whole epochs from records of at most 2 s, and times the same epochs by bare loops, for each workload."""

from __future__ import annotations

import itertools
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks import bare, child, support, sweep_search
from benchmarks.catalogue import PREDICTED_WORKLOADS, Workload, chosen
from benchmarks.journal import Forecast, Journal
from benchmarks.predictions_page import page, verdicts
from benchmarks.support import print_line
from nws_sweep.replay.model import Model, model_of
from nws_sweep.replay.queue import QueueSettings, replay
from nws_sweep.results import BatchCost, LoopCosts, MeasureRules, SearchRules, Trial
from nws_sweep.system import host, host_lock

MOST_RECORDED_S = 2.0
# Trials in the order in which they are used, as long as their windows last ``MOST_RECORDED_S`` together.
RECORDED = (2, 8, 0)
_RECORDING = MeasureRules(window_s=0.15, windows=1, max_seconds=0.15, precision=1.0)
_WORKERS, _PREFETCH_FACTORS = (0, 1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8)
# Epochs that are not timed: predicted to be longer, or with more bytes in the queue.
_LONGEST_S, _MOST_QUEUED_BYTES = 12.0, 4e9
_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the command line."""

    repeats: int  # at least 1
    only: tuple[str, ...]  # names of workloads; empty for all
    settings: int  # of each workload in each repeat, at least 1
    output: Path  # the page
    journal: Path  # raw figures
    least_s: float  # shorter epochs are repeated until they last so long together
    resume: bool  # keep the figures of the journal
    command: str  # the command line


def run(options: Options) -> None:
    """Measures missing figures and writes the page; errors are those of ``Journal`` and ``child.call``."""
    made_with = {
        "benchmark": "predictions", "settings": options.settings, "least_s": options.least_s,
        "threads": os.environ.get("OMP_NUM_THREADS"), "host": asdict(host.describe()),
    }  # fmt: skip
    journal = Journal(options.journal, made_with, resume=options.resume)
    support.start_fork_server()
    workloads = chosen(PREDICTED_WORKLOADS, options.only)
    for repeat, workload in itertools.product(range(1, options.repeats + 1), workloads):
        if not any((f.workload, f.repeat) == (workload.name, repeat) for f in journal.of(Forecast)):
            with host_lock.held(support.LOCK_FILE, "the benchmark", print_line):
                journal.add(*_forecasts(workload, repeat, options))
    names = {workload.name for workload in workloads}
    found = [f for f in journal.of(Forecast) if f.workload in names and f.repeat <= options.repeats]
    origin = support.origin(options.command, options.repeats, "repeat")
    replayed_s = replay_time_s()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(found, workloads, origin, replayed_s), "utf-8")
    for line in verdicts(found, replayed_s):
        print_line(line)
    print_line(f"written to {options.output}")


def _forecasts(workload: Workload, repeat: int, options: Options) -> list[Forecast]:
    """Records a workload, predicts, and measures; RuntimeError if nothing was recorded."""
    label = f"repeat {repeat}/{options.repeats} {workload.name}"
    rules = SearchRules(strategy="exhaustive", candidates=tuple(sorted(RECORDED)))
    configuration = sweep_search.configuration_of(workload, rules, repeat)
    log_path = options.journal.with_name(f"predictions-{workload.name}.log")
    result = sweep_search.find(
        replace(configuration, measure=_RECORDING, check_samples=False), log_path, lambda _: None
    )
    trials = recorded(result.trials)
    model = model_of(trials, workload.batches, host.usable_cores())
    if model is None:
        raise RuntimeError(f"{workload.name}: nothing was recorded: {[trial.reason for trial in result.trials]}")
    batch_bytes = max(window.batch_bytes or 0 for trial in trials for window in trial.windows)

    def fits(settings: QueueSettings) -> bool:
        queued = min(workload.batches, settings.num_workers * settings.prefetch_factor)
        return queued * batch_bytes <= _MOST_QUEUED_BYTES and model.epoch_s(settings) <= _LONGEST_S

    draw = random.Random(f"{workload.name}-{repeat}")
    found = []
    for settings in drawn(options.settings, host.usable_cores(), fits, draw):
        found.append(_forecast(workload, repeat, settings, model, trials, options.least_s))
        print_line(f"{label}: {found[-1].about}")
    return found


def recorded(trials: Sequence[Trial]) -> list[Trial]:
    """The trials of ``RECORDED`` whose windows last at most ``MOST_RECORDED_S`` together; at least the first."""
    taken: list[Trial] = []
    for trial in sorted(trials, key=lambda trial: RECORDED.index(trial.num_workers)):
        if not taken or windows_s([*taken, trial]) <= MOST_RECORDED_S:
            taken.append(trial)
    return taken


def windows_s(trials: Sequence[Trial]) -> float:
    """Sum of the windows of all trials, s."""
    return sum(window.elapsed_s for trial in trials for window in trial.windows)


def drawn(count: int, cpus: float, fits: Callable[[QueueSettings], bool], draw: random.Random) -> list[QueueSettings]:
    """At most ``count`` settings at random: each number of workers once before one is used again."""
    ranked = []
    for workers in _WORKERS:
        others = list(itertools.product(_PREFETCH_FACTORS, (True, False))) if workers else [(2, True)]
        for place, (prefetch, in_order) in enumerate(draw.sample(others, len(others))):
            settings = QueueSettings(num_workers=workers, cpus=cpus, prefetch_factor=prefetch, in_order=in_order)
            ranked.append((place, draw.random(), settings))
    return list(itertools.islice((one for *_, one in sorted(ranked, key=lambda each: each[:2]) if fits(one)), count))


def _forecast(
    workload: Workload, repeat: int, settings: QueueSettings, model: Model, trials: Sequence[Trial], least_s: float
) -> Forecast:
    predicted = model.predict(settings).epoch_s
    recipe = bare.Recipe(
        workload=workload, num_workers=settings.num_workers, prefetch_factor=settings.prefetch_factor,
        in_order=settings.in_order, least_s=least_s,
    )  # fmt: skip
    measured_s, _ = child.call(bare.measure_epoch, recipe, _TIMEOUT_S)
    low_s, high_s = predicted.ends
    return Forecast(
        workload=workload.name, repeat=repeat, workers=settings.num_workers, prefetch_factor=settings.prefetch_factor,
        in_order=settings.in_order, predicted_s=predicted.value, low_s=low_s, high_s=high_s, measured_s=measured_s,
        recorded_s=windows_s(trials), recorded_workers=tuple(trial.num_workers for trial in trials),
    )  # fmt: skip


def replay_time_s(batches: int = 10_000, workers: int = 64) -> float:
    """Seconds for replaying an epoch of log-normal waits, the median of three."""
    draw = random.Random(0)
    costs = [BatchCost(cpu_s=0.001, wait_s=0.01 * draw.lognormvariate(0.0, 1.0)) for _ in range(batches)]
    settings = QueueSettings(num_workers=workers, cpus=2.0)
    times_s = []
    for _ in range(3):
        began = time.perf_counter()
        replay(costs, LoopCosts(receive_s=0.0005, consumer_s=0.001), settings)
        times_s.append(time.perf_counter() - began)
    return statistics.median(times_s)
