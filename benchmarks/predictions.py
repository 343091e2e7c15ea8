"""Predicts whole epochs from records of at most 2 s, and times the same epochs by bare
loops, for each workload."""

import itertools
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks import bare, child, support, sweep_search
from benchmarks.catalogue import PREDICTED_WORKLOADS, Workload, chosen
from benchmarks.journal import Forecast, Journal
from benchmarks.predictions_results import results_of, verdicts
from benchmarks.support import print_line
from nws_sweep.model.model import model_of
from nws_sweep.model.queue import QueueSettings, replay
from nws_sweep.records import BatchCost, LoopCosts, MeasureRules, SearchRules, Trial
from nws_sweep.system import host, host_lock, processes

# num_workers, in the order in which their trials are used
_RECORDED, _MOST_RECORDED_S = (2, 8, 0), 2.0
_RECORDING = MeasureRules(window_s=0.12, windows=3, trial_limit_s=0.5, precision=1.0)
_WORKERS, _PREFETCH_FACTORS = (0, 1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8)
_MOST_QUEUED_BYTES = 4e9  # of epochs that are timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the command line."""

    repeats: int  # at least 1
    only: tuple[str, ...]  # names of workloads; empty for all
    settings: int  # of each workload in each repeat, at least 1
    output: Path  # the folder of the results
    journal: Path  # raw figures
    least_s: float  # shorter epochs are repeated until they last this long together
    resume: bool  # keep the figures of the journal
    command: str  # the command line


def run(options: Options) -> None:
    """Measures missing figures and writes the results; errors are those of ``Journal`` and
    ``child.call``."""
    made_with = {
        "benchmark": "predictions", "settings": options.settings, "least_s": options.least_s,
        "threads": os.environ.get("OMP_NUM_THREADS"), "host": asdict(host.describe()),
    }  # fmt: skip
    journal = Journal(options.journal, made_with, resume=options.resume)
    support.start_fork_server()
    workloads = chosen(PREDICTED_WORKLOADS, options.only)
    for repeat, workload in itertools.product(range(1, options.repeats + 1), workloads):
        if not any(
            (f.workload, f.repeat) == (workload.name, repeat)
            for f in journal.of(Forecast)
        ):
            with host_lock.held(support.LOCK_FILE, print_line):
                journal.add(*_forecasts(workload, repeat, options))
    names = {workload.name for workload in workloads}
    forecasts = [
        f
        for f in journal.of(Forecast)
        if f.workload in names and f.repeat <= options.repeats
    ]
    origin, replayed_s = (
        support.origin(options.command, options.repeats, "repeat"),
        replay_time_s(),
    )
    results_of(forecasts, workloads, replayed_s).write(options.output, origin)
    for line in (*verdicts(forecasts, replayed_s), f"written to {options.output}"):
        print_line(line)


def _forecasts(workload: Workload, repeat: int, options: Options) -> list[Forecast]:
    """Records a workload, predicts, and measures; RuntimeError if nothing was
    recorded."""
    rules = SearchRules(strategy="exhaustive", candidates=tuple(sorted(_RECORDED)))
    configuration = replace(
        sweep_search.configuration_of(workload, rules, repeat), measure=_RECORDING
    )
    log_path = options.journal.with_name(f"predictions-{workload.name}.log")
    trials = sweep_search.find(
        replace(configuration, check_samples=False), log_path, lambda _: None
    ).trials
    used, recorded_s = recorded(trials)
    model = model_of(
        used, workload.batches, host.usable_cores(), processes.start_method()
    )
    if model is None:
        raise RuntimeError(
            f"{workload.name}: nothing was recorded: {[trial.reason for trial in trials]}"
        )
    batch_bytes = max(
        window.batch_bytes or 0 for trial in used for window in trial.windows
    )

    def fits(settings: QueueSettings) -> bool:
        queued = min(workload.batches, settings.num_workers * settings.prefetch_factor)
        return (
            settings.num_workers >= workload.least_workers
            and queued * batch_bytes <= _MOST_QUEUED_BYTES
        )

    def measured_s(settings: QueueSettings) -> float:
        workers, prefetch, in_order = (
            settings.num_workers,
            settings.prefetch_factor,
            settings.in_order,
        )
        recipe = bare.Recipe(
            workload=workload,
            num_workers=workers,
            prefetch_factor=prefetch,
            in_order=in_order,
            least_s=options.least_s,
        )
        return child.call(bare.measure_epoch, recipe)[0]

    def forecast(settings: QueueSettings) -> Forecast:
        predicted = model.predict(settings).epoch_s
        forecast = Forecast(
            workload=workload.name, repeat=repeat, workers=settings.num_workers,
            prefetch_factor=settings.prefetch_factor, in_order=settings.in_order, predicted_s=predicted.value,
            interval_s=predicted.ends, measured_s=measured_s(settings), recorded_s=recorded_s,
        )  # fmt: skip
        print_line(f"repeat {repeat}/{options.repeats} {forecast.line}")
        return forecast

    settings = drawn(options.settings, fits, random.Random(f"{workload.name}-{repeat}"))
    first, *others = map(forecast, settings)
    return [replace(first, again_s=measured_s(settings[0])), *others]


def recorded(trials: Sequence[Trial]) -> tuple[list[Trial], float]:
    """The trials whose windows last at most ``_MOST_RECORDED_S`` together, or a part of
    the first; and the sum, s."""
    first, *others = sorted(
        trials, key=lambda trial: _RECORDED.index(trial.num_workers)
    )
    used, sum_s = [first], _windows_s(first)
    if sum_s > _MOST_RECORDED_S:
        end_s = (
            min((record.began_s for record in first.records), default=0.0)
            + _MOST_RECORDED_S
        )
        early = tuple(record for record in first.records if record.ended_s <= end_s)
        return [replace(first, records=early or first.records[:1])], _MOST_RECORDED_S
    for trial in others:
        if sum_s + _windows_s(trial) <= _MOST_RECORDED_S:
            used, sum_s = [*used, trial], sum_s + _windows_s(trial)
    return used, sum_s


def _windows_s(trial: Trial) -> float:
    return sum(window.elapsed_s for window in trial.windows)


def drawn(
    count: int, fits: Callable[[QueueSettings], bool], draw: random.Random
) -> list[QueueSettings]:
    """At most ``count`` settings at random: each num_workers once before one is used
    again."""
    ranked = []
    for workers in _WORKERS:
        others = (
            list(itertools.product(_PREFETCH_FACTORS, (True, False)))
            if workers
            else [(2, True)]
        )
        for place, (prefetch, in_order) in enumerate(draw.sample(others, len(others))):
            settings = QueueSettings(workers, host.usable_cores(), prefetch, in_order)
            ranked.append((place, draw.random(), settings))
    ranked.sort(key=lambda setting: setting[:2])
    return list(
        itertools.islice((settings for *_, settings in ranked if fits(settings)), count)
    )


def replay_time_s() -> float:
    """Seconds for replaying 10,000 batches with 64 workers, the least of three
    times."""
    draw = random.Random(0)
    costs = [
        BatchCost(cpu_s=0.001, wait_s=0.01 * draw.lognormvariate(0.0, 1.0))
        for _ in range(10_000)
    ]
    times_s = []
    for _ in range(3):
        began = time.perf_counter()
        replay(
            costs,
            LoopCosts(receive_s=0.0005, step_s=0.001),
            QueueSettings(num_workers=64, cpus=2.0),
        )
        times_s.append(time.perf_counter() - began)
    return min(times_s)
