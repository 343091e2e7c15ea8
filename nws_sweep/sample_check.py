"""Whether an iterable dataset shares its samples among its workers: none twice, none idle, none lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from nws_sweep.errors import TrialError
from nws_sweep.records import LoaderSettings, SampleCheck, SamplesSeen, SearchCost, SearchRecord, TrialState, Verdict
from nws_sweep.sample_watch import HOW_TO_SHARD
from nws_sweep.surroundings import ArmFactory

_MOST_SAMPLES = 50_000
_TRIED = 2  # workers, where none are recommended


def checked(result: SearchRecord, open_arm: ArmFactory) -> SearchRecord:
    """The result with a check of its samples, where there is something to check: an iterable dataset.

    Takes an epoch without workers and one with the recommended number, ``_MOST_SAMPLES`` samples at most.

    Args:
        result: A search that has come to its end.
        open_arm: Starts the arms.
    """
    if result.facts is None or not result.facts.iterable or result.verdict is None:
        return result
    began = time.perf_counter()
    best = result.verdict.recommended
    several = best if best.num_workers else replace(result.configuration.loader, num_workers=_TRIED)
    try:
        alone = _seen(result, replace(several, num_workers=0).canonical(), open_arm)
        shared = _seen(result, several, open_arm)
    except TrialError as error:
        return replace(result, sample_check=SampleCheck(num_workers=several.num_workers, error=str(error)))
    check = judged(alone, shared, several)
    took = SearchCost(samples_s=time.perf_counter() - began)
    cost, cost_s = took.plus(result.cost or SearchCost()), result.cost_s + took.samples_s
    result = replace(result, sample_check=check, cost=cost, cost_s=cost_s)
    reason = fault(check, drop_last=several.drop_last)
    if not reason:
        return result
    trials = tuple(
        replace(trial, state=TrialState.WRONG_SAMPLES, reason=reason, measurement=None) if trial.num_workers else trial
        for trial in result.trials
    )
    left = next((trial.settings for trial in trials if trial.objective_s is not None), None)
    verdict = None if left is None else Verdict(recommended=left, fastest=left)
    return replace(result, trials=trials, verdict=verdict)


def fault(check: SampleCheck, *, drop_last: bool) -> str:
    """Why the candidates with workers are wrong; empty if they are not.

    Args:
        check: What two epochs said.
        drop_last: Whether each worker leaves out a last batch that is shorter.
    """
    if _surplus(check) > 0 or check.repeated:
        return f"{next(remarks(check))}: {HOW_TO_SHARD}"
    return next(remarks(check)) if _surplus(check) < 0 and not drop_last else ""


def _surplus(check: SampleCheck) -> int:
    """Samples of the epoch with workers beyond those of the one without, less than 0 if it has fewer; 0 if unknown."""
    return 0 if check.samples is None or check.expected is None else check.samples - check.expected


def _seen(result: SearchRecord, settings: LoaderSettings, open_arm: ArmFactory) -> SamplesSeen:
    with open_arm(result.configuration, None) as arm:
        return arm.samples(settings, _MOST_SAMPLES)


def judged(alone: SamplesSeen, shared: SamplesSeen, settings: LoaderSettings) -> SampleCheck:
    """What two epochs say of each other.

    Args:
        alone: Without workers.
        shared: With workers.
        settings: Those of the latter.
    """
    num_workers = settings.num_workers
    # Workers of a dataset that makes the batches itself end with shorter ones: a few more are no fault.
    more = len(shared.digests) - len(alone.digests)
    parts = more if settings.batch_size is None and 0 < more <= num_workers else 0
    whole = alone.complete and shared.complete
    return SampleCheck(
        num_workers=num_workers,
        samples=len(shared.digests) - parts if whole else None,
        expected=len(alone.digests) if whole else None,
        repeated=max(0, _repeated(shared) - _repeated(alone)),
        idle=num_workers - len(shared.workers) if whole else 0,
    )


def _repeated(seen: SamplesSeen) -> int:
    """Samples that had come before."""
    counts = Counter(digest for digest in seen.digests if digest is not None)
    return sum(counts.values()) - len(counts)


def remarks(check: SampleCheck) -> Iterator[str]:
    """What to tell about it; nothing if all is well."""
    workers = f"with num_workers={check.num_workers}"
    counted = f"{check.samples} in an epoch instead of {check.expected}"
    if check.error:
        yield f"check_samples: the samples could not be counted ({check.error})"
    if _surplus(check) > 0:
        yield f"samples come more than once {workers}: {counted}"
    elif check.repeated:
        yield f"samples come more than once {workers}: {check.repeated} of those looked at had come before"
    if _surplus(check) < 0:
        yield f"samples are lost {workers}: {counted} (drop_last leaves out a shorter batch of each worker)"
    if check.idle:
        yield (
            f"{check.idle} of {check.num_workers} workers get no samples: the dataset has fewer shards than workers, "
            "or does not share them out"
        )
