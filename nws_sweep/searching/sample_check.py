"""Whether workers deliver the samples of loading without workers; a candidate with wrong samples fails.

Some samples of each candidate are compared. Samples of a map-style dataset are compared by index and part by part,
because random transforms change some parts only. A part that differs is loaded again in workers, one sample at a time:
if it differs again, it is random; if it is right, workers that load at the same time disturb each other. Of an iterable
dataset the streams of the workers are compared with each other.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import Protocol

from nws_sweep.errors import TrialError, WrongSamples
from nws_sweep.executor.environment import Environment, Observer, TrialProcess
from nws_sweep.executor.on_demand import Answer, Turns
from nws_sweep.replay import epoch_length
from nws_sweep.results import (
    DatasetFacts,
    LoaderSettings,
    SampleMade,
    SamplePart,
    SamplesLogged,
    SamplesSeen,
    SearchRecord,
)
from nws_sweep.results.dataset_facts import REMEDY, equal_draws_warning, shared_handles_warning
from nws_sweep.searching import schedule
from nws_sweep.searching.candidate import Candidate

Parts = tuple[SamplePart, ...]
Reference = Mapping[int | str, Parts]
_WORKER = attrgetter("worker")

# Samples of each candidate that are loaded without workers, and the share of the candidate's time for that.
_NEW_SAMPLES, _SHARE = 2, 0.01
# Samples that are compared where some differ: more than half of them must differ, or two if open files are shared.
MAX_COMPARED = 8
_MIN_WRONG_WITH_HANDLES = 2
_MIN_DRAWS = 3
# Only samples of the first workers are compared, so that few workers must be started to load them again.
_MAX_WORKERS = 4
# Share of samples that another worker must have delivered too; least length of a stream, also for single parts.
_REPEATED = 0.1
_MIN_STREAM, _MIN_STREAM_FOR_PARTS = 2, 32
# Where samples repeat, two epochs are compared in length: up to this many samples and seconds, and this ratio.
_MAX_COUNTED, _COUNT_S, _LONGER = 10_000, 5.0, 1.5
_MAX_EPOCH = 50_000  # samples of an epoch that are counted with check_samples=true

HOW_TO_SHARD = (
    "the iterable dataset does not share its samples among its workers: its __iter__ must take every num_workers-th "
    "sample from number id on (torch.utils.data.get_worker_info)"
)


class Search(Protocol):
    """What the check needs of a search."""

    start: SearchRecord
    environment: Environment
    candidates: list[Candidate]
    turns: Turns
    wrong_samples: str

    @property
    def facts(self) -> DatasetFacts | None: ...  # noqa: D102

    @property
    def memory_left(self) -> int | None: ...  # noqa: D102


class SampleChecker:
    """Checks the samples of each candidate of a search once."""

    def __init__(self, search: Search, observer: Observer) -> None:
        self._search = search
        self._observer = observer
        self._checks_samples = search.start.configuration.check_samples
        self._checked: set[LoaderSettings] = set()
        self._handles_reported = False
        self._epochs: dict[int, int] = {}  # batches of an epoch of an iterable dataset, by number of workers
        self._reference: dict[int | str, Parts] = {}  # samples that were loaded without workers
        self._random_parts: frozenset[int] = frozenset()
        self._epochs_compared = False

    def check(self, candidate: Candidate) -> None:
        """Fails a candidate with wrong samples; if the dataset is iterable, all candidates with workers."""
        facts, settings = candidate.process.facts, candidate.settings
        if facts is None:
            return
        if facts.handles and not self._handles_reported:
            self._handles_reported = True
            self._observer.note(shared_handles_warning(facts))
        if facts.iterable:
            self._compare_lengths(candidate)
        if candidate.logged is None or settings in self._checked or self._checks_samples is False:
            return
        self._checked.add(settings)
        try:
            if warning := self.compare(candidate.logged, settings, facts, candidate.cost_s):
                candidate.warn(warning)
        except WrongSamples as error:
            self._search.wrong_samples = str(error) if facts.iterable else ""
            self._fail([*self._search.candidates] if facts.iterable else [candidate], error)

    def _fail(self, candidates: Sequence[Candidate], error: WrongSamples) -> None:
        for candidate in candidates:
            if candidate.settings.num_workers:
                candidate.fail(error)

    def _compare_lengths(self, candidate: Candidate) -> None:
        """Warns of a stream of which each worker has a whole epoch: more workers have more batches."""
        workers, batches = candidate.settings.num_workers, schedule.epoch_batches(candidate.windows)
        if not batches:
            return
        self._epochs[workers] = batches
        fewest = min(self._epochs)
        usual = self._epochs[fewest]
        if batches > usual and (longer := epoch_length.difference(batches, workers, usual, fewest)):
            remedy = "divide the length that each worker has, such as with_epoch(), by num_workers"
            candidate.warn(f"{longer}; {remedy}")

    def ask(self, question: Callable[[TrialProcess], Answer]) -> Answer | None:
        """Asks a candidate without workers; a new process if a question would advance the candidate's stream.

        None if the process fails.
        """
        search = self._search
        is_stream = search.facts is not None and search.facts.iterable
        for candidate in search.candidates:
            if candidate.settings.num_workers == 0 and candidate.is_alive and not is_stream:
                return candidate.process.ask(question)
        try:
            start = search.environment.start_process
            with start(search.start.configuration, search.memory_left, search.turns.deadline_s) as process:
                process.on_stall = search.turns.resume_others
                return question(process)
        except TrialError:
            return None

    def compare(self, logged: SamplesLogged, settings: LoaderSettings, facts: DatasetFacts, spent_s: float) -> str:
        """Compares the samples that a candidate's workers made; a warning about them, mostly empty.

        Loading new samples takes a share of ``spent_s``, the seconds that the candidate has taken. WrongSamples if they
        differ from those without workers.
        """
        if logged.moved_files and settings.num_workers > 1:
            raise WrongSamples(
                f"the workers read {', '.join(logged.moved_files)} through one open file, whose position all of them "
                f"move, so that samples are wrong: {REMEDY}"
            )
        if facts.iterable:
            return self._check_streams(logged.samples, settings)
        samples = comparable_samples(logged.samples)
        self._load(samples[:_NEW_SAMPLES], _SHARE * spent_s)
        known = [sample for sample in samples if sample.key in self._reference][:MAX_COMPARED]
        if any(differing(sample, self._reference) - self._random_parts for sample in known):
            self._compare_one_by_one(samples[:MAX_COMPARED], settings, facts)
        repeats = not facts.generators and has_equal_draws(logged.samples, self._random_parts)
        return equal_draws_warning("equal parts in their samples") if repeats else ""

    def _load(self, samples: Sequence[SampleMade], limit_s: float | None) -> None:
        """Loads samples without workers, each once."""
        keys = list(dict.fromkeys(sample.key for sample in samples if sample.key not in self._reference))
        if keys:
            loaded = self.ask(lambda process: process.load(keys, limit_s)) or ()
            self._reference.update({sample.key: sample.parts for sample in loaded})

    def _compare_one_by_one(self, samples: Sequence[SampleMade], settings: LoaderSettings, facts: DatasetFacts) -> None:
        self._load(samples, None)
        first = [sample for sample in samples if sample.key in self._reference]
        again = self.ask(lambda process: process.load_one_by_one(first, settings))
        if again is None or len(again) < len(first):
            return
        # Parts that differ although no other worker loads at the same time.
        random_parts = frozenset(position for sample in again for position in differing(sample, self._reference))
        wrong = sum(bool(differing(sample, self._reference) - random_parts) for sample in first)
        if wrong >= (_MIN_WRONG_WITH_HANDLES if facts.handles else len(first) // 2 + 1):
            shared = f"; forked workers share {', '.join(facts.handles)}" if facts.handles else ""
            raise WrongSamples(
                f"{wrong} of {len(first)} compared samples differ from those loaded without workers{shared}: {REMEDY}"
            )
        self._random_parts |= random_parts

    def _check_streams(self, made: Sequence[SampleMade], settings: LoaderSettings) -> str:
        count, compared, is_sure = repeated(made)
        if count and self._is_longer(settings, unknown=is_sure):
            raise WrongSamples(
                f"{count} of the first {compared} samples were delivered by another worker too: {HOW_TO_SHARD}"
            )
        if settings.num_workers <= 1 or self._epochs_compared or not self._checks_samples:
            return ""
        self._epochs_compared = True
        alone, shared = (self._counted(one, _MAX_EPOCH, math.inf) for one in (settings.with_workers(0), settings))
        return _compare_epochs(settings, alone, shared)

    def _counted(self, settings: LoaderSettings, most: int, limit_s: float) -> SamplesSeen | None:
        """The samples of an epoch, up to a number and within a time, s; None if the process fails."""
        return self.ask(lambda process: process.samples(settings, most, limit_s))

    def _is_longer(self, settings: LoaderSettings, *, unknown: bool) -> bool:
        """Whether an epoch has more samples than without workers; if not, the repeated samples are equal by content.

        ``unknown`` if an epoch could not be counted.
        """
        alone = self._counted(settings.with_workers(0), _MAX_COUNTED, _COUNT_S)
        if alone is None or not alone.complete:
            return unknown
        most = round(_LONGER * alone.count)
        shared = self._counted(settings, most, _COUNT_S)
        return unknown if shared is None or not (shared.complete or shared.count >= most) else shared.count >= most


def _compare_epochs(settings: LoaderSettings, alone: SamplesSeen | None, shared: SamplesSeen | None) -> str:
    """Compares the samples of an epoch without workers and of one with; WrongSamples if some are repeated or lost.

    A warning if drop_last explains what is lost, or if the epochs cannot be counted; else empty.
    """
    if not (alone and shared and alone.complete and shared.complete):
        return f"check_samples: no whole epoch of at most {_MAX_EPOCH} samples could be counted"
    found = f"with num_workers={settings.num_workers}: {shared.count} in an epoch instead of {alone.count}"
    # Workers of a dataset that makes batches itself end with shorter batches.
    if shared.count > alone.count + (settings.num_workers if settings.batch_size is None else 0):
        raise WrongSamples(f"samples are repeated {found}: {HOW_TO_SHARD}")
    if shared.count >= alone.count:
        return ""
    if not settings.drop_last:
        raise WrongSamples(f"samples are lost {found}")
    return f"samples are lost {found}: drop_last drops a shorter batch of each worker"


def has_equal_draws(made: Iterable[SampleMade], random_parts: Iterable[int]) -> bool:
    """Whether two workers have made the same sequence of a random part, of other samples.

    At least ``_MIN_DRAWS`` values, all different: equal ones by chance would have few values.
    """
    for one, other in itertools.combinations(_by_worker(made), 2):
        pairs = [pair for pair in zip(one, other, strict=False) if pair[0].key != pair[1].key]
        for position in random_parts:
            drawn = [tuple(_content(sample, position) for sample in pair) for pair in pairs]
            if len(set(drawn)) == len(drawn) >= _MIN_DRAWS and all(mine == theirs != b"" for mine, theirs in drawn):
                return True
    return False


def _by_worker(made: Iterable[SampleMade]) -> list[list[SampleMade]]:
    """The samples of each worker, in the order of making."""
    return [list(own) for _, own in itertools.groupby(sorted(made, key=_WORKER), _WORKER)]


def _content(sample: SampleMade, position: int) -> bytes:
    return (sample.parts[position].content or b"") if position < len(sample.parts) else b""


def comparable_samples(made: Iterable[SampleMade]) -> list[SampleMade]:
    """The samples to compare, the latest of each worker first: by then all workers load at the same time."""
    latest_first = (own[::-1] for own in _by_worker(made) if own[0].worker < _MAX_WORKERS)
    return [sample for row in zip_longest(*latest_first) for sample in row if sample is not None]


def differing(sample: SampleMade, reference: Reference) -> frozenset[int]:
    """Positions of the comparable parts that differ from those of the sample loaded without workers."""
    found = set()
    for position, (mine, theirs) in enumerate(zip_longest(sample.parts, reference[sample.key])):
        is_opaque = mine and theirs and mine.form == theirs.form and None in (mine.content, theirs.content)
        if mine != theirs and not is_opaque:
            found.add(position)
    return frozenset(found)


def repeated(made: Iterable[SampleMade]) -> tuple[int, int, bool]:
    """How many of the first samples of the workers' streams another worker delivered too, and how many were compared.

    0 repeated for one worker, random samples, samples that repeat within one stream, and where no sample of one worker
    repeats. The third value says whether the length of an epoch need not be known: whole samples repeat that are all
    different within each stream.
    """
    of_worker = [[sample.parts for sample in own] for own in _by_worker(made)]
    length = min(map(len, of_worker), default=0)
    if len(of_worker) < 2 or length < _MIN_STREAM:
        return 0, sum(map(len, of_worker)), False
    streams = [stream[:length] for stream in of_worker]
    # Whole samples, then each part by itself: any part may identify the sample.
    whole = [[tuple((one.form, one.content) for one in parts) for parts in stream] for stream in streams]
    counts = [_repeated(whole)]
    is_long = length >= _MIN_STREAM_FOR_PARTS
    is_sure = counts[0] > 0 and is_long and all(len(set(stream)) == length for stream in whole)
    positions = min(len(parts) for stream in streams for parts in stream) if is_long else 0
    for position in range(positions):
        counts.append(_repeated([[parts[position].content for parts in stream] for stream in streams]))
    return max(counts), length * len(streams), is_sure


def _repeated(streams: Sequence[Sequence[Hashable]]) -> int:
    distinct = [set(stream) for stream in streams]
    workers = Counter(sample for own in distinct for sample in own)
    total, alike = sum(map(len, streams)), workers.total()
    across = alike - len(workers)
    # Some workers of a resampled stream draw the same shard by chance. Without shares, each repeats samples of others.
    is_by_chance = any(max(workers[sample] for sample in own) == 1 for own in distinct)
    return 0 if is_by_chance or across <= max(_REPEATED * total, 2 * (total - alike)) else across
