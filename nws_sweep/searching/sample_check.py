"""Checks whether workers deliver the samples of loading without workers; a candidate
with wrong samples fails.

A map-style dataset: some samples of each candidate are loaded again without workers,
and compared part by part, because random transforms change some parts only. A part that
differs is loaded once more in workers, one sample at a time. If it differs again, it is
random; if not, workers that load at the same time disturb each other.

An iterable dataset: the first samples of the workers, their streams, are compared with
each other. Samples that several workers deliver are repeated, unless an epoch with
workers has no more samples than one without: then different samples have the same
content.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from nws_sweep.errors import TrialError, WrongSamples
from nws_sweep.model import choice, epoch_length
from nws_sweep.records import (
    DatasetFacts,
    LoaderSettings,
    SampleMade,
    SamplePart,
    SamplesLogged,
    SamplesSeen,
    SearchRecord,
)
from nws_sweep.records.dataset_facts import (
    REMEDY,
    equal_draws_warning,
    shared_handles_warning,
)
from nws_sweep.searching import schedule
from nws_sweep.searching.admission import Admission
from nws_sweep.searching.candidate import Candidate
from nws_sweep.trials.environment import Environment, Observer, TrialProcess
from nws_sweep.trials.on_demand import Answer, Turns

Parts = tuple[SamplePart, ...]
Reference = Mapping[int | str, Parts]
_WORKER = attrgetter("worker")

MAX_COMPARED = 8  # samples of a candidate
# Equal draws of two workers, or wrong samples where workers share open files: a
# single one may be chance. Without open files, random parts are the likelier reason,
# and more than half of the samples must differ.
_NOT_CHANCE = 2
# share of the samples in streams that other workers must have delivered too
_REPEATED = 0.1
_MAX_EPOCH = 50_000  # samples that are counted
_COUNT_S = 5.0  # in which samples are counted without check_samples=true

HOW_TO_SHARD = (
    "the iterable dataset does not share its samples among its workers: its __iter__ must take every num_workers-th "
    "sample from number id on (torch.utils.data.get_worker_info)"
)


class Search(Protocol):
    """What a time slice and the check of its samples need of a search."""

    start: SearchRecord
    environment: Environment
    candidates: list[Candidate]
    turns: Turns
    wrong_samples: str
    admission: Admission

    @property
    def facts(self) -> DatasetFacts | None: ...  # noqa: D102


class SampleChecker:
    """Checks the samples of each candidate of a search once, and fails those that are
    wrong."""

    def __init__(self, search: Search, observer: Observer) -> None:
        self._search = search
        self._observer = observer
        self._checks_samples = search.start.configuration.check_samples
        self._comparison = SampleComparison(self._ask, self._checks_samples)
        self._checked: set[LoaderSettings] = set()
        self._handles_reported = False
        # of an epoch of an iterable dataset, by number of workers
        self._batches: dict[int, int] = {}

    def check(self, candidate: Candidate) -> None:
        """Fails a candidate with wrong samples; if the dataset is iterable, all
        candidates with workers."""
        facts, settings = candidate.process.facts, candidate.settings
        if facts is None:
            return
        if facts.handles and not self._handles_reported:
            self._handles_reported = True
            self._observer.note(shared_handles_warning(facts))
        if facts.iterable:
            self._compare_lengths(candidate)
        if (
            candidate.logged is None
            or settings in self._checked
            or self._checks_samples is False
        ):
            return
        self._checked.add(settings)
        try:
            warning = self._comparison.compare(
                candidate.logged, settings, facts, candidate.cost_s
            )
        except WrongSamples as error:
            self._fail(
                self._search.candidates if facts.iterable else [candidate], error
            )
            if facts.iterable:
                self._search.wrong_samples = str(error)
            return
        if warning:
            candidate.warn(warning)

    def _fail(self, candidates: Sequence[Candidate], error: WrongSamples) -> None:
        for candidate in candidates:
            if candidate.settings.num_workers:
                candidate.fail(error)

    def _compare_lengths(self, candidate: Candidate) -> None:
        """Warns of a stream of which each worker has a separate epoch: more workers
        have more batches."""
        workers = candidate.settings.num_workers
        batches = schedule.epoch_batches(candidate.windows)
        if not batches:
            return
        self._batches[workers] = batches
        fewest = min(self._batches)
        usual = self._batches[fewest]
        if batches <= usual:
            return
        longer = epoch_length.difference(batches, workers, usual, fewest)
        if longer:
            remedy = "divide the length that each worker has, such as with_epoch(), by num_workers"
            candidate.warn(f"{longer}; {remedy}")

    def _ask(self, question: Callable[[TrialProcess], Answer]) -> Answer | None:
        """Asks a candidate without workers; a new process if a question would advance
        the candidate's stream.

        None if the process fails.
        """
        search = self._search
        is_stream = search.facts is not None and search.facts.iterable
        for candidate in search.candidates:
            if (
                candidate.settings.num_workers == 0
                and candidate.is_alive
                and not is_stream
            ):
                return candidate.process.ask(question)
        try:
            start = search.environment.start_process
            with start(
                search.admission.memory_left, search.turns.deadline_s
            ) as process:
                process.on_stall = search.turns.resume_others
                return question(process)
        except TrialError:
            return None


class Ask(Protocol):
    """Asks a trial process that loads without workers; None if the process fails."""

    def __call__(  # noqa: D102
        self, question: Callable[[TrialProcess], Answer]
    ) -> Answer | None: ...


class SampleComparison:
    """Compares samples of workers with the same dataset, loaded without workers.

    What was loaded or counted without workers serves all candidates.
    """

    def __init__(self, ask: Ask, checks_samples: bool | None) -> None:
        self._ask = ask
        self._checks_samples = checks_samples
        # of samples that were loaded without workers
        self._reference: dict[int | str, Parts] = {}
        self._random_parts: frozenset[int] = frozenset()
        # an epoch, counted where samples repeat
        self._without_workers: SamplesSeen | None = None
        self._epochs_compared = False

    def compare(
        self,
        logged: SamplesLogged,
        settings: LoaderSettings,
        facts: DatasetFacts,
        spent_s: float,
    ) -> str:
        """Compares the samples of a candidate's workers; WrongSamples if they differ
        from loading without workers.

        Returns a warning about the samples, mostly empty. Loading samples takes a share
        of ``spent_s``, the seconds that the candidate has taken; at least one sample is
        loaded.
        """
        if logged.moved_files and settings.num_workers > 1:
            raise WrongSamples(
                f"the workers read {', '.join(logged.moved_files)} through one open file, whose position all of them "
                f"move, so that samples are wrong: {REMEDY}"
            )
        if facts.iterable:
            return self._check_streams(logged.samples, settings)
        samples = comparable_samples(logged.samples)
        latest = samples[:MAX_COMPARED]
        self._load(latest, choice.CLOSE * spent_s)  # next to nothing
        compared = [sample for sample in samples if sample.key in self._reference][
            :MAX_COMPARED
        ]
        if any(
            differing(sample, self._reference) - self._random_parts
            for sample in compared
        ):
            self._compare_one_by_one(latest, settings, facts)
        if not facts.generators and has_equal_draws(logged.samples, self._random_parts):
            return equal_draws_warning("equal parts in their samples")
        return ""

    def _load(self, samples: Sequence[SampleMade], limit_s: float | None) -> None:
        """Loads samples without workers, each once, within a time, s; None for no
        limit."""
        keys = list(
            dict.fromkeys(
                sample.key for sample in samples if sample.key not in self._reference
            )
        )
        if keys:
            loaded = self._ask(lambda process: process.load(keys, limit_s)) or ()
            self._reference.update({sample.key: sample.parts for sample in loaded})

    def _compare_one_by_one(
        self,
        samples: Sequence[SampleMade],
        settings: LoaderSettings,
        facts: DatasetFacts,
    ) -> None:
        """Finds random parts, which differ though no other worker loads at the same
        time; WrongSamples if many differ.

        A sample is wrong if parts that are not random differ where workers load at the
        same time.
        """
        self._load(samples, None)
        together = [sample for sample in samples if sample.key in self._reference]
        alone = self._ask(lambda process: process.load_one_by_one(together, settings))
        if alone is None or len(alone) < len(together):
            return
        random_parts = frozenset[int]().union(
            *(differing(sample, self._reference) for sample in alone)
        )
        wrong = sum(
            bool(differing(sample, self._reference) - random_parts)
            for sample in together
        )
        fewest_wrong = _NOT_CHANCE if facts.handles else len(together) // 2 + 1
        if wrong >= fewest_wrong:
            shared = (
                f"; forked workers share {', '.join(facts.handles)}"
                if facts.handles
                else ""
            )
            raise WrongSamples(
                f"{wrong} of {len(together)} compared samples differ from those loaded without workers{shared}: "
                f"{REMEDY}"
            )
        self._random_parts |= random_parts

    def _check_streams(
        self, samples: Sequence[SampleMade], settings: LoaderSettings
    ) -> str:
        """Compares the streams of the workers, and with ``check_samples=true`` two
        epochs, once for all candidates.

        WrongSamples if samples are repeated or lost; returns a warning, mostly empty.
        """
        repeats = repeats_in(samples)
        if repeats.count and self._is_longer(settings, unknown=repeats.is_proof):
            raise WrongSamples(
                f"{repeats.count} of the first {repeats.compared} samples were delivered by another worker too: "
                f"{HOW_TO_SHARD}"
            )
        if (
            settings.num_workers <= 1
            or self._epochs_compared
            or not self._checks_samples
        ):
            return ""
        self._epochs_compared = True
        without_workers = self._count(settings.with_workers(0), _MAX_EPOCH, math.inf)
        shared = self._count(settings, _MAX_EPOCH, math.inf)
        return _compare_epochs(settings, without_workers, shared)

    def _count(
        self, settings: LoaderSettings, most: int, limit_s: float
    ) -> SamplesSeen | None:
        """Counts the samples of an epoch, up to a number and within a time, s; None if
        the process fails."""
        return self._ask(lambda process: process.samples(settings, most, limit_s))

    def _is_longer(self, settings: LoaderSettings, *, unknown: bool) -> bool:
        """Whether an epoch has more samples than without workers; ``unknown`` if
        counting either takes too long."""
        if self._without_workers is None:
            self._without_workers = self._count(
                settings.with_workers(0), _MAX_EPOCH, _COUNT_S
            )
        if self._without_workers is None or not self._without_workers.complete:
            return unknown
        most = epoch_length.longest(self._without_workers.count, settings.num_workers)
        shared = self._count(settings, most + 1, _COUNT_S)
        if shared is None:
            return unknown
        return shared.count > most or (unknown and not shared.complete)


def _compare_epochs(
    settings: LoaderSettings,
    without_workers: SamplesSeen | None,
    shared: SamplesSeen | None,
) -> str:
    """Compares the samples of an epoch without workers and of one with; WrongSamples if
    some are repeated or lost.

    Returns a warning if drop_last explains what is lost, or if the epochs cannot be
    counted; else empty.
    """
    if not (
        without_workers and shared and without_workers.complete and shared.complete
    ):
        return f"check_samples: no whole epoch of at most {_MAX_EPOCH} samples could be counted"
    usual = without_workers.count
    counts = f"with num_workers={settings.num_workers}: {shared.count} in an epoch instead of {usual}"
    # Workers of a dataset that makes batches itself end with shorter batches.
    short_batches = settings.num_workers if settings.batch_size is None else 0
    if shared.count > usual + short_batches:
        raise WrongSamples(f"samples are repeated {counts}: {HOW_TO_SHARD}")
    if shared.count >= usual:
        return ""
    if not settings.drop_last:
        raise WrongSamples(f"samples are lost {counts}")
    return f"samples are lost {counts}: drop_last drops a shorter batch of each worker"


def has_equal_draws(samples: Iterable[SampleMade], random_parts: Iterable[int]) -> bool:
    """Whether two workers have made the same sequence of a random part, of different
    samples."""
    streams = _by_worker(samples)
    varied = [position for position in random_parts if not _recurs(streams, position)]
    for stream, rival_stream in itertools.combinations(streams, 2):
        pairs = [
            pair
            for pair in zip(stream, rival_stream, strict=False)
            if pair[0].key != pair[1].key
        ]
        if len(pairs) < _NOT_CHANCE:
            continue
        for position in varied:
            if all(
                _content(sample, position) == _content(rival, position) != b""
                for sample, rival in pairs
            ):
                return True
    return False


def _recurs(streams: Iterable[Sequence[SampleMade]], position: int) -> bool:
    """Whether workers make the same value at different places: of a part with few
    values, they do so by chance."""
    place_of: dict[bytes, int] = {}
    for stream in streams:
        for place, sample in enumerate(stream):
            content = _content(sample, position)
            if content and place_of.setdefault(content, place) != place:
                return True
    return False


def _by_worker(samples: Iterable[SampleMade]) -> list[list[SampleMade]]:
    """Lists the samples of each worker, in the order of making."""
    return [
        list(stream)
        for _, stream in itertools.groupby(sorted(samples, key=_WORKER), _WORKER)
    ]


def _content(sample: SampleMade, position: int) -> bytes:
    if position >= len(sample.parts):
        return b""
    return sample.parts[position].content or b""


def comparable_samples(samples: Iterable[SampleMade]) -> list[SampleMade]:
    """Orders samples for comparison, the latest of each worker first: by then all
    workers load at the same time."""
    latest_first = (stream[::-1] for stream in _by_worker(samples))
    rows = itertools.zip_longest(*latest_first)
    return [sample for row in rows for sample in row if sample is not None]


def differing(sample: SampleMade, reference: Reference) -> frozenset[int]:
    """Finds the positions of the comparable parts that differ from the sample loaded
    without workers."""
    positions = set()
    for position, (part, usual) in enumerate(
        itertools.zip_longest(sample.parts, reference[sample.key])
    ):
        is_opaque = (
            part
            and usual
            and part.form == usual.form
            and None in (part.content, usual.content)
        )
        if part != usual and not is_opaque:
            positions.add(position)
    return frozenset(positions)


@dataclass(frozen=True, slots=True)
class Repeats:
    """What the first samples of the workers have in common.

    Attributes:
        count: Samples that another worker delivered too.
        compared: Samples of all workers.
        is_proof: Whether samples are repeated even if the length of an epoch is
            unknown.
    """

    count: int
    compared: int
    is_proof: bool = False


def repeats_in(samples: Iterable[SampleMade]) -> Repeats:
    """Compares the first samples of the workers, as many of each: whole samples, and
    each part by itself.

    Any part may identify the sample. Parts are compared only in streams so long that
    the share of samples that must be repeated is beyond chance. Such streams are proof
    if whole samples repeat, and none within its stream. A single worker repeats
    nothing.
    """
    of_workers = _by_worker(samples)
    if len(of_workers) < 2:
        return Repeats(0, sum(map(len, of_workers)))
    length = min(map(len, of_workers))
    streams = [[sample.parts for sample in stream[:length]] for stream in of_workers]
    contents = [
        [tuple((part.form, part.content) for part in parts) for parts in stream]
        for stream in streams
    ]
    count, compared = _repeated(contents), length * len(streams)
    if _REPEATED * length < _NOT_CHANCE:
        return Repeats(count, compared)
    is_proof = count > 0 and all(len(set(stream)) == length for stream in contents)
    for position in range(min(len(parts) for stream in streams for parts in stream)):
        of_part = [[parts[position].content for parts in stream] for stream in streams]
        count = max(count, _repeated(of_part))
    return Repeats(count, compared, is_proof)


def _repeated(streams: Sequence[Sequence[Hashable]]) -> int:
    """Counts the samples that another worker delivered too; 0 if they are few, or may
    be equal by chance."""
    distinct = [set(stream) for stream in streams]
    # how many workers delivered a sample
    workers = Counter(itertools.chain.from_iterable(distinct))
    # Some workers of a resampled stream draw the same shard by chance. Without
    # shares, each repeats samples of others.
    if any(max(workers[sample] for sample in samples) == 1 for samples in distinct):
        return 0
    total, alike = sum(map(len, streams)), workers.total()
    within, across = total - alike, alike - len(workers)
    # Samples that repeat within a stream, such as labels, repeat across streams too.
    return across if across > max(_REPEATED * total, 2 * within) else 0
