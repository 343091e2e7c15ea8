"""What an arm takes its DataLoaders from: a dataset, or a DataLoader that somebody else has made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, Dataset

from nws_sweep import loaders, sharding
from nws_sweep.records import LoaderSettings, ProjectFacts, Rank

Collate = Callable[[list[Any]], Any]


class WorkerInit(Protocol):
    """What is called in each worker before its first sample, the user's own function included."""

    user_function: Callable[[int], Any] | None

    def __call__(self, worker_id: int) -> None:
        """Prepares the worker."""


class Source(Protocol):
    """Makes DataLoaders with given settings over one dataset."""

    @property
    def dataset(self) -> Any:
        """What the samples come from."""

    @property
    def samples(self) -> int | None:
        """Samples that an epoch takes; None if that cannot be told."""

    @property
    def settings(self) -> LoaderSettings | None:
        """Those that it came with; None if it came without."""

    @property
    def project(self) -> ProjectFacts | None:
        """Where it stands in a project's config; None if it comes from none."""

    def loader(self, settings: LoaderSettings, collate_fn: Collate | None, init: WorkerInit | None) -> DataLoader[Any]:
        """A DataLoader with exactly these settings.

        Args:
            settings: Canonical ones.
            collate_fn: Makes a batch of a list of samples; None for the source's own.
            init: Called in each worker; None without workers.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What a project loads: its dataset or its DataLoader, and where in its config that stands."""

    made: Any
    facts: ProjectFacts


def source_of(made: Any, seed: int, rank: Rank | None = None) -> Source:
    """Takes a dataset, a DataLoader or a project as they are.

    Args:
        made: What was instantiated.
        seed: Decides the order of the samples where no sampler does.
        rank: Which of several shares the samples; None for one alone.
    """
    project = made.facts if isinstance(made, Project) else None
    made = made.made if isinstance(made, Project) else made
    source = LoaderSource(made, project) if isinstance(made, DataLoader) else DatasetSource(made, seed, project)
    return source if rank is None else RankSource(source, rank, seed)


class DatasetSource:
    """A dataset by itself.

    Args:
        dataset: Map-style or iterable.
        seed: Decides the order of the samples, so that all candidates meet the same ones in the same order.
        project: Where it stands in a project's config; None if it comes from none.
    """

    settings = None

    def __init__(self, dataset: Dataset[Any], seed: int, project: ProjectFacts | None = None) -> None:
        self.dataset = dataset
        self.project = project
        self._seed = seed

    @property
    def samples(self) -> int | None:
        """The dataset's length."""
        return loaders.length(self.dataset)

    def loader(self, settings: LoaderSettings, collate_fn: Collate | None, init: WorkerInit | None) -> DataLoader[Any]:
        """A plain DataLoader."""
        generator = torch.Generator().manual_seed(self._seed)
        return loaders.build(self.dataset, settings, collate_fn, worker_init_fn=init, generator=generator)


class LoaderSource:
    """A DataLoader whose sampler, generator, functions and class are kept; only its settings change.

    Args:
        template: The DataLoader; it is never iterated itself.
        project: Where it stands in a project's config; None if it comes from none.
    """

    def __init__(self, template: DataLoader[Any], project: ProjectFacts | None = None) -> None:
        self.project = project
        self._template = template
        self.settings = loaders.settings_of(template)

    @property
    def dataset(self) -> Any:
        """The DataLoader's."""
        return self._template.dataset

    @property
    def samples(self) -> int | None:
        """What its sampler takes."""
        return loaders.samples_per_epoch(self._template)

    def loader(self, settings: LoaderSettings, collate_fn: Collate | None, init: WorkerInit | None) -> DataLoader[Any]:
        """Another one like the template."""
        loader = loaders.retuned(self._template, settings)
        if collate_fn is not None:
            loader.collate_fn = collate_fn
        if init is not None:
            init.user_function = loader.worker_init_fn
            loader.worker_init_fn = init
        return loader


class RankSource:
    """Another source, of which one rank takes its share.

    Args:
        whole: What all of them share.
        rank: Which one this is.
        seed: Decides the order of the samples, which all ranks must agree on.
    """

    def __init__(self, whole: Source, rank: Rank, seed: int) -> None:
        self._whole = whole
        self._rank = rank
        self._seed = seed
        self.dataset = whole.dataset
        self.settings = whole.settings
        self.project = whole.project

    @property
    def samples(self) -> int | None:
        """Those of all ranks, where a sampler shares them out; else what this one says of itself."""
        settings = self.settings or LoaderSettings(batch_size=1)
        plain = self._whole.loader(replace(settings, num_workers=0).canonical(), None, None)
        return sharding.samples_of_all(plain)

    def loader(self, settings: LoaderSettings, collate_fn: Collate | None, init: WorkerInit | None) -> DataLoader[Any]:
        """One with this rank's samples."""
        return sharding.shared_out(self._whole.loader(settings, collate_fn, init), self._rank, self._seed)
