"""LoaderSettings and a dataset make a DataLoader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset

from nws_sweep.records import LoaderSettings


def build(
    dataset: Dataset[Any], settings: LoaderSettings, collate_fn: Callable[[list[Any]], Any] | None = None
) -> DataLoader[Any]:
    """A DataLoader over the dataset with exactly these settings.

    Args:
        dataset: Map-style or iterable, with or without a length.
        settings: Canonical settings (``LoaderSettings.canonical``). ``shuffle`` is ignored for an iterable dataset,
            which has its own order.
        collate_fn: Makes a batch of a list of samples; None for the DataLoader's own.
    """
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
    )


def length(sized: Any) -> int | None:
    """``len`` of a dataset or a loader, None if it has none."""
    try:
        return len(sized)
    except TypeError:
        return None
