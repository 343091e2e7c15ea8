"""A plain timed loop over a DataLoader, as a user would write it, independent of how nws_sweep measures.

``run_epochs``, ``measure_epoch`` and ``run_peer`` are called by ``child.call``, each in a fresh process.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks.catalogue import Workload
from benchmarks.epoch_times import PREFETCH_FACTOR, Timestamps, Until, enough, may_stop, projected_epoch_s, whole
from benchmarks.peers import PEERS, Task

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a bare run loads, and for how long."""

    workload: Workload
    num_workers: int = 0
    prefetch_factor: int = PREFETCH_FACTOR
    in_order: bool = True
    least_s: float = 0.0  # least time of the counted epochs together; they are repeated until then
    limit_s: float = math.inf  # longer epochs of the oracle are stopped


def run_epochs(recipe: Recipe) -> tuple[list[Timestamps], list[float]]:
    """Whole epochs over one DataLoader, and the length of each with the end of its workers, s."""
    dataset, training_step = made(recipe)
    loader = open_loader(dataset, recipe)
    epochs: list[Timestamps] = []
    lengths_s: list[float] = []
    while not enough(epochs, recipe.least_s):
        began = time.perf_counter()
        epochs.append(run_epoch(loader, training_step))
        lengths_s.append(time.perf_counter() - began)
    return epochs, lengths_s


def measure_epoch(recipe: Recipe) -> tuple[float, bool]:
    """Mean length of an epoch after a first batch, s, and whether no epoch was stopped and projected.

    The end of the workers is included.
    """
    dataset, training_step = made(recipe)
    loader = open_loader(dataset, recipe)
    training_step(next(iter(loader)))
    batches, is_whole = recipe.workload.batches, True
    lengths_s: list[float] = []

    def until(timestamps: Timestamps) -> bool:
        return may_stop(timestamps, recipe.num_workers, recipe.limit_s)

    while is_whole and (not lengths_s or sum(lengths_s) < recipe.least_s):
        began = time.perf_counter()
        timestamps = run_epoch(loader, training_step, until)
        end_s = time.perf_counter() - began - timestamps[-1]
        lengths_s.append(projected_epoch_s(timestamps, batches, recipe.num_workers) + end_s)
        is_whole = len(timestamps) == batches
    return statistics.fmean(lengths_s), is_whole


Probe = tuple[int, int, float]  # workers, batches taken, seconds until the last was taken


def run_peer(script: tuple[str, Recipe, Task]) -> tuple[int, list[Probe]]:
    """The pick of another method, with a fresh DataLoader for each candidate, and its measurements."""
    peer, recipe, task = script
    dataset, training_step = made(recipe)
    probes: list[Probe] = []

    def time_epoch(num_workers: int, until: Until) -> Timestamps:
        timestamps = run_epoch(open_loader(dataset, replace(recipe, num_workers=num_workers)), training_step, until)
        probes.append((num_workers, len(timestamps), timestamps[-1]))
        return timestamps

    return PEERS[peer](time_epoch, task), probes


def made(recipe: Recipe) -> tuple[Any, Callable[[Any], None]]:
    """The dataset and the training step."""
    from nws_sweep.config.hydra_versions import instantiate

    dataset, training_step = (
        instantiate(node, _convert_="all") for node in (recipe.workload.dataset, recipe.workload.training_step)
    )
    return dataset, training_step


def open_loader(dataset: Any, recipe: Recipe) -> DataLoader[Any]:
    """The DataLoader of a recipe; TypeError if torch is older than 2.6 and ``in_order`` is False."""
    from torch.utils.data import DataLoader

    others: dict[str, Any] = {} if recipe.in_order else {"in_order": False}
    return DataLoader(
        dataset,
        batch_size=recipe.workload.batch_size,
        shuffle=recipe.workload.shuffle,
        num_workers=recipe.num_workers,
        prefetch_factor=recipe.prefetch_factor if recipe.num_workers else None,
        **others,
    )


def run_epoch(loader: DataLoader[Any], training_step: Callable[[Any], None], until: Until = whole) -> Timestamps:
    """The timestamps of an epoch, which ``until`` may stop early."""
    timestamps: list[float] = []
    began = time.perf_counter()
    for batch in loader:
        training_step(batch)
        timestamps.append(time.perf_counter() - began)
        if until(timestamps):
            break
    return timestamps
