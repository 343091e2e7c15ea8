"""The candidates of a search, its record so far, and what it has cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce

from nws_sweep.measurement.candidate import Candidate
from nws_sweep.results import DatasetFacts, SearchCost, SearchRecord


@dataclass(eq=False)
class SearchProgress:
    """The state of one search."""

    start: SearchRecord  # the result before the search; trials that are not finished are dropped
    clock: Callable[[], float]
    candidates: list[Candidate] = field(default_factory=list)  # all that were started or skipped
    wrong_length: str = ""  # an epoch that is not as long as the dataset's length says, in words
    stream_error: str = ""  # why every candidate with workers is wrong; empty if no such reason was found
    samples_s: float = 0.0  # time for comparing samples
    began: float = field(init=False)  # moment on the clock
    _profile: SearchCost = SearchCost()

    def __post_init__(self) -> None:
        """Starts the clock."""
        self.start = replace(self.start, trials=tuple(trial for trial in self.start.trials if trial.finished))
        self.began = self.clock()

    @property
    def facts(self) -> DatasetFacts | None:
        """What the dataset reported about itself; None before the first trial process."""
        reported = (candidate.facts for candidate in self.candidates)
        return next((facts for facts in reported if facts is not None), self.start.facts)

    @property
    def record(self) -> SearchRecord:
        """All trials and the cost of the search so far."""
        trials = (*self.start.trials, *(candidate.progress.trial for candidate in self.candidates))
        cost_s = self.start.cost_s + self.clock() - self.began
        before = self.start.cost or SearchCost()  # of earlier calls, and of waiting for this one
        known = replace(before.plus(self._cost).plus(self._profile), other_s=0.0)
        cost = replace(known, other_s=cost_s - known.total_s)
        return replace(self.start, trials=trials, facts=self.facts, cost_s=cost_s, cost=cost)

    @property
    def _cost(self) -> SearchCost:
        starts_s = sum(candidate.startup_s for candidate in self.candidates)
        parts = (candidate.progress.costs for candidate in self.candidates)
        return reduce(SearchCost.plus, parts, SearchCost(samples_s=self.samples_s, startup_s=starts_s))

    def end_profile(self) -> None:
        """Books all time so far as the profile of the loader, and no longer as start-up, warm-up and measuring."""
        spent = self._cost
        self._profile = SearchCost(
            profile_s=self.clock() - self.began,
            startup_s=-spent.startup_s,
            warm_up_s=-spent.warm_up_s,
            measuring_s=-spent.measuring_s,
            samples_s=-spent.samples_s,
        )
