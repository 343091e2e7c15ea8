"""The words between a strategy and the runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from nws_sweep.records import LoaderSettings, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is known of one candidate.

    Attributes:
        settings: The candidate, canonical.
        cost_s: The objective, smaller is better, s; None if it was not, or could not be, measured.
        by_round: What it would cost at the pace of a single round, s, by the number of the round.
        batch_s: Seconds per batch.
        startup_s: From the start of an epoch to its first batch, s.
        cpu_s: CPU seconds per batch.
        consume_s: Seconds per batch in the consumer.
        batches: Batches of an epoch; None if unknown.
        spent_s: What measuring it has taken so far, s.
        open: Whether it can be measured further.
    """

    settings: LoaderSettings
    cost_s: float | None = None
    by_round: Mapping[int, float] = field(default_factory=dict)
    batch_s: float | None = None
    startup_s: float | None = None
    cpu_s: float | None = None
    consume_s: float | None = None
    batches: int | None = None
    spent_s: float = 0.0
    open: bool = False

    @property
    def num_workers(self) -> int:
        """The candidate's number of workers."""
        return self.settings.num_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Decision: measure these candidates until each has enough, in turn, so that drift of the machine meets them alike.

    Attributes:
        candidates: Those without an observation yet, at least one.
        beside: Candidates with an observation that are measured on beside them, for the comparison.
    """

    candidates: tuple[LoaderSettings, ...]
    beside: tuple[LoaderSettings, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Decision: one short turn of each of these, then ask again.

    Attributes:
        candidates: Who takes part, at least one; those that were not measured yet are started.
        dropped: Candidates that are out of the race for good.
        window_s: Length of a window at least, s.
    """

    candidates: tuple[LoaderSettings, ...]
    dropped: tuple[LoaderSettings, ...] = ()
    window_s: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Decision: the search is over, and why, in words."""

    reason: str


Decision = Measure | Race | Stop


class Strategy(Protocol):
    """Decides what to do next from all observations so far, whatever their order."""

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next candidates to measure, or the reason to stop."""

    def verdict(self, observations: Sequence[Observation]) -> Verdict | None:
        """Which candidate is the best, as far as is known; None if none could be measured."""


def with_workers(base: LoaderSettings, num_workers: int) -> LoaderSettings:
    """The candidate of that many workers."""
    return replace(base, num_workers=num_workers).canonical()
