"""The other side of the comparison: a plain loop with a stopwatch, as a user would write it, in a fresh process.

Nothing of what nws_sweep measures with is used here: no counting of samples, no ``worker_init_fn``, no generator, no
pauses, whole epochs only.
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.pace import Epoch, enough

_TIMEOUT_S = 900.0
_GONE_WITHIN_S = 10.0


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
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(theirs, recipe), name="bare")
    process.start()
    theirs.close()
    try:
        return _received(ours)
    finally:
        process.join(_GONE_WITHIN_S)
        process.kill()


def _received(connection: Connection) -> tuple[Epoch, ...]:
    try:
        if connection.poll(_TIMEOUT_S):
            epochs: tuple[Epoch, ...] = connection.recv()
            return epochs
    except EOFError:
        raise RuntimeError("the bare loop died") from None
    raise RuntimeError(f"the bare loop was not done within {_TIMEOUT_S:g} s")


def _run(connection: Connection, recipe: Recipe) -> None:
    import torch

    multiprocessing.set_start_method(None, force=True)  # workers start as in a user's program, not by the fork server
    warnings.filterwarnings("ignore", message=r"This DataLoader will create \d+ worker processes")
    torch.seed()  # a fresh process would draw the same order each time
    connection.send(loop(recipe))


def loop(recipe: Recipe) -> tuple[Epoch, ...]:
    """Whole epochs over one DataLoader."""
    from hydra.utils import instantiate
    from torch.utils.data import DataLoader

    consume = instantiate(dict(recipe.consumer), _convert_="all")
    loader: DataLoader[Any] = DataLoader(
        instantiate(dict(recipe.dataset), _convert_="all"),
        batch_size=recipe.batch_size,
        shuffle=True,
        num_workers=recipe.num_workers,
        prefetch_factor=recipe.prefetch_factor if recipe.num_workers else None,
    )
    epochs: list[Epoch] = []
    while not enough(epochs, recipe.least_s):
        moments = []
        began = time.perf_counter()
        for batch in loader:
            consume(batch)
            moments.append(time.perf_counter())
        epochs.append(Epoch(tuple(moment - began for moment in moments)))
    return tuple(epochs)
