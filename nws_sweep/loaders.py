"""LoaderSettings and a dataset make a DataLoader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from nws_sweep.records import LoaderSettings


def build(
    dataset: Dataset[Any],
    settings: LoaderSettings,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    worker_init_fn: Callable[[int], Any] | None = None,
    generator: torch.Generator | None = None,
) -> DataLoader[Any]:
    """A DataLoader over the dataset with exactly these settings.

    Args:
        dataset: Map-style or iterable, with or without a length.
        settings: Canonical settings (``LoaderSettings.canonical``). ``shuffle`` is ignored for an iterable dataset,
            which has its own order.
        collate_fn: Makes a batch of a list of samples; None for the DataLoader's own.
        worker_init_fn: Called in each worker with its number before its first sample.
        generator: Draws the order of the samples; None for torch's own.
    """
    extra: dict[str, Any] = {} if settings.in_order else {"in_order": False}  # unknown to older versions
    return DataLoader(
        dataset,
        batch_size=settings.batch_size,
        collate_fn=collate_fn,
        shuffle=None if isinstance(dataset, IterableDataset) else settings.shuffle,
        num_workers=settings.num_workers,
        pin_memory=settings.pin_memory,
        drop_last=settings.drop_last,
        timeout=settings.timeout,
        multiprocessing_context=settings.multiprocessing_context,
        prefetch_factor=settings.prefetch_factor,
        persistent_workers=settings.persistent_workers,
        worker_init_fn=worker_init_fn,
        generator=generator,
        **extra,
    )


def length(sized: Any) -> int | None:
    """``len`` of a dataset or a loader, None if it has none."""
    try:
        return len(sized)
    except TypeError:
        return None
