import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import nws_sweep
from nws_sweep.dataloading import generators
from nws_sweep.dataloading.generators import SeededGenerators
from tests.user_datasets import Plain

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
MAKERS: dict[str, Callable[[], Any]] = {
    "random": lambda: random.Random(0),
    "RandomState": lambda: np.random.RandomState(0),
    "Generator": lambda: np.random.default_rng(0),
    "torch": lambda: torch.Generator().manual_seed(0),
}
module_generator = np.random.RandomState(0)


class Part:
    def __init__(self, generator: Any) -> None:
        self.R = generator

    def draw(self) -> Any:
        return self.R.random()


class Slotted:
    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        self.inner = inner


class Draws(Plain):
    """Each sample is one number of its own generator."""

    def __init__(self, generator: Any) -> None:
        super().__init__(24)
        self.transform = [Slotted(Part(generator))]

    def __getitem__(self, index: int) -> Any:
        own = self.transform[0].inner.R
        return torch.rand((), generator=own).item() if isinstance(own, torch.Generator) else float(own.random())


class DrawsFromModule(Draws):
    own = random.Random(0)

    def __getitem__(self, index: int) -> Any:
        return float(module_generator.random())


def reseed(worker_id: int) -> None:
    worker = get_worker_info()
    assert worker is not None
    worker.dataset.transform[0].inner.R.seed(worker_id)  # type: ignore[attr-defined]


def drawn(dataset: Any, epochs: int, **keywords: Any) -> list[float]:
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=2, num_workers=2, **keywords)
    return [number for _ in range(epochs) for batch in loader for number in batch.tolist()]


@pytest.mark.parametrize("kind", MAKERS)
def test_workers_and_epochs_draw_other_numbers(kind: str) -> None:
    dataset = Draws(MAKERS[kind]())
    assert generators.of_loader(DataLoader(dataset)) == ("transform[0].inner.R",)
    assert len(set(drawn(dataset, 2, worker_init_fn=nws_sweep.seed_worker))) == 48


def test_generators_in_closures_partials_methods_modules_and_classes_are_found() -> None:
    own = np.random.default_rng(0)
    parts = [lambda scale: scale * own.random(), functools.partial(own.choice, 3), own.normal, Part(own).draw]
    assert all([*generators.reachable(part)] == [own] for part in parts)
    dataset = DrawsFromModule(None)
    assert [*generators.reachable(dataset)] == [DrawsFromModule.own, module_generator]
    vars(dataset)["module_generator"] = own  # at the same place as the global one
    assert [*generators.reachable(dataset)] == [own, DrawsFromModule.own, module_generator]
    assert generators.of_loader(DataLoader(dataset)) == ("module_generator", "own")


def test_a_seed_of_the_users_worker_init_fn_stays() -> None:
    same = drawn(Draws(np.random.RandomState(0)), 1, worker_init_fn=SeededGenerators(reseed))
    assert same == drawn(Draws(np.random.RandomState(0)), 1, worker_init_fn=reseed)


def test_generators_that_dataloader_seeds_are_no_own_ones_and_those_of_streams_stay() -> None:
    shared = [random, np.random, torch.default_generator, random.random, np.random.rand, random.SystemRandom()]
    assert not generators.reachable(shared)

    class Stream(IterableDataset[int]):
        rng = random.Random(0)

        def __iter__(self) -> Iterator[int]:
            return iter(())

    assert not generators.of_loader(DataLoader(Stream()))
