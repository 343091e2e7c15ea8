"""Converts the measurements of another program's runs into results for reports, plots and ``best``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from nws_sweep import units
from nws_sweep.analysis import time_ratios
from nws_sweep.analysis.summary import recommend
from nws_sweep.measurement.quantities import summarise
from nws_sweep.measurement.schedule import Conditions
from nws_sweep.results import (
    PROGRAM_STRATEGY,
    Configuration,
    LoaderSettings,
    Measurement,
    MeasureRules,
    ProgramRun,
    SearchRecord,
    SearchRules,
    TimeSlice,
    Trial,
    TrialState,
    Verdict,
    storage,
)

# For runs that made no DataLoader.
_UNKNOWN = LoaderSettings(batch_size=1)
# Half-width of a log ratio that is assumed where too few windows were taken for an interval.
_WITHOUT_INTERVAL = 0.1
# Runs beside which other programs used a larger share of the CPUs are not reliable.
_MOST_DISTURBED = 0.25


def gather(folder: Path, *, finished: bool = False) -> None:
    """Writes the result of one configuration from the files of its runs; called again as runs are added.

    The search counts as unfinished until all candidates are present, unless ``finished`` is given.
    """
    if runs := storage.read_program_runs(folder):
        storage.save(folder, record(runs, finished=finished))


def record(runs: Sequence[ProgramRun], *, finished: bool) -> SearchRecord:
    """The result of the runs of one configuration, in the order of their start; see ``gather``.

    Of several runs with the same num_workers the last counts.
    """
    latest = list({run.num_workers: run for run in runs}.values())
    host, chosen = latest[0].host, latest[0].candidates
    # The run with the most workers: settings of workers are missing without them.
    given = [run.settings for run in latest if run.settings is not None]
    typical = max(given, key=lambda settings: settings.num_workers, default=_UNKNOWN)
    facts = next((replace(run.facts, loader=typical) for run in latest if run.facts), None)
    # Candidates are ranked by epochs only if the length of an epoch is known for all.
    by_epoch = all(run.batches_per_epoch is not None for run in latest if not run.reason)
    overlap = tuple(_overlap(latest))
    trials = tuple(replace(_trial(run, typical, by_epoch=by_epoch), warnings=overlap) for run in latest)
    missing = sorted({*chosen} - {run.num_workers for run in latest})
    without = f"; no results for num_workers={','.join(map(str, missing))}" if missing else ""
    done = finished or (not missing and bool(chosen))
    candidates = tuple(sorted({*chosen, *(run.num_workers for run in latest)}))
    reference = host.usable_cpus if host.usable_cpus in candidates else None
    search = SearchRules(strategy=PROGRAM_STRATEGY, candidates=candidates, reference=reference)
    return SearchRecord(
        configuration=Configuration(
            columns={"dataset": facts.type.rpartition(".")[2] if facts else "unknown", **latest[0].columns},
            dataset={"_target_": facts.type if facts else ""},
            training_step={"_target_": latest[0].program},
            loader=replace(typical, num_workers=0),
            measure=MeasureRules(),
            search=search,
        ),
        host=host,
        facts=facts,
        trials=trials,
        stop_reason=f"the program ran with {units.counted(len(latest), 'candidate')}{without}" if done else "",
        started_at=latest[0].started_at,
        cost_s=sum(run.elapsed_s for run in latest),
        verdict=_verdict(trials, search.tolerance, host.usable_cpus) if done else None,
    )


def _verdict(trials: Sequence[Trial], tolerance: float, cpus: int) -> Verdict | None:
    """The recommended, the fastest and the tied trials; None if none was measured.

    A trial is tied if, within the interval of the ratio, it has fewer workers and is not slower than the fastest by
    more than the tolerance, or is faster than the recommended one by more than that; also if programs disturbed it.
    """
    recommended, fastest = recommend(trials, tolerance)
    if recommended is None or fastest is None:
        return None
    margin = math.log1p(tolerance)

    def is_tied(trial: Trial) -> bool:
        if trial.noise is not None and trial.noise.other_cpus > _MOST_DISTURBED * cpus:
            return True
        is_smaller = trial.num_workers < recommended.num_workers
        return _least_log_ratio(fastest, trial) <= margin and (
            is_smaller or _least_log_ratio(recommended, trial) < -margin
        )

    measured = [trial for trial in trials if trial.objective_s is not None and trial is not recommended]
    tied = tuple(trial.settings for trial in measured if is_tied(trial))
    return Verdict(recommended=recommended.settings, fastest=fastest.settings, tied=tied)


def _least_log_ratio(base: Trial, other: Trial) -> float:
    """Lower end of the interval of log(time of other / time of base)."""
    times = time_ratios.times_of(base, other)
    half_width = times.ratio.half_width if times else None
    ratio = (other.objective_s or 0.0) / (base.objective_s or 1.0)
    return math.log(ratio) - (_WITHOUT_INTERVAL if half_width is None else half_width)


def repeated_failure(folder: Path) -> str:
    """Names two candidates of one configuration that failed for the same reason.

    Empty if there are none, or if any run with workers succeeded.
    """
    configurations = [storage.read_program_runs(one) for one in storage.program_run_folders(folder)]
    if any(run.num_workers and not run.reason for runs in configurations for run in runs):
        return ""
    for runs in configurations:
        first: dict[str, int] = {}
        for run in (run for run in runs if run.reason):
            pattern = re.sub(r"\d+", "", run.reason)  # process and worker numbers differ
            before = first.setdefault(pattern, run.num_workers)
            if before != run.num_workers:
                both = f"num_workers={before} and num_workers={run.num_workers}"
                return f"{both} failed for the same reason ({run.reason})"
    return ""


def _trial(run: ProgramRun, typical: LoaderSettings, *, by_epoch: bool) -> Trial:
    """The trial of a run, with ``typical`` settings if the run made no such loader."""
    own = run.settings if run.settings is not None and run.settings.num_workers == run.num_workers else None
    trial = Trial(
        settings=own or replace(typical, num_workers=run.num_workers).canonical(),
        state=TrialState.FAILED if run.reason else TrialState.OK,
        reason=run.reason,
        measurement=_measurement(run, own, by_epoch=by_epoch) if own else None,
        noise=run.noise,
        windows=run.windows,
        cost_s=run.elapsed_s,
    )
    if trial.state is TrialState.OK and trial.objective_s is None:
        taken = sum(window.batches for window in run.windows)
        reason = (
            f"{taken} batches are too few: those of a full queue (up to {trial.settings.queued_batches}) are excluded "
            "at both ends of an epoch; increase the number of batches in the program"
        )
        return replace(trial, state=TrialState.FAILED, reason=reason, measurement=None)
    return trial


def _measurement(run: ProgramRun, settings: LoaderSettings, *, by_epoch: bool) -> Measurement | None:
    """Summarises the windows, with the mean training step time of the counted windows in the warm-up.

    The first steps of a program take longer (memory, compilation, the context of an accelerator), which is not start-up
    of the loader and would count against the candidate that runs first.
    """
    if not run.windows:
        return None
    steps_s = [step_s for window in run.windows if window.counts for step_s in window.step_s]
    windows = [
        window if window.counts or not steps_s else replace(window, step_s=(fmean(steps_s),) * window.batches)
        for window in run.windows
    ]
    conditions = Conditions(
        settings=settings,
        rules=MeasureRules(),
        batches_per_epoch=run.batches_per_epoch if by_epoch else None,
        cores=float(run.host.usable_cpus),
    )
    return summarise([TimeSlice(windows=tuple(windows))], conditions)


def _overlap(runs: Sequence[ProgramRun]) -> Iterator[str]:
    spans = sorted((run.host.hostname, datetime.fromisoformat(run.started_at), run.elapsed_s) for run in runs)
    for (host, began, elapsed_s), (other, later, _) in pairwise(spans):
        if host == other and later < began + timedelta(seconds=elapsed_s):
            yield "runs overlapped in time and disturbed each other: launch them one after another"
            return
