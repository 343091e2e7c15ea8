"""A plain timed loop over a DataLoader, as a user would write it, independent of how
nws_sweep measures.

``measure_epoch`` and ``run_peer`` are called by ``child.call``, each in a fresh
process.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.catalogue import Workload
from benchmarks.epoch_times import (
    PREFETCH_FACTOR,
    Timestamps,
    Until,
    may_stop,
    projected_epoch_s,
    steady_batch_s,
    whole,
)  # fmt: skip
from benchmarks.peers import PEERS, Task

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


# Workers that persist start and end once in a training of so many epochs, as nws_sweep
# assumes, too.
TRAINING_EPOCHS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a bare run loads, and for how long."""

    workload: Workload
    num_workers: int = 0
    prefetch_factor: int = PREFETCH_FACTOR
    persistent: bool = False  # see ``TRAINING_EPOCHS``
    in_order: bool = True
    # least time of the counted epochs together; they are repeated until then
    least_s: float = 0.0
    limit_s: float = math.inf  # longer epochs of the oracle are stopped


class Epochs(NamedTuple):
    """Times of the epochs of a bare run."""

    # Mean length, with start and end of the workers; of workers that persist, with
    # their part of it in a training.
    epoch_s: float
    is_whole: bool  # whether no epoch was stopped and projected
    batch_s: float | None  # steady seconds per batch; None if the epochs are too short


def measure_epoch(recipe: Recipe) -> Epochs:
    """Times epochs after a first batch, which includes one-time work of the process."""
    workload, workers = recipe.workload, recipe.num_workers
    dataset, training_step = made(recipe)
    training_step(next(iter(open_loader(dataset, replace(recipe, persistent=False)))))
    loader = open_loader(dataset, recipe)
    epochs: list[Timestamps] = []
    lengths_s: list[float] = []

    def until(timestamps: Timestamps) -> bool:
        return may_stop(timestamps, workers, recipe.limit_s, workload.period)

    least_epochs = 2 if recipe.persistent else 1
    while not epochs or (
        len(epochs[-1]) == workload.batches
        and (sum(lengths_s) < recipe.least_s or len(epochs) < least_epochs)
    ):
        began = time.perf_counter()
        timestamps = run_epoch(loader, training_step, until)
        end_s = time.perf_counter() - began - timestamps[-1]
        epochs.append(timestamps)
        lengths_s.append(
            projected_epoch_s(timestamps, workload.batches, workers) + end_s
        )
    epoch_s = statistics.fmean(lengths_s)
    if recipe.persistent:
        began = time.perf_counter()
        del loader
        end_s = time.perf_counter() - began
        epoch_s = _of_a_training(lengths_s, end_s)
    return Epochs(
        epoch_s=epoch_s,
        is_whole=len(epochs[-1]) == workload.batches,
        batch_s=steady_batch_s(epochs, workload.batches, workers, workload.period),
    )


def _of_a_training(lengths_s: list[float], end_s: float) -> float:
    """Mean epoch of a training, s, from the first epoch, with the start of the workers,
    the later ones, if there are any, and the end of the workers."""
    first_s, *later_s = lengths_s
    if not later_s:
        return first_s
    later = statistics.fmean(later_s)
    return later + (first_s - later + end_s) / TRAINING_EPOCHS


# workers, batches taken, seconds until the last was taken
Probe = tuple[int, int, float]


def run_peer(script: tuple[str, Recipe, Task]) -> tuple[int, list[Probe]]:
    """The pick of another method, with a fresh DataLoader for each candidate, and its
    measurements."""
    peer, recipe, task = script
    dataset, training_step = made(recipe)
    probes: list[Probe] = []

    def time_epoch(num_workers: int, until: Until) -> Timestamps:
        timestamps = run_epoch(
            open_loader(dataset, replace(recipe, num_workers=num_workers)),
            training_step,
            until,
        )
        probes.append((num_workers, len(timestamps), timestamps[-1]))
        return timestamps

    return PEERS[peer](time_epoch, task), probes


def made(recipe: Recipe) -> tuple[Any, Callable[[Any], None]]:
    """The dataset and the training step."""
    return recipe.workload.make_dataset(), recipe.workload.make_training_step()


def open_loader(dataset: Any, recipe: Recipe) -> DataLoader[Any]:
    """The DataLoader of a recipe; TypeError if torch is older than 2.6 and ``in_order``
    is False."""
    from torch.utils.data import DataLoader

    keywords = recipe.workload.loader_keywords()
    if recipe.num_workers:
        keywords["prefetch_factor"] = recipe.prefetch_factor
        keywords["persistent_workers"] = recipe.persistent
    if not recipe.in_order:
        keywords["in_order"] = False
    return DataLoader(dataset, num_workers=recipe.num_workers, **keywords)


def run_epoch(
    loader: DataLoader[Any], training_step: Callable[[Any], None], until: Until = whole
) -> Timestamps:
    """The timestamps of an epoch, which ``until`` may stop early."""
    timestamps: list[float] = []
    began = time.perf_counter()
    for batch in loader:
        training_step(batch)
        timestamps.append(time.perf_counter() - began)
        if until(timestamps):
            break
    return timestamps
