"""What an arm takes its DataLoaders from: a dataset, or a DataLoader that somebody else has made.

Of several ranks each gets the samples that DistributedSampler gives it, as in training programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from nws_sweep import loaders
from nws_sweep.records import LoaderSettings, ProjectFacts, Rank


class WorkerInit(Protocol):
    """What is called in each worker before its first sample, the user's own function included."""

    user_function: Callable[[int], Any] | None

    def __call__(self, worker_id: int) -> None:
        """Prepares the worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What a project loads: its dataset or its DataLoader, and where in its config that stands."""

    made: Any
    facts: ProjectFacts


class Source:
    """Makes DataLoaders with given settings over one dataset.

    Args:
        made: A dataset; or a DataLoader, whose sampler, generator, functions and class are kept and which is never
            iterated itself; or a project with either.
        seed: Decides the order of the samples where no sampler does, so that all candidates meet the same ones in the
            same order, and all ranks agree on it.
        rank: Which of several shares the samples; None for one alone.

    Attributes:
        dataset: What the samples come from.
        settings: Those of the DataLoader that it came in; None if it came by itself.
        project: Where it stands in a project's config; None if it comes from none.
    """

    def __init__(self, made: Any, seed: int, rank: Rank | None = None) -> None:
        self.project = made.facts if isinstance(made, Project) else None
        made = made.made if isinstance(made, Project) else made
        self._template: DataLoader[Any] | None = made if isinstance(made, DataLoader) else None
        self.settings = loaders.settings_of(made) if isinstance(made, DataLoader) else None
        self.dataset: Any = made.dataset if isinstance(made, DataLoader) else made
        self._seed = seed
        self._rank = rank

    @property
    def samples(self) -> int | None:
        """Samples that an epoch takes, of all ranks where a sampler shares them out; None if that cannot be told."""
        if self._template is None or (self._rank and isinstance(self._template.sampler, DistributedSampler)):
            return loaders.length(self.dataset)
        return loaders.samples_per_epoch(self._template)

    def loader(
        self, settings: LoaderSettings, collate_fn: Callable[[list[Any]], Any] | None, init: WorkerInit | None
    ) -> DataLoader[Any]:
        """A DataLoader with exactly these settings, and of several ranks with this one's samples.

        Args:
            settings: Canonical ones. ``shuffle`` is ignored for an iterable dataset, and where there is a sampler.
            collate_fn: Makes a batch of a list of samples; None for the source's own.
            init: Called in each worker; None without workers.
        """
        loader = self._plain(settings) if self._template is None else loaders.retuned(self._template, settings)
        if collate_fn is not None:
            loader.collate_fn = collate_fn
        if init is not None:
            init.user_function = loader.worker_init_fn
            loader.worker_init_fn = init
        return loader if self._rank is None else _shared_out(loader, self._rank, self._seed)

    def _plain(self, settings: LoaderSettings) -> DataLoader[Any]:
        keywords = asdict(settings)
        del keywords["threads_per_worker"]
        if settings.in_order:  # unknown to older versions
            del keywords["in_order"]
        if isinstance(self.dataset, IterableDataset):
            del keywords["shuffle"]
        return DataLoader(self.dataset, generator=torch.Generator().manual_seed(self._seed), **keywords)


class EpochSampler(DistributedSampler[Any]):
    """Another order each epoch by itself, as by the ``set_epoch`` that a training loop calls."""

    def __iter__(self) -> Iterator[Any]:
        order = super().__iter__()
        self.set_epoch(self.epoch + 1)
        return order


def _shared_out(loader: DataLoader[Any], rank: Rank, seed: int) -> DataLoader[Any]:
    """The loader with the samples of this rank alone, unless its own sampler or dataset decides what a rank gets."""
    whole: Any = loader.sampler
    of_others = type(whole) is DistributedSampler and (whole.num_replicas, whole.rank) != (rank.ranks, rank.number)
    knows_no_ranks = type(whole) in {RandomSampler, SequentialSampler}
    if isinstance(loader.dataset, IterableDataset) or not (of_others or knows_no_ranks):
        return loader
    share = EpochSampler(
        loader.dataset,
        num_replicas=rank.ranks,
        rank=rank.number,
        shuffle=whole.shuffle if of_others else isinstance(whole, RandomSampler),
        seed=seed,
        drop_last=loader.drop_last,
    )
    own = vars(loader)  # DataLoader lets its sampler be set in __init__ only
    if loader.batch_sampler is None:
        own["sampler"] = share
    elif type(loader.batch_sampler) is BatchSampler and loader.batch_size is not None:
        own.update(sampler=share, batch_sampler=BatchSampler(share, loader.batch_size, loader.drop_last))
    return loader
