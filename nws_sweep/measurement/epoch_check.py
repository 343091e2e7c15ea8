"""Counts the samples of whole epochs after a search of an iterable dataset: ``check_samples=true``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from nws_sweep.errors import TrialError
from nws_sweep.measurement.environment import ProcessFactory
from nws_sweep.measurement.sample_check import HOW_TO_SHARD
from nws_sweep.results import LoaderSettings, SampleCheck, SamplesSeen, SearchCost, SearchRecord, TrialState, Verdict

_MAX_SAMPLES = 50_000
_DEFAULT_WORKERS = 2  # where no workers are recommended


def with_epoch_check(result: SearchRecord, start_process: ProcessFactory) -> SearchRecord:
    """The result with its samples counted: an epoch without workers and one with, up to 50,000 samples each.

    If samples are repeated or lost, all candidates with workers are failed. A map-style dataset is not checked.
    """
    if result.facts is None or not result.facts.iterable or result.verdict is None:
        return result
    began = time.perf_counter()
    best = result.verdict.recommended
    several = best if best.num_workers else replace(result.configuration.loader, num_workers=_DEFAULT_WORKERS)
    seen = []
    try:
        for settings in (replace(several, num_workers=0).canonical(), several):
            with start_process(result.configuration, None) as process:
                seen.append(process.samples(settings, _MAX_SAMPLES))
    except TrialError as error:
        return replace(result, sample_check=SampleCheck(num_workers=several.num_workers, error=str(error)))
    check = compare_epochs(seen[0], seen[1], several)
    took = SearchCost(samples_s=time.perf_counter() - began)
    cost, cost_s = took.plus(result.cost or SearchCost()), result.cost_s + took.samples_s
    result = replace(result, sample_check=check, cost=cost, cost_s=cost_s)
    surplus, reason = _surplus(check), next(warnings(check), "")
    if surplus > 0 or check.repeated:
        reason = f"{reason}: {HOW_TO_SHARD}"
    elif surplus == 0 or several.drop_last:  # each worker may drop a shorter batch
        return result
    trials = tuple(
        replace(trial, state=TrialState.WRONG_SAMPLES, reason=reason, measurement=None) if trial.num_workers else trial
        for trial in result.trials
    )
    left = next((trial.settings for trial in trials if trial.objective_s is not None), None)
    verdict = None if left is None else Verdict(recommended=left, fastest=left)
    return replace(result, trials=trials, verdict=verdict)


def compare_epochs(alone: SamplesSeen, shared: SamplesSeen, settings: LoaderSettings) -> SampleCheck:
    """Compares an epoch without workers and one with the workers of ``settings``."""
    num_workers = settings.num_workers
    # Workers of a dataset that makes batches itself end with shorter batches: a few more are no error.
    more = len(shared.digests) - len(alone.digests)
    parts = more if settings.batch_size is None and 0 < more <= num_workers else 0
    whole = alone.complete and shared.complete
    earlier, later = (
        sum(counts.values()) - len(counts)  # samples that are equal to an earlier one
        for counts in (Counter(one for one in seen.digests if one is not None) for seen in (alone, shared))
    )
    return SampleCheck(
        num_workers=num_workers,
        samples=len(shared.digests) - parts if whole else None,
        expected=len(alone.digests) if whole else None,
        repeated=max(0, later - earlier),
        idle=num_workers - len(shared.workers) if whole else 0,
    )


def _surplus(check: SampleCheck) -> int:
    """Samples of the epoch with workers minus those of the epoch without; 0 if unknown."""
    return 0 if check.samples is None or check.expected is None else check.samples - check.expected


def warnings(check: SampleCheck) -> Iterator[str]:
    """Warnings about the counted samples; none if all are right."""
    workers = f"with num_workers={check.num_workers}"
    counted = f"{check.samples} in an epoch instead of {check.expected}"
    if check.error:
        yield f"check_samples: the samples could not be counted ({check.error})"
    if _surplus(check) > 0:
        yield f"samples are repeated {workers}: {counted}"
    elif check.repeated:
        yield f"samples are repeated {workers}: {check.repeated} of those counted"
    if _surplus(check) < 0:
        yield f"samples are lost {workers}: {counted} (drop_last drops a shorter batch of each worker)"
    if check.idle:
        yield (
            f"{check.idle} of {check.num_workers} workers get no samples: the dataset has fewer shards than workers, "
            "or does not share them among all workers"
        )
