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
    """Decision: measure these candidates next, in turn, so that drift of the machine meets all of them alike.

    Attributes:
        candidates: Those without an observation yet, at least one.
        beside: Candidates with an observation that are measured on beside them, for the comparison.
    """

    candidates: tuple[int, ...]
    beside: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """Decision: the search is over, and why, in words."""

    reason: str


Decision = Measure | Stop


class Strategy(Protocol):
    """Decides what to do next from all observations so far, whatever their order."""

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next candidates to measure, or the reason to stop."""
        ...


def unmeasured(candidates: Sequence[int], observations: Sequence[Observation]) -> tuple[int, ...]:
    """The candidates without an observation, in their order."""
    measured = {observation.num_workers for observation in observations}
    return tuple(candidate for candidate in candidates if candidate not in measured)
