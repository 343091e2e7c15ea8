"""Which candidates may have trial processes at the same time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nws_sweep.errors import TrialSkipped
from nws_sweep.searching.candidate import Candidate
from nws_sweep.searching.counters import with_workers
from nws_sweep.searching.observations import Round
from nws_sweep.system.resources import reason_not_fitting, resource_needs
from nws_sweep.trials.environment import Environment


@dataclass(frozen=True)
class Admission:
    """The resources of one search.

    Attributes:
        candidates: All candidates that were started, and those that will be.
        environment: Says what is free.
        budget_bytes: Memory that the processes of all candidates may hold; None for no
            limit.
        ranks: How many ranks have the processes of a candidate each.
        most_alive: How many candidates may have trial processes at the same time.
    """

    candidates: Sequence[Candidate]
    environment: Environment
    budget_bytes: int | None
    ranks: int
    most_alive: int

    @property
    def memory_left(self) -> int | None:
        """Bytes of the memory budget that no candidate holds; None without a budget."""
        if self.budget_bytes is None:
            return None
        held = sum(
            candidate.process.usage.added_bytes or 0 for candidate in self.candidates
        )
        return max(0, self.budget_bytes - held)

    def admits(self, new: Candidate, decision: Round) -> bool:
        """Whether a new candidate may start now; trial processes are closed for it, the
        slowest candidates first.

        Processes of candidates that take part in the same round are closed last, or not
        at all if ``new`` may wait. A candidate that does not fit alone fails as
        skipped.

        Args:
            new: The candidate.
            decision: The round that the new candidate starts in.
        """
        reason = self._reason_not_fitting(new, alone=True)
        if reason:  # no process is closed for it
            new.fail(TrialSkipped(reason))
            return False
        while True:
            alive = [candidate for candidate in self.candidates if candidate.is_alive]
            reason = self._reason_not_fitting(new)
            if len(alive) < self.most_alive and not reason:
                return True
            if not alive:
                new.fail(TrialSkipped(reason))
                return False
            closable = [
                candidate
                for candidate in alive
                if candidate.settings not in decision.candidates
            ]
            if not closable and not decision.are_rivals:
                return False
            idle = [
                candidate
                for candidate in closable
                if candidate.settings not in decision.beside
            ]
            # The slowest candidate is the least likely to be measured again.
            slowest = max(idle or closable or alive, key=_cost_s)
            slowest.process.close()

    def _reason_not_fitting(self, new: Candidate, *, alone: bool = False) -> str:
        """Says why a candidate does not fit, from what batches and workers took so far;
        empty if it does.

        With ``alone``, beside no other candidate: memory and /dev/shm as a whole are
        upper limits of what is free then.
        """
        started = [candidate for candidate in self.candidates if candidate.windows]
        windows = [window for candidate in started for window in candidate.windows]
        memory_bytes: dict[int, int] = {}
        for candidate in started:
            added_bytes = [
                time_slice.after.added_bytes or 0
                for time_slice in with_workers(candidate.slices, candidate.settings)
            ]
            memory_bytes[candidate.settings.num_workers] = max(added_bytes, default=0)
        needs = resource_needs(
            windows, {workers: held for workers, held in memory_bytes.items() if held}
        )
        free = self.environment.free_resources(self.memory_left)
        if alone:
            free = replace(
                free,
                shm_bytes=free.shm_size_bytes,
                memory_bytes=self.budget_bytes,
                threads=None,
            )
        return reason_not_fitting(new.settings, needs, free, self.ranks)


def _cost_s(candidate: Candidate) -> float:
    cost_s = candidate.figures.timing.cost_s
    return math.inf if cost_s is None else cost_s
