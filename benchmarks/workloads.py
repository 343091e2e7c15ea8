"""Datasets with known costs. A sample depends only on its index; ``samples`` is the
length of the dataset."""

import fcntl
import hashlib
import math
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset, Sampler, TensorDataset
from torchvision.transforms import (
    Compose,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    ToTensor,
)

from nws_sweep.datasets.photos import Photos


class _Sized(Dataset[Any]):
    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples


class Latency(_Sized):
    """Sleeps for each sample, as a read over a network does.

    Times are log-normal with mean ``mean_s``, s, and ``spread``, the standard deviation
    of their logarithm; samples of the second half take ``rise`` times as long. A sample
    is a float32 tensor, shape (values,).
    """

    def __init__(
        self,
        samples: int,
        mean_s: float,
        spread: float = 0.0,
        values: int = 256,
        rise: float = 1.0,
    ) -> None:
        super().__init__(samples)
        self._mean_s = mean_s
        self._spread = spread
        self._values = values
        self._rise = rise

    def __getitem__(self, index: int) -> torch.Tensor:
        rise = self._rise if 2 * index >= len(self) else 1.0
        time.sleep(rise * self._sleep_s(index))
        return torch.full((self._values,), float(index))

    def _sleep_s(self, index: int) -> float:
        return self._mean_s * math.exp(
            random.Random(index).gauss(0.0, self._spread) - self._spread**2 / 2
        )


class Pareto(Latency):
    """Times have a Pareto distribution with mean ``mean_s`` and shape 1.5, so their
    variance is infinite."""

    def _sleep_s(self, index: int) -> float:
        return self._mean_s / 3 * random.Random(index).paretovariate(1.5)


class Bimodal(Latency):
    """One sample in fifty, at random places, takes a hundred times ``mean_s``, the
    others ``mean_s``."""

    def _sleep_s(self, index: int) -> float:
        return self._mean_s * (100 if random.Random(index).random() < 1 / 50 else 1)


class EveryEighth(Latency):
    """Samples of every eighth batch take twenty times ``mean_s``, the others
    ``mean_s``."""

    def __init__(self, samples: int, mean_s: float, batch_size: int) -> None:
        super().__init__(samples, mean_s)
        self._batch_size = batch_size

    def _sleep_s(self, index: int) -> float:
        is_dear = index // self._batch_size % 8 == 7
        return self._mean_s * (20 if is_dear else 1)


class Sorted(Latency):
    """Times rise evenly from ``least_s`` for the first sample to ``most_s`` for the
    last."""

    def __init__(self, samples: int, least_s: float, most_s: float) -> None:
        super().__init__(samples, least_s)
        self._rise_s = (most_s - least_s) / (samples - 1)

    def _sleep_s(self, index: int) -> float:
        return self._mean_s + index * self._rise_s


class SlowSampler(Sampler[int]):
    """The indices in order, each after a wait of ``wait_s``."""

    def __init__(self, samples: int, wait_s: float) -> None:
        self._samples, self._wait_s = samples, wait_s

    def __len__(self) -> int:
        return self._samples

    def __iter__(self) -> Iterator[int]:
        for index in range(self._samples):
            time.sleep(self._wait_s)
            yield index


class Threads(_Sized):
    """A thread of the dataset uses ``cpu_s`` of CPU time for each sample, without the
    interpreter's lock."""

    def __init__(self, samples: int, cpu_s: float) -> None:
        super().__init__(samples)
        self._cpu_s = cpu_s

    def __getitem__(self, index: int) -> torch.Tensor:
        thread = threading.Thread(target=self._compute)
        thread.start()
        thread.join()
        return torch.full((256,), float(index))

    def _compute(self) -> None:
        end_s = time.thread_time() + self._cpu_s
        while time.thread_time() < end_s:
            hashlib.sha256(_HASHED).digest()


_HASHED = bytes(50_000)  # about 0.1 ms; hashlib holds the lock for small texts


class ReadOnce(_Sized):
    """Samples of ``sample_bytes`` in a file in ``root``; the first reading of each
    waits ``mean_s``, as from a server.

    Later readings do not wait, in any process, until the dataset is made again, as with
    a page cache. A second file notes what has been read: shared memory would keep trial
    processes from being forked with the dataset.
    """

    def __init__(
        self, samples: int, mean_s: float, sample_bytes: int, root: str
    ) -> None:
        super().__init__(samples)
        self._mean_s, self._sample_bytes = mean_s, sample_bytes
        self._path, self._cached_path = (
            Path(root).expanduser() / name for name in ("sparse", "sparse-cached")
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.truncate(samples * sample_bytes)  # holes, which take no space
        with self._cached_path.open("wb") as file:
            file.truncate(samples)

    def __getitem__(self, index: int) -> torch.Tensor:
        with self._path.open("rb", buffering=0) as file:
            file.seek(index * self._sample_bytes)
            content = file.read(self._sample_bytes)
        with self._cached_path.open("r+b", buffering=0) as file:
            is_cached = os.pread(file.fileno(), 1, index) != b"\0"
            os.pwrite(file.fileno(), b"\1", index)
        if not is_cached:
            time.sleep(self._mean_s)
        return torch.full((256,), float(index + content[0]))


class Disks(_Sized):
    """Each worker reads from one of three disks, which need ``mean_s`` a sample, twice
    that after another worker.

    A disk serves one reader at a time: its file in ``root`` is locked, and the kernel
    unlocks that of a killed worker.
    """

    def __init__(self, samples: int, mean_s: float, root: str) -> None:
        super().__init__(samples)
        self._mean_s, self._root = mean_s, Path(root).expanduser()
        self._root.mkdir(parents=True, exist_ok=True)

    def __getitem__(self, index: int) -> torch.Tensor:
        own = os.getpid()
        with (self._root / f"disk-{own % 3}").open("a+") as disk:
            fcntl.flock(disk, fcntl.LOCK_EX)
            disk.seek(0)
            time.sleep(self._mean_s * (1 if disk.read() == str(own) else 2))
            disk.truncate(0)
            disk.write(str(own))
        return torch.full((256,), float(index))


class Arithmetic(_Sized):
    """About ``share`` x 1 ms of CPU time for each sample, most of it in the
    interpreter, the rest in NumPy."""

    def __init__(self, samples: int, share: float = 1.0) -> None:
        super().__init__(samples)
        self._steps = round(10_000 * share)
        self._sines = round(10 * share)
        self._start = np.linspace(0.0, 1.0, 4096)

    def __getitem__(self, index: int) -> torch.Tensor:
        digest = index
        for step in range(self._steps):
            digest = (digest * 31 + step) % 65_521
        values = self._start + digest
        for _ in range(self._sines):
            values = np.sin(values) + 1.0
        return torch.from_numpy(values[:64])


class FetchedArithmetic(Arithmetic):
    """Sleeps ``mean_s`` for each sample, then computes like ``Arithmetic``."""

    def __init__(self, samples: int, mean_s: float, share: float = 1.0) -> None:
        super().__init__(samples, share)
        self._mean_s = mean_s

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self._mean_s)
        return super().__getitem__(index)


class LabelledArithmetic(Arithmetic):
    """``Arithmetic`` with labels; 64 values per sample."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:  # type: ignore[override]
        return super().__getitem__(index).float(), index % 10


class Hungry(Latency):
    """Holds a buffer of ``held_bytes`` in each process that loads samples."""

    def __init__(self, samples: int, mean_s: float, held_bytes: int) -> None:
        super().__init__(samples, mean_s)
        self._held_bytes = held_bytes
        self._held: dict[int, bytes] = {}

    def __getitem__(self, index: int) -> torch.Tensor:
        if os.getpid() not in self._held:
            self._held = {os.getpid(): b"x" * self._held_bytes}
        return super().__getitem__(index)


class InMemory(TensorDataset):
    """Random float32 samples, shape (values,), in memory, with integer labels."""

    def __init__(self, samples: int, values: int = 784) -> None:
        super().__init__(torch.randn(samples, values), torch.randint(10, (samples,)))


class Jpeg(_Sized):
    """Random crops of 2048 JPEG files of 500 x 375 pixels in ``root``, resized to 224 x
    224; files are repeated."""

    def __init__(self, samples: int, root: str) -> None:
        super().__init__(samples)
        self._photos = Photos(
            root, transform=Compose([RandomResizedCrop(224), ToTensor()])
        )

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, label = self._photos[index % len(self._photos)]
        return image, label


class Demo(Photos):
    """The images of scripts/demo with their transforms, as conf/dataset/photos.yaml has
    them."""

    def __init__(self, samples: int, root: str) -> None:
        normalize = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
        crop = Compose(
            [RandomResizedCrop(224), RandomHorizontalFlip(), ToTensor(), normalize]
        )
        super().__init__(root, count=samples, transform=crop)


class Cifar(_Sized):
    """Random images of CIFAR-10's shape in one array in memory, with the usual
    transforms for training."""

    def __init__(self, samples: int) -> None:
        super().__init__(samples)
        self._images = np.random.default_rng(0).integers(
            256, size=(samples, 32, 32, 3), dtype=np.uint8
        )
        normalize = Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
        self._transform = Compose(
            [RandomCrop(32, padding=4), RandomHorizontalFlip(), ToTensor(), normalize]
        )

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._transform(Image.fromarray(self._images[index])), index % 10


class Heavy(_Sized):
    """Large float32 samples, shape (values,): parts of one tensor, after 0.5 ms of
    sleep."""

    def __init__(self, samples: int, values: int = 196_608) -> None:
        super().__init__(samples)
        self._values = values
        self._source = torch.randn(2 * values)

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.0005)
        first = index % self._values
        return self._source[first : first + self._values]
