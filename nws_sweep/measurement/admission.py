"""Which candidate fits beside those that have trial processes: their number, memory and other resources."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nws_sweep.errors import TrialSkipped
from nws_sweep.measurement.candidate import Candidate
from nws_sweep.measurement.environment import Environment
from nws_sweep.measurement.search_progress import SearchProgress
from nws_sweep.results import LoaderSettings
from nws_sweep.system.resources import reason_not_fitting, resource_needs


class Admission:
    """Decides whether a candidate may start, and closes other trial processes where that frees what it needs."""

    def __init__(self, search: SearchProgress, environment: Environment) -> None:
        self._search = search
        self._environment = environment
        self._rules = search.start.configuration.measure
        self._budget_bytes = environment.memory_budget(self._rules.memory_budget_bytes)

    @property
    def memory_left(self) -> int | None:
        """Bytes of the memory budget that no candidate holds; None without a budget."""
        if self._budget_bytes is None:
            return None
        held = sum(candidate.usage.memory_bytes or 0 for candidate in self._search.candidates)
        return max(0, self._budget_bytes - held)

    def memory_limit(self, candidate: Candidate) -> int | None:
        """Bytes that a candidate may hold: what it holds and what is left; None for no limit."""
        left = self.memory_left
        return None if left is None else left + (candidate.usage.memory_bytes or 0)

    def admits(self, candidate: Candidate, beside: Sequence[LoaderSettings], started: Sequence[Candidate]) -> bool:
        """Whether the candidate may start now; trial processes of finished trials are closed for it, slowest first.

        Candidates ``beside`` it are closed last, those of ``started`` not before their trials are finished. A candidate
        that does not fit alone is failed as skipped, and admitted.
        """
        while True:
            alive = [other for other in self._search.candidates if other.alive]
            is_full, reason = len(alive) >= self._rules.interleave, self._reason_not_fitting(candidate)
            if not is_full and not reason:
                return True
            done = [other for other in alive if other.done]
            closable = [other for other in done if other.settings not in beside] or (done if is_full else [])
            if not closable:
                if any(not other.done for other in started):
                    return False
                closable = [other for other in alive if other.settings not in beside] or alive
            if not closable:
                candidate.fail(TrialSkipped(reason))
                return True
            # The slowest candidate is the least likely to be measured again.
            max(closable, key=lambda other: other.progress.trial.objective_s or math.inf).close()

    def _reason_not_fitting(self, candidate: Candidate) -> str:
        """Why a candidate does not fit, from what is known of batches and workers; empty if it does."""
        started = [other.progress for other in self._search.candidates if other.progress.windows]
        found = {other.settings.num_workers: other.measurement for other in started}
        memory = {n: one.memory_bytes for n, one in found.items() if one and one.memory_bytes is not None}
        needs = resource_needs([window for other in started for window in other.windows], memory)
        free = self._environment.free_resources(self.memory_left)
        return reason_not_fitting(candidate.settings, needs, free, self._search.start.configuration.ranks)
