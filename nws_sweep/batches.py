"""What a batch holds: samples, bytes, tensors, found in whatever collate functions build."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSize:
    """What a batch weighs: bytes and tensors (or arrays) in it; None where it holds none."""

    bytes: int | None = None
    tensors: int | None = None


def batch_size_of(batch: Any) -> BatchSize:
    """The weight of all tensors and arrays in what a collate_fn builds of tuples, lists and mappings."""
    sizes = list(_tensor_bytes(batch))
    return BatchSize(bytes=sum(sizes), tensors=len(sizes)) if sizes else BatchSize()


def _tensor_bytes(value: Any) -> Iterator[int]:
    size = None
    with contextlib.suppress(RuntimeError):  # sparse tensors do not say
        size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        yield size
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _tensor_bytes(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            yield from _tensor_bytes(inner)


def batch_length(batch: Any, default: int) -> int:
    """Samples in a batch: the first dimension of its first tensor or array, ``default`` where there is none.

    Looks into tuples, lists and mappings (collated dictionaries), as DataLoader's default collate_fn builds them.
    """
    if shape := getattr(batch, "shape", None):
        return int(shape[0])
    if isinstance(batch, Mapping):
        return batch_length(next(iter(batch.values()), None), default)
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        return batch_length(batch[0], default)
    return default
