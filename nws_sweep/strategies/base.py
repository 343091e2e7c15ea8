"""The words between a strategy and the runner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Observation:
    """What one candidate cost.

    Attributes:
        num_workers: The candidate.
        cost_s: The objective, smaller is better, s; None if the candidate could not be measured.
    """

    num_workers: int
    cost_s: float | None


@dataclass(frozen=True, slots=True)
class Measure:
    """Decision: measure this candidate next."""

    num_workers: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Decision: the search is over, and why, in words."""

    reason: str


Decision = Measure | Stop


class Strategy(Protocol):
    """Decides what to do next from all observations so far, in the order in which they were made."""

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next candidate to measure, or the reason to stop."""
        ...


def first_unmeasured(candidates: Sequence[int], observations: Sequence[Observation]) -> int | None:
    """The first candidate without an observation, None if all have one."""
    measured = {observation.num_workers for observation in observations}
    return next((candidate for candidate in candidates if candidate not in measured), None)
