"""The other side of the comparison: a plain loop with a stopwatch, as a user would write it, in a fresh process.

Nothing of what nws_sweep measures with is used here: no counting of samples, no ``worker_init_fn``, no generator, no
pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import child
from benchmarks.pace import Epoch, enough

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a bare run loads, and for how long.

    Attributes:
        dataset: The dataset as Hydra instantiates it.
        consumer: The consumer, likewise.
        batch_size: Samples per batch.
        num_workers: Worker processes.
        prefetch_factor: Batches that each worker prepares ahead.
        least_s: Epochs are repeated until those that count have taken so long together, s.
    """

    dataset: Mapping[str, Any]
    consumer: Mapping[str, Any]
    batch_size: int
    num_workers: int
    prefetch_factor: int
    least_s: float

    @property
    def queue(self) -> int:
        """Batches that lie ready or are in the making at most."""
        return self.num_workers * self.prefetch_factor


def measure(recipe: Recipe) -> tuple[Epoch, ...]:
    """Runs the loop in a child of the fork server.

    Raises:
        RuntimeError: If the child gave no result; what it said stands on standard error.
    """
    return child.call(loop, recipe)


def loop(recipe: Recipe) -> tuple[Epoch, ...]:
    """Whole epochs over one DataLoader."""
    dataset, consume = made(recipe)
    loader = open_loader(dataset, recipe)
    epochs: list[Epoch] = []
    while not enough(epochs, recipe.least_s):
        moments = []
        began = time.perf_counter()
        for batch in loader:
            consume(batch)
            moments.append(time.perf_counter())
        epochs.append(Epoch(tuple(moment - began for moment in moments)))
    return tuple(epochs)


def made(recipe: Recipe) -> tuple[Any, Callable[[Any], None]]:
    """The dataset and the consumer."""
    from hydra.utils import instantiate

    dataset, consume = (instantiate(dict(node), _convert_="all") for node in (recipe.dataset, recipe.consumer))
    return dataset, consume


def open_loader(dataset: Any, recipe: Recipe) -> DataLoader[Any]:
    """A DataLoader that shuffles."""
    from torch.utils.data import DataLoader

    return DataLoader(
        dataset,
        batch_size=recipe.batch_size,
        shuffle=True,
        num_workers=recipe.num_workers,
        prefetch_factor=recipe.prefetch_factor if recipe.num_workers else None,
    )
