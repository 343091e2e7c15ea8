import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import nws_sweep
from nws_sweep.dataloading import generators
from nws_sweep.dataloading.generators import SeededGenerators
from tests.user_datasets import Plain, Stream

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
MAKERS: list[Callable[[], Any]] = [
    random.Random,
    np.random.RandomState,
    np.random.default_rng,
    torch.Generator,
]
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
        return (
            torch.rand((), generator=own).item()
            if isinstance(own, torch.Generator)
            else float(own.random())
        )


class DrawsFromModule(Draws):
    own = random.Random(0)

    def __getitem__(self, index: int) -> Any:
        return float(module_generator.random())


def test_workers_and_epochs_draw_other_numbers() -> None:
    dataset = Draws(np.random.default_rng(0))
    loader: DataLoader[Any] = DataLoader(
        dataset, batch_size=2, num_workers=2, worker_init_fn=nws_sweep.seed_worker
    )
    assert (
        len({number for _ in range(2) for batch in loader for number in batch.tolist()})
        == 48
    )


@pytest.mark.parametrize("make", MAKERS)
def test_generators_get_the_seed_of_the_worker_and_then_that_of_the_user(
    make: Callable[[], Any],
) -> None:
    dataset, drawn = Draws(make()), []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        SeededGenerators(collate_fn=dataset.__getitem__)(0)
        drawn.append(dataset[0])
    assert drawn[0] == drawn[2] != drawn[1]
    assert generators.of_loader(DataLoader(dataset)) == ("transform[0].inner.R",)
    SeededGenerators(lambda worker: drawn.append(dataset[worker]), dataset.__getitem__)(
        0
    )
    assert drawn[3] == drawn[0]  # it is called after the seeding


def test_generators_in_closures_partials_methods_modules_and_classes_are_found() -> (
    None
):
    own = np.random.default_rng(0)
    parts = [
        lambda scale: scale * own.random(),
        functools.partial(own.choice, 3),
        own.normal,
        Part(own).draw,
    ]
    assert all([*generators.reachable(part)] == [own] for part in parts)
    dataset = DrawsFromModule(None)
    assert [*generators.reachable(dataset)] == [DrawsFromModule.own, module_generator]
    vars(dataset)["module_generator"] = own  # at the same place as the global one
    assert [*generators.reachable(dataset)] == [
        own,
        DrawsFromModule.own,
        module_generator,
    ]
    assert generators.of_loader(DataLoader(dataset)) == ("module_generator", "own")


def test_generators_that_dataloader_seeds_are_no_own_ones_and_those_of_streams_stay() -> (
    None
):
    shared = [
        random,
        np.random,
        torch.default_generator,
        random.random,
        np.random.rand,
        random.SystemRandom(),
    ]
    assert not generators.reachable(shared)
    stream: Any = Stream()
    stream.rng = random.Random(0)
    assert not generators.of_loader(DataLoader(stream))
