"""Loads single samples of a map-style dataset beside a measurement, to compare them with those of workers."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from nws_sweep.identities import parts_of
from nws_sweep.records import SampleMade


def alone(dataset: Any, keys: Sequence[Any], limit_s: float | None) -> tuple[SampleMade, ...]:
    """Samples as this process loads them, with the random numbers of later epochs left as they are.

    Args:
        dataset: Map-style, or iterable: then as many samples of a new iterator as there are keys.
        keys: Indices of the samples; those that raise are left out.
        limit_s: No sample is begun after this time, except the first, s; None for no limit.
    """
    began = time.perf_counter()
    found: list[SampleMade] = []
    with _random_numbers_kept():
        stream = iter(dataset) if isinstance(dataset, IterableDataset) else None
        for key in keys:
            if found and limit_s is not None and time.perf_counter() - began > limit_s:
                break
            with contextlib.suppress(Exception):  # the candidates that meet it say so
                sample = dataset[key] if stream is None else next(stream)
                found.append(SampleMade(worker=0, key=key, parts=parts_of(sample)))
    return tuple(found)


def in_turn(
    dataset: Any, samples: Sequence[SampleMade], start: Callable[[int], Any], context: str | None
) -> tuple[SampleMade, ...]:
    """The samples as workers of the same numbers load them if one loads at a time.

    Args:
        dataset: Map-style.
        samples: Whose keys and workers are used.
        start: The ``worker_init_fn``.
        context: Start method of the workers; None for the platform's own.
    """
    of_worker: dict[int, list[Any]] = {}
    for sample in samples:
        of_worker.setdefault(sample.worker, []).append(sample.key)
    workers, rounds = 1 + max(of_worker), max(map(len, of_worker.values()))
    # DataLoader gives each worker every workers-th of these.
    order = [(of_worker.get(worker, [])[turn : turn + 1]) for turn in range(rounds) for worker in range(workers)]
    init = functools.partial(_take_turns, start, multiprocessing.get_context(context).Lock())
    with _random_numbers_kept():
        loader: DataLoader[Any] = DataLoader(
            dataset, batch_size=None, sampler=order, num_workers=workers, worker_init_fn=init,
            multiprocessing_context=context,
        )  # fmt: skip
        return tuple(made for made in loader if made is not None)


def _take_turns(start: Callable[[int], Any], lock: Any, worker_id: int) -> None:
    """A ``worker_init_fn``: the worker's dataset gives digests, while no other worker loads.

    As in counting.py the dataset stays the same object: user code that reaches it must not notice.
    """
    start(worker_id)
    worker = get_worker_info()
    assert worker is not None  # this is one
    kind: Any = type(worker.dataset)

    def digests(self: Any, keys: list[Any]) -> SampleMade | None:
        with lock:
            parts = [parts_of(kind.__getitem__(self, key)) for key in keys]
        return SampleMade(worker=worker_id, key=keys[0], parts=parts[0]) if keys else None

    worker.dataset.__class__ = type(kind.__name__, (kind,), {"__slots__": (), "__getitem__": digests})


@contextlib.contextmanager
def _random_numbers_kept() -> Iterator[None]:
    kept = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])
