from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from nws_sweep.records import LoaderSettings, Rank
from nws_sweep.sharding import samples_of_all, shared_out
from nws_sweep.sources import source_of
from tests.user_datasets import Stream

DATASET = TensorDataset(torch.arange(10))


def rank(number: int = 0, ranks: int = 3) -> Rank:
    return Rank(number=number, ranks=ranks, folder="")


def seen(loader: DataLoader[Any]) -> list[int]:
    return [int(value) for (batch,) in loader for value in batch]


def test_ranks_get_what_distributed_sampler_gives_them() -> None:
    for number in range(3):
        loader = shared_out(DataLoader(DATASET, batch_size=2), rank(number), seed=5)
        assert seen(loader) == [*DistributedSampler(DATASET, 3, number, shuffle=False, seed=5)]
        assert len(loader) == 2


def test_a_loader_that_shuffles_has_another_order_each_epoch_and_every_sample_once() -> None:
    loaders = [shared_out(DataLoader(DATASET, shuffle=True), rank(number, 2), seed=1) for number in range(2)]
    first, second = ([seen(loader) for loader in loaders] for _ in range(2))
    assert sorted(first[0] + first[1]) == sorted(second[0] + second[1]) == list(range(10))
    assert first != second
    sampler: DistributedSampler[Any] = DistributedSampler(DATASET, 2, 0, shuffle=True, seed=1)
    assert first[0] == [*sampler]
    sampler.set_epoch(1)
    assert second[0] == [*sampler]


def test_drop_last_is_that_of_the_loader() -> None:
    loader = shared_out(DataLoader(DATASET, batch_size=2, drop_last=True), rank(), seed=0)
    assert len(seen(loader)) == 2  # of 3 samples, where there would be 4


def test_a_loader_without_batches_gets_single_samples() -> None:
    loader = shared_out(DataLoader(DATASET, batch_size=None), rank(1), seed=0)
    assert [int(value) for (value,) in loader] == [1, 4, 7, 0]


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(Stream(10)),
        DataLoader(DATASET, sampler=WeightedRandomSampler([1.0] * 10, 6)),
        DataLoader(DATASET, sampler=DistributedSampler(DATASET, 3, 0)),
    ],
)
def test_who_decides_about_ranks_himself_is_left_to_it(loader: DataLoader[Any]) -> None:
    sampler = loader.sampler
    assert shared_out(loader, rank(), seed=0).sampler is sampler


def test_batches_that_somebody_else_makes_stay() -> None:
    batches = BatchSampler(SequentialSampler(DATASET), 5, drop_last=False)
    loader = DataLoader(DATASET, batch_sampler=batches)
    assert len(seen(shared_out(loader, rank(), seed=0))) == 10


def test_a_sampler_that_was_made_for_another_rank_is_made_anew_as_it_was() -> None:
    own = DataLoader(DATASET, sampler=DistributedSampler(DATASET, 1, 0, shuffle=False))
    assert seen(shared_out(own, rank(2), seed=0)) == [2, 5, 8, 1]


def test_the_samples_of_all_ranks_are_those_of_the_dataset() -> None:
    assert samples_of_all(DataLoader(DATASET)) == 10
    assert samples_of_all(DataLoader(DATASET, sampler=DistributedSampler(DATASET, 5, 0))) == 10
    assert source_of(DATASET, 0, rank()).samples == 10
    assert source_of(DataLoader(DATASET, batch_size=4), 0, rank()).samples == 10
    assert source_of(Stream(10), 0, rank()).samples is None


def test_a_source_of_a_rank_makes_loaders_of_its_share() -> None:
    loader = source_of(DATASET, 7, rank(1)).loader(LoaderSettings(batch_size=2), None, None)
    assert seen(loader) == [1, 4, 7, 0]
