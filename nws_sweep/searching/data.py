"""What trials show about the data: the length of an epoch, whether it is larger than
memory, whole batches."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.dataloading.orders import GOLDEN
from nws_sweep.errors import ConfigurationError
from nws_sweep.records import MeasureRules, WholeBatches
from nws_sweep.searching import counters, schedule
from nws_sweep.searching.candidate import Candidate
from nws_sweep.system import page_cache
from nws_sweep.trials.environment import Environment

_CHEAP_SAMPLE_S = 200e-6  # with collating: of dearer samples, indexing is a small part


@dataclass(eq=False)
class Data:
    """The data of one search, as all candidates have seen them.

    Attributes:
        environment: Says how much memory is free.
        rules: Of measuring.
        seen_batches: Batches of an epoch of a stream without a length, once an epoch
            has ended.
        wrong_length: An epoch that is not as long as the dataset's length says, in
            words; else empty.
        cold_files: Files that are dropped from the page cache before each time slice.
        whole_batches: What whole batches take; None if they differ from the batches of
            samples, or are unknown.
    """

    environment: Environment
    rules: MeasureRules
    seen_batches: int | None = None
    wrong_length: str = ""
    cold_files: Sequence[str] = ()
    whole_batches: WholeBatches | None = None
    _has_tried_batches: bool = False
    # where the batches of the latest trial process begin; None if all have the same
    _place: float | None = None

    def __post_init__(self) -> None:
        """Lists the files of ``measure.cache=cold``; ConfigurationError if there are
        none."""
        self._has_tried_batches = self.whole_batches is not None
        if self.rules.cache != "cold":
            return
        names = self.rules.cache_files or ()
        self.cold_files = page_cache.files_below(names)
        if not self.cold_files:
            raise ConfigurationError(
                f"measure.cache=cold: no files in measure.cache_files=[{', '.join(names)}]; "
                "name the files or folders that the dataset reads"
            )

    def place(self, candidate: Candidate) -> None:
        """Moves the place where batches begin, before a trial process starts, far from
        the places of other processes.

        All processes take the same batches unless the data are larger than memory.
        """
        if self._place is None or (candidate.slices and not candidate.must_restart):
            return
        self._place = (self._place + GOLDEN) % 1
        candidate.place = self._place

    def try_whole_batches(self, candidate: Candidate) -> None:
        """Tries once what whole batches take, where samples take microseconds; the try
        takes 0.3 s."""
        if self._has_tried_batches or not candidate.is_alive:
            return
        self._has_tried_batches = True
        settings, facts = candidate.settings, candidate.process.facts
        costs = [
            record.cost for window in candidate.windows for record in window.records
        ]
        if not costs or facts is None or facts.iterable or not settings.batch_size:
            return
        making_s = statistics.median(cost.making_s for cost in costs)
        if making_s <= _CHEAP_SAMPLE_S * settings.batch_size:
            self.whole_batches = candidate.process.ask(
                lambda process: process.whole_batches(settings)
            )

    def notice_size(self, candidate: Candidate) -> str:
        """Returns a line after a first time slice if the data are larger than memory;
        else empty.

        From then on no process reads the batches of another: the page cache of such
        data has few of the batches that training reads, but all batches that the
        candidate before has read. The trial restarts, since an earlier search may have
        read its batches.
        """
        batches, facts = candidate.batches_per_epoch, candidate.process.facts
        if (
            self._place is not None
            or self.rules.cache != "auto"
            or len(candidate.slices) != 1
        ):
            return ""
        if facts is None or facts.iterable or batches is None:
            return ""
        epoch_bytes = round(
            batches * counters.read_bytes_per_batch(candidate.slices[0])
        )
        free_bytes = (
            self.environment.free_resources(None).memory_bytes if epoch_bytes else None
        )
        if free_bytes is None or epoch_bytes <= free_bytes:
            return ""
        self._place = self.environment.random_place()
        candidate.must_restart = not candidate.is_finished
        line = (
            f"an epoch reads {units.memory(epoch_bytes)}, more than the free memory ({units.memory(free_bytes)}): each "
            "number of workers reads other batches, so that none finds them in the page cache"
        )
        candidate.note(line)
        return line

    def notice_length(
        self, candidate: Candidate, candidates: Sequence[Candidate]
    ) -> None:
        """Notes after a time slice what the end of an epoch shows about its length, for
        all candidates."""
        batches, length = (
            schedule.epoch_batches(candidate.windows),
            candidate.batches_per_epoch,
        )
        if batches is not None and length is not None and not self.wrong_length:
            facts = candidate.process.facts
            # Each worker of an iterable dataset may end its share with a shorter batch.
            short_batches = (
                candidate.settings.num_workers if facts and facts.iterable else 0
            )
            if abs(batches - length) > short_batches:
                self.wrong_length = f"an epoch ended after {batches} batches, but its length is {length}"
        if self.wrong_length:
            self.seen_batches = None
        elif length is None:
            self.seen_batches = self.seen_batches or batches
        for started in candidates:
            started.seen_batches = self.seen_batches
            if self.wrong_length:
                started.forget_length(self.wrong_length)
