"""Plays a peer as a user's script would run it: one process, a fresh DataLoader for each candidate, a real clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from benchmarks import bare
from benchmarks.peers import PEERS, Moments, Task, Until


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What is played.

    Attributes:
        peer: A name out of ``PEERS``.
        recipe: What is loaded; its num_workers stands for no choice.
        task: What the peer knows beforehand.
    """

    peer: str
    recipe: bare.Recipe
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One epoch, or a part of one, that a peer asked for.

    Attributes:
        workers: Worker processes.
        batches: Batches taken.
        elapsed_s: When the last was consumed, s since just before ``iter(loader)``.
    """

    workers: int
    batches: int
    elapsed_s: float


def play(script: Script) -> tuple[int, tuple[Probe, ...]]:
    """The peer's pick, and what it measured. Call it in a process of its own."""
    timer = _Timer(script.recipe)
    return PEERS[script.peer](timer, script.task), tuple(timer.probes)


class _Timer:
    """The peers' stopwatch."""

    def __init__(self, recipe: bare.Recipe) -> None:
        self._recipe = recipe
        self._dataset, self._consume = bare.made(recipe)
        self.probes: list[Probe] = []

    def __call__(self, num_workers: int, until: Until) -> Moments:
        loader = bare.open_loader(self._dataset, replace(self._recipe, num_workers=num_workers))
        moments = self._epoch(loader, until)
        self.probes.append(Probe(workers=num_workers, batches=len(moments), elapsed_s=moments[-1]))
        return moments

    def _epoch(self, loader: Any, until: Until) -> Moments:
        moments: list[float] = []
        began = time.perf_counter()
        for batch in loader:
            self._consume(batch)
            moments.append(time.perf_counter() - began)
            if until(moments):
                break
        return moments
