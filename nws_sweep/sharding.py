"""Which samples a rank gets: those that DistributedSampler gives it, as in training programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from nws_sweep import loaders
from nws_sweep.records import Rank

_PLAIN = (RandomSampler, SequentialSampler)


class EpochSampler(DistributedSampler[Any]):
    """Another order each epoch by itself, as by the ``set_epoch`` that a training loop calls."""

    def __iter__(self) -> Iterator[Any]:
        order = super().__iter__()
        self.set_epoch(self.epoch + 1)
        return order


def shared_out(loader: DataLoader[Any], rank: Rank, seed: int) -> DataLoader[Any]:
    """The loader with the samples of this rank alone.

    A sampler of the user's own, and an iterable dataset, decide themselves what each rank gets.

    Args:
        loader: As it would be for one rank.
        rank: Which one this is.
        seed: Decides the order, which all ranks must agree on.
    """
    if isinstance(loader.dataset, IterableDataset) or not _is_to_be_shared_out(loader.sampler, rank):
        return loader
    sampler = EpochSampler(
        loader.dataset,
        num_replicas=rank.ranks,
        rank=rank.number,
        shuffle=_shuffles(loader.sampler),
        seed=seed,
        drop_last=loader.drop_last,
    )
    return loaders.with_sampler(loader, sampler)


def samples_of_all(loader: DataLoader[Any]) -> int | None:
    """Samples that an epoch of all ranks takes, as far as DistributedSampler decides; else those of one rank."""
    if isinstance(loader.sampler, DistributedSampler):
        return loaders.length(loader.dataset)
    return loaders.samples_per_epoch(loader)


def _is_to_be_shared_out(sampler: Any, rank: Rank) -> bool:
    """Whether it is one that knows of no ranks, or was made for others than these."""
    if type(sampler) is DistributedSampler:
        return (sampler.num_replicas, sampler.rank) != (rank.ranks, rank.number)
    return type(sampler) in _PLAIN


def _shuffles(sampler: Any) -> bool:
    return sampler.shuffle if isinstance(sampler, DistributedSampler) else isinstance(sampler, RandomSampler)
