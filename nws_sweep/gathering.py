"""Makes results of what runs of another program told, so that reports, plots and ``best`` know nothing of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from nws_sweep import contrast, storage, units
from nws_sweep.analysis import recommend
from nws_sweep.quantities import summarise
from nws_sweep.records import (
    HOSTED,
    Burst,
    Configuration,
    HostedRun,
    LoaderSettings,
    Measurement,
    MeasureRules,
    SearchRecord,
    SearchRules,
    Trial,
    TrialState,
    Turn,
    Verdict,
)
from nws_sweep.trial import Conditions

# Of whoever has no DataLoader; it stands for nothing but its num_workers.
_UNKNOWN = LoaderSettings(batch_size=1)
# Half the width of an interval, on the log scale, where too few windows were taken for one.
_WITHOUT_INTERVAL = 0.1
# A run beside which other programs used a larger share of the CPUs does not show how fast it is.
_MOST_DISTURBED = 0.25


def gather_all(folder: Path, *, finished: bool = False) -> None:
    """Writes the result of every configuration of a program's sweep; see ``gather``."""
    for configuration in storage.hosted_folders(folder):
        gather(configuration, finished=finished)


def gather(folder: Path, *, finished: bool = False) -> None:
    """Writes the result of one configuration from the files of its runs; may be called again when there are more.

    Args:
        folder: Of the configuration.
        finished: Whether there will be none; else the result says that the search goes on until all candidates are
            there.
    """
    if runs := storage.read_hosted(folder):
        storage.save(folder, record(runs, finished=finished))


def record(runs: Sequence[HostedRun], *, finished: bool) -> SearchRecord:
    """The result of the runs of one configuration.

    Args:
        runs: In the order in which they started, at least one; of several with the same number the last counts.
        finished: Whether there will be no more.
    """
    latest = list({run.num_workers: run for run in runs}.values())
    # Candidates are ranked by an epoch where its length is known: then it must be known of all.
    by_epoch = all(run.batches_per_epoch is not None for run in latest if not run.reason)
    trials = tuple(_trial(run, _settings(run, latest), by_epoch=by_epoch) for run in latest)
    missing = sorted({*latest[0].candidates} - {run.num_workers for run in latest})
    done = finished or (not missing and bool(latest[0].candidates))
    configuration = _configuration(latest)
    return SearchRecord(
        configuration=configuration,
        host=latest[0].host,
        facts=next((replace(run.facts, loader=_typical(latest)) for run in latest if run.facts), None),
        trials=tuple(replace(trial, warnings=tuple(_warnings(latest))) for trial in trials),
        stop_reason=_stop_reason(len(latest), missing) if done else "",
        started_at=latest[0].started_at,
        cost_s=sum(run.elapsed_s for run in latest),
        verdict=_verdict(trials, configuration.search.tolerance, latest[0].host.usable_cpus) if done else None,
    )


def _verdict(trials: Sequence[Trial], tolerance: float, cpus: int) -> Verdict | None:
    """Which trial is the best, and which others may be; None if none was measured.

    A trial may be the best if, within the interval of the ratio, it is one with fewer workers that is not slower than
    the fastest by more than the tolerance, or one that is faster than the recommended one by more than that; and
    if other programs disturbed it.
    """
    recommended, fastest = recommend(trials, tolerance)
    if recommended is None or fastest is None:
        return None
    margin = math.log1p(tolerance)
    tied = [
        trial
        for trial in trials
        if trial is not recommended and trial.objective_s is not None
        if _is_disturbed(trial, cpus)
        or (
            _least_log_ratio(fastest, trial) <= margin
            and (trial.num_workers < recommended.num_workers or _least_log_ratio(recommended, trial) < -margin)
        )
    ]
    return Verdict(
        recommended=recommended.settings, fastest=fastest.settings, tied=tuple(trial.settings for trial in tied)
    )


def _is_disturbed(trial: Trial, cpus: int) -> bool:
    return trial.noise is not None and trial.noise.other_cpus > _MOST_DISTURBED * cpus


def _least_log_ratio(base: Trial, other: Trial) -> float:
    """The lower end of the interval of log(time of the other / time of the base)."""
    times = contrast.times_of(base, other)
    half_width = times.ratio.half_width if times else None
    ratio = (other.objective_s or 0.0) / (base.objective_s or 1.0)
    return math.log(ratio) - (_WITHOUT_INTERVAL if half_width is None else half_width)


def repeated_failure(folder: Path) -> str:
    """Which two candidates of a program's sweep failed for the same reason, in words; empty if none did.

    Nor if any run with workers went well: then the reason is that of these two.

    Args:
        folder: Of the sweep's results.
    """
    configurations = [storage.read_hosted(one) for one in storage.hosted_folders(folder)]
    if any(run.num_workers and not run.reason for runs in configurations for run in runs):
        return ""
    return next(filter(None, map(_alike, configurations)), "")


def _alike(runs: Sequence[HostedRun]) -> str:
    first: dict[str, HostedRun] = {}
    for run in runs:
        before = first.setdefault(re.sub(r"\d+", "", run.reason), run)  # without numbers of processes and workers
        if run.reason and before.num_workers != run.num_workers:
            return (
                f"num_workers={before.num_workers} and num_workers={run.num_workers} failed for the same reason "
                f"({run.reason})"
            )
    return ""


def _stop_reason(count: int, missing: Sequence[int]) -> str:
    without = f"; num_workers={','.join(map(str, missing))} left nothing behind" if missing else ""
    return f"the program ran with {units.counted(count, 'candidate')}{without}"


def _configuration(runs: Sequence[HostedRun]) -> Configuration:
    """What the runs have in common."""
    facts = next((run.facts for run in runs if run.facts), None)
    candidates = tuple(sorted({*runs[0].candidates, *(run.num_workers for run in runs)}))
    usable = runs[0].host.usable_cpus
    return Configuration(
        columns={"dataset": facts.type.rpartition(".")[2] if facts else "unknown", **runs[0].columns},
        dataset={"_target_": facts.type if facts else ""},
        consumer={"_target_": runs[0].program},
        loader=replace(_typical(runs), num_workers=0),
        measure=MeasureRules(cache="as_is"),
        search=SearchRules(strategy=HOSTED, candidates=candidates, reference=usable if usable in candidates else None),
    )


def _settings(run: HostedRun, runs: Sequence[HostedRun]) -> LoaderSettings:
    """Its own; of a run that came to no such loader those of the others."""
    if run.settings is not None and run.settings.num_workers == run.num_workers:
        return run.settings
    return replace(_typical(runs), num_workers=run.num_workers).canonical()


def _typical(runs: Sequence[HostedRun]) -> LoaderSettings:
    """Those with the most workers: a loader without any does not know what workers are given."""
    known = [run.settings for run in runs if run.settings is not None]
    return max(known, key=lambda settings: settings.num_workers, default=_UNKNOWN)


def _trial(run: HostedRun, settings: LoaderSettings, *, by_epoch: bool) -> Trial:
    measurement = _measurement(run, settings, by_epoch=by_epoch) if run.settings == settings else None
    trial = Trial(
        settings=settings,
        state=TrialState.FAILED if run.reason else TrialState.OK,
        reason=run.reason,
        measurement=measurement,
        noise=run.noise,
        bursts=run.bursts,
        cost_s=run.elapsed_s,
    )
    if trial.state is TrialState.OK and trial.objective_s is None:
        return replace(trial, state=TrialState.FAILED, reason=_too_few(run, settings), measurement=None)
    return trial


def _measurement(run: HostedRun, settings: LoaderSettings, *, by_epoch: bool) -> Measurement | None:
    conditions = Conditions(
        settings=settings,
        rules=MeasureRules(),
        batches_per_epoch=run.batches_per_epoch if by_epoch else None,
        cores=float(run.host.usable_cpus),
    )
    return summarise([Turn(bursts=_without_slow_start(run.bursts))], conditions) if run.bursts else None


def _without_slow_start(bursts: Sequence[Burst]) -> tuple[Burst, ...]:
    """The bursts, with training steps in the warm-up that take as long as those of the windows on average.

    The first steps of a program take longer (memory, compilation, an accelerator's context), which is no start-up of
    the loader and would count against the candidate that runs first.
    """
    steps_s = [step_s for burst in bursts if burst.counts for step_s in burst.consume_s]
    if not steps_s:
        return tuple(bursts)
    usual_s = sum(steps_s) / len(steps_s)
    return tuple(
        burst if burst.counts else replace(burst, consume_s=(usual_s,) * len(burst.consume_s)) for burst in bursts
    )


def _too_few(run: HostedRun, settings: LoaderSettings) -> str:
    taken = sum(burst.batches for burst in run.bursts)
    return (
        f"{taken} batches are too few: as many as lie in the queue, up to {settings.queued_batches}, do not count at "
        "both ends of an epoch; let the program take more"
    )


def _warnings(runs: Sequence[HostedRun]) -> Iterator[str]:
    """A line if runs on one machine were at work at the same time."""
    spans = sorted((run.host.hostname, datetime.fromisoformat(run.started_at), run.elapsed_s) for run in runs)
    for (host, began, elapsed_s), (other, later, _) in pairwise(spans):
        if host == other and later < began + timedelta(seconds=elapsed_s):
            yield "runs were at work at the same time and disturbed each other: launch them one after the other"
            return
