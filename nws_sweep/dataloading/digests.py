"""Tells samples apart: digests of what a loader delivers, sample by sample and part by part. Runs in the workers.

And loads single samples of a dataset beside a measurement, to compare them with those of workers.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import multiprocessing
import operator
import pickle
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from nws_sweep.results import SampleMade, SamplePart

# Of a larger part some stretches stand for the whole, so that a digest takes less than a tenth of a millisecond.
_WHOLE_BYTES = 65_536
_STRETCHES = 16
# Samples of each worker's stream that are logged.
STREAM_SAMPLES = 64
_LOG = "samples-"


class Delivered(NamedTuple):
    """Stands for a batch: who made it, and a digest of each sample in it, None where there is nothing to compare."""

    worker: int
    digests: list[bytes | None]


def identify(samples: Any) -> Delivered:
    """A collate_fn that gives ``Delivered`` instead of a batch."""
    worker = get_worker_info()
    return Delivered(worker.id if worker else 0, [digest_of(sample) for sample in samples])


def identify_one(sample: Any) -> Delivered:
    """The same for ``batch_size=None``, where it is called with one sample."""
    return identify([sample])


def digest_of(sample: Any) -> bytes | None:
    """Eight bytes that are equal for equal samples; None if a part of it cannot be compared."""
    parts = parts_of(sample)
    contents = [part.content for part in parts if part.content is not None]
    if len(contents) < len(parts):
        return None
    return _digest(*(part.form + content for part, content in zip(parts, contents, strict=True)))


def parts_of(sample: Any) -> tuple[SamplePart, ...]:
    """Digests of the parts of a sample: of each tensor, array, image or plain value in it, in their order."""
    return tuple(_parts(sample, ""))


def _parts(value: Any, place: str) -> Iterator[SamplePart]:
    place = f"{place}/{type(value).__name__}"
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _parts(inner, f"{place}:{key!r}")
    elif isinstance(value, list | tuple) and value:
        for number, inner in enumerate(value):
            yield from _parts(inner, f"{place}:{number}")
    else:
        form = f"{place} {getattr(value, 'dtype', '')} {getattr(value, 'shape', getattr(value, 'size', ''))}"
        yield SamplePart(form=_digest(form.encode()), content=_content(value))


def _content(value: Any) -> bytes | None:
    try:
        if hasattr(value, "untyped_storage"):
            value = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        elif hasattr(value, "tobytes"):  # arrays and images
            value = value.tobytes()
        elif not isinstance(value, bytes):
            value = pickle.dumps(value)
        content = memoryview(value).cast("B")
        if len(content) <= _WHOLE_BYTES:
            return _digest(content)
        length = _WHOLE_BYTES // _STRETCHES
        begins = (number * (len(content) - length) // (_STRETCHES - 1) for number in range(_STRETCHES))
        return _digest(*(content[begin : begin + length] for begin in begins))
    except Exception:  # whatever a sample's parts raise
        return None


def _digest(*chunks: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=8)
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()


class SampleLog:
    """Digests of a few of the samples that the workers of one loader have made, in a file of each worker.

    Of a map-style dataset the first and last of a worker's batches 0, 1, 3, 7, 15 and so on, else each stream's first.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def note(self, worker: int, key: Any, sample: Any) -> None:
        """Logs a sample, if it can be and its key is a number or a string."""
        with contextlib.suppress(Exception), Path(self._folder, f"{_LOG}{worker}").open("ab") as file:
            plain = key if isinstance(key, str) else operator.index(key)
            made = SampleMade(worker=worker, key=plain, parts=parts_of(sample))
            file.write(msgspec.json.encode(made) + b"\n")

    def note_batch(self, worker: int, number: int, indices: Sequence[Any], samples: Sequence[Any]) -> None:
        """Logs samples of a worker's batch, numbered from 0, of a map-style dataset."""
        if number & (number + 1) == 0 and len(samples) == len(indices) > 0:
            for place in {0, len(indices) - 1}:
                self.note(worker, indices[place], samples[place])

    def read(self) -> tuple[SampleMade, ...]:
        """All that was logged, each worker's in the order of making; without a line that is being written."""
        logs = (path.read_bytes() for path in sorted(Path(self._folder).glob(f"{_LOG}*")))
        lines = (line for log in logs for line in log[: log.rfind(b"\n") + 1].splitlines())
        return tuple(msgspec.json.decode(line, type=SampleMade) for line in lines)


def load_in_process(dataset: Any, keys: Sequence[Any], limit_s: float | None) -> tuple[SampleMade, ...]:
    """Samples as this process loads them, without those that raise; after ``limit_s`` none but the first is begun.

    Of an iterable dataset as many samples of a new iterator as there are keys.
    """
    began = time.perf_counter()
    found: list[SampleMade] = []
    with _random_numbers_kept():
        stream = iter(dataset) if isinstance(dataset, IterableDataset) else None
        for key in keys:
            if found and limit_s is not None and time.perf_counter() - began > limit_s:
                break
            with contextlib.suppress(Exception):  # the candidates that meet it say so
                sample = dataset[key] if stream is None else next(stream)
                found.append(SampleMade(worker=0, key=key, parts=parts_of(sample)))
    return tuple(found)


def load_one_by_one(
    dataset: Any, samples: Sequence[SampleMade], start: Callable[[int], Any], context: str | None
) -> tuple[SampleMade, ...]:
    """The samples as workers of the same numbers, with ``start`` as ``worker_init_fn``, load them one at a time."""
    of_worker: dict[int, list[Any]] = {}
    for sample in samples:
        of_worker.setdefault(sample.worker, []).append(sample.key)
    workers, rounds = 1 + max(of_worker), max(map(len, of_worker.values()))
    # DataLoader gives each worker every workers-th of these.
    order = [of_worker.get(worker, [])[turn : turn + 1] for turn in range(rounds) for worker in range(workers)]
    init = functools.partial(_take_turns, start, multiprocessing.get_context(context).Lock())
    with _random_numbers_kept():
        loader: DataLoader[Any] = DataLoader(
            dataset, batch_size=None, sampler=order, num_workers=workers, worker_init_fn=init,
            multiprocessing_context=context,
        )  # fmt: skip
        return tuple(made for made in loader if made is not None)


def _take_turns(start: Callable[[int], Any], lock: Any, worker_id: int) -> None:
    """A ``worker_init_fn``: the worker's dataset gives digests, while no other worker loads."""
    start(worker_id)
    worker = get_worker_info()
    assert worker is not None  # this is one
    kind: Any = type(worker.dataset)

    def digests(self: Any, keys: list[Any]) -> SampleMade | None:
        with lock:
            parts = [parts_of(kind.__getitem__(self, key)) for key in keys]
        return SampleMade(worker=worker_id, key=keys[0], parts=parts[0]) if keys else None

    worker.dataset.__class__ = type(kind.__name__, (kind,), {"__slots__": (), "__getitem__": digests})


@contextlib.contextmanager
def _random_numbers_kept() -> Iterator[None]:
    kept = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])
