"""Finds the random number generators that a dataset has for itself, and seeds them in
workers.

DataLoader seeds the generators of Python's ``random``, of NumPy and of torch in each
worker. A generator that the dataset has made, such as ``self.rng =
np.random.default_rng(0)``, is copied into each worker with its state: all workers draw
the same numbers, and draw them again in each epoch. A program without workers meets
this as soon as it uses one.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from nws_sweep.dataloading import objects

_KINDS = (random.Random, np.random.RandomState, np.random.Generator, torch.Generator)
# The generators that DataLoader seeds.
_SHARED = (random.random.__self__, np.random.random.__self__, torch.default_generator)  # type: ignore[attr-defined]


def reachable(*parts: Any) -> dict[Any, str]:
    """Returns the generators that objects reach by attributes, closures and globals,
    with places as ``transform.R``.

    Without the generators that DataLoader seeds. Several may have the same place.
    """
    places: dict[Any, str] = {}
    for part in parts:
        for place, value in objects.walk(part):
            if (
                isinstance(value, _KINDS)
                and value not in _SHARED
                and _is_seeded_by_numbers(value)
            ):
                places[value] = place
    return places


def of_loader(loader: DataLoader[Any]) -> tuple[str, ...]:
    """Returns the places of the generators that make samples of a DataLoader; none for
    an iterable dataset.

    Workers of an iterable dataset may share its samples among them by equal draws of
    equal generators.
    """
    if isinstance(loader.dataset, IterableDataset):
        return ()
    places = reachable(loader.dataset, loader.collate_fn).values()
    return tuple(dict.fromkeys(places))


def seeding(places: Iterable[str]) -> str:
    """Says that workers seed the generators at these places."""
    return f"workers seed the random number generators of the dataset ({', '.join(places)})"


def _is_seeded_by_numbers(generator: Any) -> bool:
    if isinstance(generator, torch.Generator):
        return generator.device.type == "cpu"
    return not isinstance(generator, random.SystemRandom)


@dataclass(frozen=True)
class SeededGenerators:
    """A ``worker_init_fn`` that seeds a dataset's own generators with DataLoader's seed
    of the worker.

    That seed differs between workers and epochs. ``user_function`` is called
    afterwards: its own seeds stay.
    """

    user_function: Callable[[int], Any] | None = None
    collate_fn: Callable[[Any], Any] | None = None  # also seeded

    def __call__(self, worker_id: int) -> None:
        """Runs in the worker before its first sample."""
        worker = get_worker_info()
        for number, generator in enumerate(
            reachable(worker and worker.dataset, self.collate_fn)
        ):
            _seed(generator, np.random.SeedSequence([torch.initial_seed(), number]))
        if self.user_function is not None:
            self.user_function(worker_id)


def seed_worker(worker_id: int) -> None:
    """A ``worker_init_fn`` for a DataLoader whose map-style dataset has its own random
    number generators.

    It seeds generators of NumPy, torch and Python's ``random`` that the dataset reaches
    by attributes, closures and globals, with DataLoader's seed of the worker, which
    differs between workers and epochs.

    Example:
        >>> import nws_sweep
        >>> from torch.utils.data import DataLoader
        >>> loader = DataLoader(range(8), num_workers=2, worker_init_fn=nws_sweep.seed_worker)
    """
    SeededGenerators()(worker_id)


def _seed(generator: Any, seed: np.random.SeedSequence) -> None:
    """Seeds in place: other objects may have the same generator."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = type(generator.bit_generator)(seed).state
        return
    number = int(seed.generate_state(1)[0])
    if isinstance(generator, torch.Generator):
        generator.manual_seed(number)
    else:
        generator.seed(number)
