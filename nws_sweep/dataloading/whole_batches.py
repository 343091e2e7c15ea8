"""Whether a dataset gives whole batches, ``dataset[indices]``, that equal its samples collated, and how fast.

Tried in a worker that makes one batch and ends: whatever the dataset does there, no later sample is another one.
"""

import contextlib
import functools
import multiprocessing
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, get_worker_info

from nws_sweep.results import WholeBatches
from nws_sweep.system import torch_internals

_FEWEST, _MOST, _TRIED_S = 3, 64, 0.1  # batches that are timed, both ways
_HUNG_S = 5.0
MOST_SAMPLES = 256  # of a batch that is tried: of larger ones the ratio is the same, and three take long


def try_whole_batches(loader: "DataLoader[Any]", samples: int) -> WholeBatches | None:
    """The seconds of batches of this size, if whole ones are equal; None if not, if anything fails, and without fork.

    Args:
        loader: Of a map-style dataset, with a worker.
        samples: Of a batch.
    """
    context: Any = loader.multiprocessing_context
    method = context.get_start_method() if context else multiprocessing.get_start_method()
    if method != "fork":  # a worker starts in seconds
        return None
    with torch.random.fork_rng(devices=[]):
        tries: DataLoader[Any] = DataLoader(
            loader.dataset, batch_sampler=[[0]], collate_fn=functools.partial(_tried, loader.collate_fn, samples),
            num_workers=1, worker_init_fn=loader.worker_init_fn, timeout=_HUNG_S, multiprocessing_context=context,
        )  # fmt: skip
        iterator = iter(tries)
        found: WholeBatches | None = None
        with contextlib.suppress(Exception):  # code of the user may raise anything
            found = next(iterator)
        _end(iterator)
    return found


def _end(iterator: Any) -> None:
    """Kills the worker: one that is ended may take 5 s, in a window if the garbage collector ends it."""
    torch_internals.raise_at_exit(iterator, is_wanted=False)
    for worker in torch_internals.workers(iterator):
        worker.kill()
    torch_internals.end_workers(iterator)


def _tried(collate_fn: Callable[[list[Any]], Any], samples: int, _: Sequence[Any]) -> WholeBatches | None:
    """Runs in the worker."""
    worker = get_worker_info()
    assert worker is not None
    dataset: Any = worker.dataset
    count, draw = len(dataset), random.Random(0)
    order = draw.sample(range(count), min(count, _MOST * samples))
    other_order = [*order[:samples], *order[:samples:-1]]  # no batch is in the caches since the other way has read it
    batches, others = (BatchSampler(keys, samples, drop_last=count > samples) for keys in (order, other_order))
    collated = iter(DataLoader(dataset, batch_sampler=batches, collate_fn=collate_fn))
    whole = iter(DataLoader(dataset, batch_size=None, sampler=others))
    if not _are_equal(next(whole), next(collated)):
        return None
    times_s: list[tuple[float, float]] = []
    until_s = time.perf_counter() + _TRIED_S
    while len(times_s) < _FEWEST or (len(times_s) < len(order) // samples - 2 and time.perf_counter() < until_s):
        times_s.append((_seconds(collated), _seconds(whole)))
    return WholeBatches(*map(statistics.median, zip(*times_s, strict=True)))


def _seconds(batches: Iterator[Any]) -> float:
    began_s = time.perf_counter()
    next(batches)
    return time.perf_counter() - began_s


def _are_equal(value: Any, other: Any) -> bool:
    """Whether two batches are equal, a tuple and a list of the same parts included."""
    if isinstance(value, Mapping):
        return value.keys() == other.keys() and all(_are_equal(part, other[key]) for key, part in value.items())
    if isinstance(value, list | tuple):
        return len(value) == len(other) and all(map(_are_equal, value, other))
    if isinstance(value, torch.Tensor):
        equal = (value == other) | ((value != value) & (other != other))  # noqa: PLR0124 - not a number
        return value.dtype == other.dtype and value.shape == other.shape and bool(equal.all())
    return type(value) is type(other) and bool(value == other)
