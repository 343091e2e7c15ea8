"""Tells samples apart: what a loader delivers, sample by sample, instead of batches. Runs in the workers."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch.utils.data import get_worker_info


class Delivered(NamedTuple):
    """Stands for a batch: who made it, and a digest of each sample in it, None where there is nothing to compare."""

    worker: int
    digests: list[bytes | None]


class Identify:
    """A collate_fn that gives ``Delivered`` instead of a batch.

    Args:
        batched: Whether it is called with a list of samples; else with one sample (``batch_size=None``).
    """

    def __init__(self, *, batched: bool) -> None:
        self._batched = batched

    def __call__(self, samples: Any) -> Delivered:
        """Digests of the samples."""
        worker = get_worker_info()
        digests = [digest_of(sample) for sample in (samples if self._batched else [samples])]
        return Delivered(worker.id if worker else 0, digests)


def digest_of(sample: Any) -> bytes | None:
    """Eight bytes that are equal for equal samples; None if a part of it cannot be told."""
    digest = hashlib.blake2b(digest_size=8)
    try:
        _feed(digest, sample)
    except Exception:  # whatever a sample's parts raise
        return None
    return digest.digest()


def _feed(digest: Any, value: Any) -> None:
    digest.update(type(value).__name__.encode())
    if isinstance(value, Mapping):
        for key in value:
            _feed(digest, key)
            _feed(digest, value[key])
    elif isinstance(value, list | tuple):
        for inner in value:
            _feed(digest, inner)
    elif hasattr(value, "untyped_storage"):
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    elif hasattr(value, "tobytes"):  # arrays and images
        digest.update(value.tobytes())
    else:
        digest.update(pickle.dumps(value))
