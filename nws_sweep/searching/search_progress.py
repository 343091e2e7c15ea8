"""The candidates of a search, its record and cost so far, and which of them fits beside the others."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from nws_sweep import units
from nws_sweep.dataloading.orders import GOLDEN
from nws_sweep.errors import TrialSkipped
from nws_sweep.executor.environment import Environment
from nws_sweep.results import DatasetFacts, LoaderSettings, SearchRecord, Trial
from nws_sweep.searching import counters
from nws_sweep.searching.candidate import Candidate
from nws_sweep.system.resources import reason_not_fitting, resource_needs


@dataclass(eq=False)
class SearchProgress:
    """The state of one search."""

    start: SearchRecord  # the result before the search; trials that are not finished are dropped
    environment: Environment
    began_s: float  # moment on the environment's clock
    deadline_s: float = math.inf  # after which no window starts, likewise
    candidates: list[Candidate] = field(default_factory=list)  # all that were started or skipped
    wrong_length: str = ""  # an epoch that is not as long as the dataset's length says, in words
    seen_batches: int | None = None  # of an epoch of a stream without a length, once one has ended
    stream_error: str = ""  # why every candidate with workers is wrong; empty if no such reason was found
    # Trials with the times of the batches of a whole epoch, by what all trials together show.
    standardized: Callable[[tuple[Trial, ...]], tuple[Trial, ...]] = lambda trials: trials
    # Whether each trial process takes different batches, and where those of the latest begin, as a share of an epoch.
    _has_own_batches: bool = False
    _latest_place: float = 0.0

    def __post_init__(self) -> None:
        """Sets the memory budget, a place where no earlier search began, and what earlier trials saw."""
        self._latest_place = self.environment.random_place()
        self.start = replace(self.start, trials=tuple(trial for trial in self.start.trials if trial.finished))
        self.seen_batches = next((trial.batches for trial in self.start.trials if trial.batches), None)
        self._budget_bytes = self.environment.memory_budget(self.start.configuration.measure.memory_budget_bytes)

    @property
    def facts(self) -> DatasetFacts | None:
        """What the dataset reported about itself; None before the first trial process."""
        reported = (candidate.process.facts for candidate in self.candidates)
        return next((facts for facts in reported if facts is not None), self.start.facts)

    @property
    def record(self) -> SearchRecord:
        """All trials and the cost of the search so far."""
        trials = (*self.start.trials, *(candidate.progress.trial for candidate in self.candidates))
        cost_s = self.start.cost_s + self.environment.clock() - self.began_s
        return replace(self.start, trials=self.standardized(trials), facts=self.facts, cost_s=cost_s)

    @property
    def memory_left(self) -> int | None:
        """Bytes of the memory budget that no candidate holds; None without a budget."""
        if self._budget_bytes is None:
            return None
        held = sum(candidate.process.usage.added_bytes or 0 for candidate in self.candidates)
        return max(0, self._budget_bytes - held)

    def end_processes(self) -> None:
        """Begins to end all trial processes."""
        for candidate in self.candidates:
            if candidate.process.running is not None:
                candidate.process.running.end()

    def notice_size(self, candidate: Candidate) -> str:
        """After a first time slice: a line if the data are larger than memory, so that no batch may be read twice.

        Then the page cache has few of the batches that training reads, and all of those that the candidate before has
        read. The trial restarts, since an earlier search may have read its batches.
        """
        progress, batches = candidate.progress, candidate.progress.batches_per_epoch
        is_stream = candidate.process.facts is None or candidate.process.facts.iterable
        is_automatic = self.start.configuration.measure.cache == "auto"
        if self._has_own_batches or is_stream or not is_automatic or batches is None or len(progress.slices) != 1:
            return ""
        epoch_bytes = round(batches * counters.read_bytes_per_batch(progress.slices[0]))
        free = self.environment.free_resources(None).memory_bytes if epoch_bytes else None
        if free is None or epoch_bytes <= free:
            return ""
        line = (
            f"an epoch reads {units.memory(epoch_bytes)}, more than the free memory ({units.memory(free)}): each "
            "candidate reads other batches, so that none finds them in the page cache"
        )
        progress.note(line)
        self._has_own_batches, progress.must_restart = True, not progress.done
        return line

    def notice_length(self, candidate: Candidate) -> None:
        """After a time slice: what the end of an epoch shows about its length holds for all candidates."""
        progress = candidate.progress
        if not self._is_divided(candidate):
            self.wrong_length = self.wrong_length or progress.wrong_length
        if self.wrong_length:
            self.seen_batches = None
        elif progress.batches_per_epoch is None:
            self.seen_batches = self.seen_batches or progress.epoch_batches
        for other in self.candidates:
            other.progress.seen_batches = self.seen_batches
            if self.wrong_length:
                other.progress.forget_length(self.wrong_length)

    def _is_divided(self, candidate: Candidate) -> bool:
        """Whether an epoch may differ from its length because each worker ends its share with a shorter batch."""
        facts, progress = candidate.process.facts, candidate.progress
        if facts is None or not facts.iterable:
            return False
        more = (progress.epoch_batches or 0) - (progress.batches_per_epoch or 0)
        return abs(more) <= progress.settings.num_workers

    def next_place(self) -> float | None:
        """Where the batches of the next trial process begin, far from those of others; None if all have the same."""
        if not self._has_own_batches:
            return None
        self._latest_place = (self._latest_place + GOLDEN) % 1
        return self._latest_place

    def admits(self, candidate: Candidate, beside: Sequence[LoaderSettings], started: Sequence[Candidate]) -> bool:
        """Whether the candidate may start now; trial processes of finished trials are closed for it, slowest first.

        Candidates ``beside`` it are closed last, those of ``started`` not before their trials are finished. A candidate
        that does not fit alone is failed as skipped, and admitted, then too, since these trials show what it needs.
        """
        are_done = all(other.progress.done for other in started)
        if reason := self._reason_not_fitting(candidate, alone=True):  # no process is closed for it
            if are_done:
                candidate.fail(TrialSkipped(reason))
            return are_done
        while True:
            alive = [other for other in self.candidates if other.alive]
            is_full = len(alive) >= self.start.configuration.measure.interleave
            reason = self._reason_not_fitting(candidate)
            if not is_full and not reason:
                return True
            done = [other for other in alive if other.progress.done]
            closable = [other for other in done if other.process.settings not in beside] or (done if is_full else [])
            if not closable:
                if not are_done:
                    return False
                closable = [other for other in alive if other.process.settings not in beside] or alive
            if not closable:
                candidate.fail(TrialSkipped(reason))
                return True
            # The slowest candidate is the least likely to be measured again.
            max(closable, key=lambda other: other.progress.trial.objective_s or math.inf).process.close()

    def _reason_not_fitting(self, candidate: Candidate, *, alone: bool = False) -> str:
        """Why a candidate does not fit, from what is known of batches and workers; empty if it does.

        ``alone`` if all others were closed: memory and /dev/shm as a whole are upper limits of what is free then.
        """
        started = [other.progress for other in self.candidates if other.progress.windows]
        held = {one.settings.num_workers: [each.after.added_bytes or 0 for each in one.slices] for one in started}
        memory = {n: most for n, sizes in held.items() if (most := max(sizes, default=0))}
        needs = resource_needs([window for other in started for window in other.windows], memory)
        free = self.environment.free_resources(self.memory_left)
        if alone:
            free = replace(free, shm_bytes=free.shm_size_bytes, memory_bytes=self._budget_bytes, threads=None)
        return reason_not_fitting(candidate.process.settings, needs, free, self.start.configuration.ranks)
