"""DataLoaders that a source makes: of one rank alone, and of several that share the samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from nws_sweep.loaders import Source
from nws_sweep.records import LoaderSettings, Rank
from tests.user_datasets import Stream

DATASET = TensorDataset(torch.arange(10))
ONE = LoaderSettings(batch_size=1)


def loader(
    made: Any, number: int = 0, ranks: int = 3, settings: LoaderSettings = ONE, seed: int = 5
) -> DataLoader[Any]:
    return Source(made, seed, Rank(number=number, ranks=ranks, folder="")).loader(settings, None, None)


def seen(loader: DataLoader[Any]) -> list[int]:
    return [int(value) for (batch,) in loader for value in torch.as_tensor(batch).reshape(-1)]


def test_a_dataset_is_loaded_in_an_order_that_the_seed_decides() -> None:
    shuffled = LoaderSettings(batch_size=4, shuffle=True, drop_last=True)
    first, again, other = (seen(Source(DATASET, seed).loader(shuffled, None, None)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == 8
    assert list(Source(Stream(6), 1).loader(shuffled, lambda samples: samples, None)) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_ranks_get_what_distributed_sampler_gives_them(number: int) -> None:
    found = loader(DATASET, number, settings=LoaderSettings(batch_size=2))
    assert seen(found) == [*DistributedSampler(DATASET, 3, number, shuffle=False)]
    assert len(found) == 2


def test_a_loader_that_shuffles_has_another_order_each_epoch_and_every_sample_once() -> None:
    loaders = [loader(DataLoader(DATASET, shuffle=True), number, 2, seed=1) for number in range(2)]
    first, second = ([seen(loader) for loader in loaders] for _ in range(2))
    assert sorted(first[0] + first[1]) == sorted(second[0] + second[1]) == list(range(10))
    sampler: DistributedSampler[Any] = DistributedSampler(DATASET, 2, 0, shuffle=True, seed=1)
    assert first[0] == [*sampler]
    sampler.set_epoch(1)
    assert second[0] == [*sampler] != first[0]


OWN = {
    "a stream": DataLoader(Stream(10)),
    "a sampler": DataLoader(DATASET, sampler=WeightedRandomSampler([1.0] * 10, 6)),
    "this rank's sampler": DataLoader(DATASET, sampler=DistributedSampler(DATASET, 3, 0)),
    "batches": DataLoader(DATASET, batch_sampler=BatchSampler(SequentialSampler(DATASET), 5, drop_last=False)),
}


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_who_decides_about_ranks_himself_is_left_to_it(own: DataLoader[Any]) -> None:
    settings = LoaderSettings(batch_size=own.batch_size)
    assert loader(own, settings=settings).sampler is own.sampler


@pytest.mark.parametrize(
    ("made", "settings", "samples"),
    [
        (DataLoader(DATASET, batch_size=2, drop_last=True), LoaderSettings(batch_size=2, drop_last=True), [1, 4]),
        (DataLoader(DATASET, batch_size=None), LoaderSettings(batch_size=None), [1, 4, 7, 0]),
        # Made for another rank: made anew as it was.
        (DataLoader(DATASET, sampler=DistributedSampler(DATASET, 1, 0, shuffle=False)), ONE, [1, 4, 7, 0]),
        (DATASET, LoaderSettings(batch_size=2), [1, 4, 7, 0]),
    ],
)
def test_what_else_a_loader_has_stays(made: Any, settings: LoaderSettings, samples: list[int]) -> None:
    found = loader(made, 1, settings=settings)
    assert len(seen(found)) == 2 if settings.drop_last else seen(found) == samples


@pytest.mark.parametrize(
    ("made", "samples", "alone"),
    [
        (DATASET, 10, 10),
        (DataLoader(DATASET, batch_size=4), 10, 10),
        (DataLoader(DATASET, sampler=RandomSampler(DATASET, num_samples=7)), 7, 7),
        (DataLoader(DATASET, sampler=DistributedSampler(DATASET, 5, 0)), 10, 2),
        (Stream(10), None, None),
    ],
)
def test_the_samples_of_all_ranks_are_those_of_the_dataset(made: Any, samples: int | None, alone: int | None) -> None:
    assert Source(made, 0, Rank(number=0, ranks=3, folder="")).samples == samples
    assert Source(made, 0).samples == alone
