"""What an epoch really takes: a long bare run in a fresh process, broken off and projected if it is very long."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks import bare, child, pace

_SLACK = 10  # of the limit, until a run is taken to hang
_SLACK_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is run.

    Attributes:
        recipe: What is loaded; whole epochs are repeated until they have taken ``least_s`` together.
        limit_s: An epoch that takes longer is broken off, s.
    """

    recipe: bare.Recipe
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What was seen.

    Attributes:
        epochs: Whole ones, or one that was broken off.
        batches: Batches in a whole epoch.
    """

    epochs: tuple[pace.Epoch, ...]
    batches: int

    @property
    def whole(self) -> bool:
        """Whether no epoch was broken off."""
        return all(len(epoch.consumed_s) == self.batches for epoch in self.epochs)

    def epoch_s(self, recipe: bare.Recipe) -> float:
        """Mean length of an epoch, projected where it was broken off, s."""
        lengths_s = [
            pace.projected_epoch_s(epoch, self.batches, recipe.num_workers, recipe.queue) for epoch in self.epochs
        ]
        return sum(lengths_s) / len(lengths_s)


def measure(order: Order) -> Stretch:
    """Runs it in a child of the fork server.

    Raises:
        RuntimeError: If the child gave no result; what it said stands on standard error.
    """
    return child.call(loop, order, timeout_s=_SLACK_S + _SLACK * order.limit_s)


def loop(order: Order) -> Stretch:
    """Epochs over one DataLoader. What a process does only once is done before: its first batch counts for nothing."""
    recipe = order.recipe
    dataset, consume = bare.made(recipe)
    loader = bare.open_loader(dataset, recipe)
    consume(next(iter(loader)))
    epochs: list[pace.Epoch] = []
    while not epochs or _unfinished(epochs, len(loader), recipe.least_s):
        epochs.append(_epoch(loader, consume, order))
    return Stretch(epochs=tuple(epochs), batches=len(loader))


def _unfinished(epochs: list[pace.Epoch], batches: int, least_s: float) -> bool:
    return len(epochs[-1].consumed_s) == batches and sum(epoch.epoch_s for epoch in epochs) < least_s


def _epoch(loader: Any, consume: Callable[[Any], None], order: Order) -> pace.Epoch:
    recipe, moments = order.recipe, []
    began = time.perf_counter()
    for batch in loader:
        consume(batch)
        moments.append(time.perf_counter() - began)
        if pace.may_stop(len(moments), moments[-1], recipe.num_workers, recipe.queue, order.limit_s):
            break
    return pace.Epoch(tuple(moments))
