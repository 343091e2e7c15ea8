"""Computes digests of samples and of their parts in the workers, and loads samples
again for comparison."""

import contextlib
import functools
import hashlib
import itertools
import multiprocessing
import operator
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch.utils.data import DataLoader, get_worker_info

from nws_sweep.records import SampleMade, SamplePart

_MOST_BYTES = 65_536  # hashed of a larger part, about, and evenly spaced
_MOST_PARTS = 64  # numbers of a list with a digest each
STREAM_SAMPLES = 64  # logged samples of each worker of an iterable dataset
_LOG = "samples-"


def parts_of(value: Any, place: str = "") -> Iterator[SamplePart]:
    """Yields digests of the tensors, arrays, images, long lists of numbers and plain
    values in a sample, in order."""
    place = f"{place}/{type(value).__name__}"
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from parts_of(inner, f"{place}:{key!r}")
    elif isinstance(value, list | tuple) and value and not _is_vector(value):
        for number, inner in enumerate(value):
            yield from parts_of(inner, f"{place}:{number}")
    else:
        size = getattr(value, "shape", getattr(value, "size", ""))
        form = f"{place} {getattr(value, 'dtype', '')} {size}"
        yield SamplePart(form=_digest(form.encode()), content=_content(value))


def _is_vector(values: Sequence[Any]) -> bool:
    """Whether these are many plain numbers, such as tokens: a digest of each would take
    tens of milliseconds."""
    return len(values) > _MOST_PARTS and {*map(type, values)} <= {int, float, bool}


def _content(value: Any) -> bytes | None:
    """Returns the digest of a value's bytes, evenly spaced bytes of a large value; None
    if it has no bytes."""
    try:
        if hasattr(value, "untyped_storage"):
            value = (
                value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            )
        elif hasattr(value, "tobytes"):  # arrays and images
            value = value.tobytes()
        elif not isinstance(value, bytes):
            value = pickle.dumps(value)
        content = memoryview(value).cast("B")
        # odd, so that it reaches each byte of numbers
        step = len(content) // _MOST_BYTES | 1
        return _digest(np.frombuffer(content, np.uint8)[::step].tobytes())
    except Exception:  # code of the user may raise anything
        return None


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class SampleLog:
    """Digests of some samples of each worker, in one file per worker of a folder.

    Of a map-style dataset: the first and the last sample of a worker's batches 0, 1, 3,
    7, 15 and so on. Of an iterable dataset: the first ``STREAM_SAMPLES`` of each
    worker.
    """

    folder: str

    def note(self, worker: int, key: Any, sample: Any) -> None:
        """Logs a sample; skips it if its key is neither an integer nor a string, or if
        writing fails."""
        with (
            contextlib.suppress(Exception),
            Path(self.folder, f"{_LOG}{worker}").open("ab") as file,
        ):
            plain_key = key if isinstance(key, str) else operator.index(key)
            logged = SampleMade(
                worker=worker, key=plain_key, parts=tuple(parts_of(sample))
            )
            file.write(msgspec.json.encode(logged) + b"\n")

    def note_batch(
        self, worker: int, number: int, indices: Sequence[Any], samples: Sequence[Any]
    ) -> None:
        """Logs samples of a worker's batch of a map-style dataset; batches are numbered
        from 0."""
        is_logged = number & (number + 1) == 0  # 0, 1, 3, 7, 15, ...
        if is_logged and len(samples) == len(indices) > 0:
            for place in {0, len(indices) - 1}:
                self.note(worker, indices[place], samples[place])

    def read(self) -> tuple[SampleMade, ...]:
        """Returns the logged samples, in the order of each worker; an unfinished last
        line is ignored."""
        samples = []
        for path in sorted(Path(self.folder).glob(f"{_LOG}*")):
            *lines, _ = path.read_bytes().split(b"\n")
            samples += [msgspec.json.decode(line, type=SampleMade) for line in lines]
        return tuple(samples)


def load_in_process(
    dataset: Any, keys: Sequence[Any], limit_s: float | None
) -> tuple[SampleMade, ...]:
    """Loads samples in this process, without those that raise; starts no further sample
    after ``limit_s``.

    The state of torch's generator, by which samplers order the epochs of this process,
    stays.
    """
    began_s = time.perf_counter()
    samples: list[SampleMade] = []
    with torch.random.fork_rng(devices=[]):
        for key in keys:
            if (
                samples
                and limit_s is not None
                and time.perf_counter() - began_s > limit_s
            ):
                break
            # a trial that loads the sample reports the exception
            with contextlib.suppress(Exception):
                samples.append(
                    SampleMade(worker=0, key=key, parts=tuple(parts_of(dataset[key])))
                )
    return tuple(samples)


def load_one_by_one(
    loader: DataLoader[Any], samples: Sequence[SampleMade]
) -> tuple[SampleMade, ...]:
    """Loads samples again in workers with the numbers and the start of the loader's
    workers, one at a time."""
    workers = 1 + max(sample.worker for sample in samples)
    batches: list[list[list[Any]]] = [[] for _ in range(workers)]  # of each worker
    for sample in samples:
        batches[sample.worker].append([sample.key])
    # as DataLoader assigns batches to its workers
    in_rotation = itertools.zip_longest(*batches, fillvalue=[])
    order: list[list[Any]] = list(itertools.chain.from_iterable(in_rotation))
    context: Any = loader.multiprocessing_context
    lock = (context or multiprocessing).Lock()
    with torch.random.fork_rng(devices=[]):
        one_by_one: DataLoader[Any] = DataLoader(
            loader.dataset,
            batch_size=None,
            sampler=order,
            num_workers=workers,
            worker_init_fn=functools.partial(
                _digest_with_lock, loader.worker_init_fn, lock
            ),
            multiprocessing_context=context,
        )
        return tuple(sample for sample in one_by_one if sample is not None)


def _digest_with_lock(start: Any, lock: Any, worker_id: int) -> None:
    """A ``worker_init_fn``: makes the dataset return digests; the lock allows one
    loading worker at a time."""
    start(worker_id)
    worker = get_worker_info()
    assert worker is not None
    kind: Any = type(worker.dataset)

    def digests(self: Any, keys: list[Any]) -> SampleMade | None:
        if not keys:
            return None
        (key,) = keys
        with lock:
            parts = tuple(parts_of(kind.__getitem__(self, key)))
        return SampleMade(worker=worker_id, key=key, parts=parts)

    # With no slots of its own, since objects without a ``__dict__`` cannot get a
    # class that has one.
    worker.dataset.__class__ = type(
        kind.__name__, (kind,), {"__slots__": (), "__getitem__": digests}
    )
