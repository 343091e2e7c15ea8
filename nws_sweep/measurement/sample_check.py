"""Whether workers deliver the samples of loading without workers: a candidate that does not must not be recommended.

Some samples of each candidate are looked at. Of a map-style dataset they are compared by index, part by part, since
random transforms change some parts only. A part that differs is loaded again in workers, one sample at a time: if it
differs again it is random; if it is right then, workers that load at the same time disturb each other. Of an iterable
dataset the workers' streams are compared; if that is wanted, a whole epoch is counted after the search.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from nws_sweep.errors import TrialError, WrongSamples
from nws_sweep.measurement.environment import ProcessFactory, TrialProcess
from nws_sweep.results import (
    DatasetFacts,
    LoaderSettings,
    SampleCheck,
    SampleMade,
    SamplePart,
    SamplesLogged,
    SamplesSeen,
    SearchCost,
    SearchRecord,
    TrialState,
    Verdict,
)

Parts = tuple[SamplePart, ...]
Reference = Mapping[int | str, Parts]
# Has a process that holds the dataset, and is not measured, answer a question; gives None if it cannot.
Ask = Callable[[Callable[[TrialProcess], Any]], Any]

# Samples of each candidate that are loaded without workers, in this share of its time; more where something differs.
_NEW_SAMPLES, _SHARE = 2, 0.01
# Samples that are compared where some differ: more than half of them must differ, or two if open files are shared.
MOST_COMPARED = 8
_FEWEST_WITH_HANDLES = 2
# Only samples of so many workers, so that few must be started to load them again.
_MOST_WORKERS = 4
# Share of samples that another worker must have delivered too; samples of a stream at least, more for a single part.
_REPEATED = 0.1
_LEAST_STREAM, _LEAST_OF_PART = 2, 32
# Samples of an iterable dataset that are loaded without workers, to see whether samples are random.
_FIRST_SAMPLES = 4
# Where samples seem to be the same, two epochs are counted so far.
_MOST_COUNTED, _COUNT_S, _LONGER = 10_000, 5.0, 1.5
# Of the epochs that are counted if that is wanted: samples, and workers where none are recommended.
_MOST_OF_EPOCH, _TRIED = 50_000, 2

REMEDY = "open files and connections in each worker, on first use or in worker_init_fn"
HOW_TO_SHARD = (
    "the iterable dataset does not share its samples among its workers: its __iter__ must take every num_workers-th "
    "sample from number id on (torch.utils.data.get_worker_info)"
)
_UNTOLD = (
    "whether the workers share the samples of the iterable dataset cannot be seen by the first ones, which are random; "
    "check_samples=true counts those of a whole epoch"
)


class SampleWatch:
    """The samples of one search: those without workers, and what is known to be random in them."""

    def __init__(self) -> None:
        self._reference: dict[int | str, Parts] = {}
        self._varying: frozenset[int] = frozenset()
        self._comparable = False

    def check(
        self, logged: SamplesLogged, settings: LoaderSettings, facts: DatasetFacts, spent_s: float, ask: Ask
    ) -> str:
        """Compares the samples that a candidate's workers made; a warning if they cannot be compared, else empty.

        ``spent_s`` are the seconds that the candidate has taken. WrongSamples if they are others than without workers.
        """
        if logged.moved_files and settings.num_workers > 1:
            raise WrongSamples(
                f"the workers read {', '.join(logged.moved_files)} through one open file, whose position all of them "
                f"move, so that samples are wrong: {REMEDY}"
            )
        if facts.iterable:
            return self._check_streams(logged.samples, settings, ask)
        samples = candidates(logged.samples)
        self._load(samples[:_NEW_SAMPLES], _SHARE * spent_s, ask)
        known = [sample for sample in samples if sample.key in self._reference][:MOST_COMPARED]
        if any(differing(sample, self._reference) - self._varying for sample in known):
            self._look_closer(samples[:MOST_COMPARED], settings, facts, ask)
        return ""

    def _load(self, samples: Sequence[SampleMade], limit_s: float | None, ask: Ask) -> None:
        """Loads those of the samples without workers that were not loaded yet."""
        keys = list(dict.fromkeys(sample.key for sample in samples if sample.key not in self._reference))
        if keys:
            loaded = ask(lambda process: process.load(keys, limit_s)) or ()
            self._reference.update({sample.key: sample.parts for sample in loaded})

    def _look_closer(
        self, samples: Sequence[SampleMade], settings: LoaderSettings, facts: DatasetFacts, ask: Ask
    ) -> None:
        self._load(samples, None, ask)
        first = [sample for sample in samples if sample.key in self._reference]
        again = ask(lambda process: process.load_one_by_one(first, settings))
        if again is None or len(again) < len(first):
            return
        # Positions of parts that differ though nothing loads beside them.
        varying = frozenset(position for sample in again for position in differing(sample, self._reference))
        wrong = sum(bool(differing(sample, self._reference) - varying) for sample in first)
        if wrong >= (_FEWEST_WITH_HANDLES if facts.handles else len(first) // 2 + 1):
            shared = f"; forked workers share {', '.join(facts.handles)}" if facts.handles else ""
            raise WrongSamples(
                f"{wrong} of {len(first)} compared samples differ from those loaded without workers{shared}: {REMEDY}"
            )
        self._varying |= varying

    def _check_streams(self, made: Sequence[SampleMade], settings: LoaderSettings, ask: Ask) -> str:
        count, looked_at = repeated(made)
        if count and self._is_longer(settings, ask):
            raise WrongSamples(
                f"{count} of the first {looked_at} samples were delivered by another worker too: {HOW_TO_SHARD}"
            )
        if settings.num_workers > 1 and not self._comparable:
            alone = ask(lambda process: process.load(range(_FIRST_SAMPLES), None)) or ()
            contents = {(part.form, part.content) for sample in made for part in sample.parts if part.content}
            # Else all of them are random.
            self._comparable = any((one.form, one.content) in contents for sample in alone for one in sample.parts)
            return "" if self._comparable else _UNTOLD
        return ""

    @staticmethod
    def _is_longer(settings: LoaderSettings, ask: Ask) -> bool:
        """Whether an epoch is longer than without workers, as far as can be seen: different samples may be equal."""
        alone = ask(
            lambda process: process.samples(replace(settings, num_workers=0).canonical(), _MOST_COUNTED, _COUNT_S)
        )
        if alone is None or not alone.complete:
            return True
        most = round(_LONGER * len(alone.digests))
        shared = ask(lambda process: process.samples(settings, most, _COUNT_S))
        return shared is None or len(shared.digests) >= most or not shared.complete


def about_handles(facts: DatasetFacts) -> str:
    """A line about open files and the like that forked workers share."""
    return f"forked workers share {', '.join(facts.handles)}: {REMEDY}"


def candidates(made: Iterable[SampleMade]) -> list[SampleMade]:
    """Those that are worth comparing, the latest of each worker first: by then all load at once."""
    of_worker: dict[int, list[SampleMade]] = {}
    for sample in made:
        if sample.worker < _MOST_WORKERS:
            of_worker.setdefault(sample.worker, []).insert(0, sample)
    return [sample for in_turn in zip_longest(*of_worker.values()) for sample in in_turn if sample is not None]


def differing(sample: SampleMade, reference: Reference) -> frozenset[int]:
    """Positions of the parts that differ from those of the sample without workers, as far as they can be compared."""
    found = set()
    for position, (mine, theirs) in enumerate(zip_longest(sample.parts, reference[sample.key])):
        is_opaque = mine and theirs and mine.form == theirs.form and None in (mine.content, theirs.content)
        if mine != theirs and not is_opaque:
            found.add(position)
    return frozenset(found)


def repeated(made: Iterable[SampleMade]) -> tuple[int, int]:
    """Of the first samples of workers' streams: how many another worker delivered too, and how many were looked at.

    0 where it cannot be said: of one worker, random samples, those that come again and again in one stream.
    """
    of_worker: dict[int, list[Parts]] = {}
    for sample in made:
        of_worker.setdefault(sample.worker, []).append(sample.parts)
    length = min(map(len, of_worker.values()), default=0)
    if len(of_worker) < 2 or length < _LEAST_STREAM:
        return 0, sum(map(len, of_worker.values()))
    streams = [stream[:length] for stream in of_worker.values()]
    # Whole samples, then each part by itself: what identifies it in each worker's stream.
    counts = [_repeated([[tuple((one.form, one.content) for one in parts) for parts in stream] for stream in streams])]
    positions = min(len(parts) for stream in streams for parts in stream) if length >= _LEAST_OF_PART else 0
    for position in range(positions):
        counts.append(_repeated([[parts[position].content for parts in stream] for stream in streams]))
    return max(counts), length * len(streams)


def _repeated(streams: Sequence[Sequence[Hashable]]) -> int:
    distinct = [set(stream) for stream in streams]
    total, alike = sum(map(len, streams)), sum(map(len, distinct))
    across = alike - len(set().union(*distinct))
    return across if across > _REPEATED * total and across > 2 * (total - alike) else 0


def checked(result: SearchRecord, start_process: ProcessFactory) -> SearchRecord:
    """The result with a check of its samples, of an iterable dataset: two epochs as far as 50,000 samples go.

    If samples come twice or are lost, all candidates that have workers are failed.
    """
    if result.facts is None or not result.facts.iterable or result.verdict is None:
        return result
    began = time.perf_counter()
    best = result.verdict.recommended
    several = best if best.num_workers else replace(result.configuration.loader, num_workers=_TRIED)
    seen = []
    try:
        for settings in (replace(several, num_workers=0).canonical(), several):
            with start_process(result.configuration, None) as process:
                seen.append(process.samples(settings, _MOST_OF_EPOCH))
    except TrialError as error:
        return replace(result, sample_check=SampleCheck(num_workers=several.num_workers, error=str(error)))
    check = judged(seen[0], seen[1], several)
    took = SearchCost(samples_s=time.perf_counter() - began)
    cost, cost_s = took.plus(result.cost or SearchCost()), result.cost_s + took.samples_s
    result = replace(result, sample_check=check, cost=cost, cost_s=cost_s)
    surplus, reason = _surplus(check), next(remarks(check), "")
    if surplus > 0 or check.repeated:
        reason = f"{reason}: {HOW_TO_SHARD}"
    elif surplus == 0 or several.drop_last:  # each worker may leave out a shorter batch
        return result
    trials = tuple(
        replace(trial, state=TrialState.WRONG_SAMPLES, reason=reason, measurement=None) if trial.num_workers else trial
        for trial in result.trials
    )
    left = next((trial.settings for trial in trials if trial.objective_s is not None), None)
    verdict = None if left is None else Verdict(recommended=left, fastest=left)
    return replace(result, trials=trials, verdict=verdict)


def judged(alone: SamplesSeen, shared: SamplesSeen, settings: LoaderSettings) -> SampleCheck:
    """What an epoch without workers and one with workers, of these settings, say of each other."""
    num_workers = settings.num_workers
    # Workers of a dataset that makes the batches itself end with shorter ones: a few more are no fault.
    more = len(shared.digests) - len(alone.digests)
    parts = more if settings.batch_size is None and 0 < more <= num_workers else 0
    whole = alone.complete and shared.complete
    earlier, later = (
        sum(counts.values()) - len(counts)  # samples that had come before
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
    """Samples of the epoch with workers beyond those of the one without, less than 0 if it has fewer; 0 if unknown."""
    return 0 if check.samples is None or check.expected is None else check.samples - check.expected


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
