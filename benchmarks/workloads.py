"""The datasets that are measured: each has one thing that makes it slow. A sample depends on its index only."""

from __future__ import annotations

import math
import os
import random
import time

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset, TensorDataset
from torchvision.transforms import (
    Compose,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    ToTensor,
)

from nws_sweep.datasets.photos import Photos


class Latency(Dataset[torch.Tensor]):
    """Sleeps for each sample, as if it came over a network.

    Args:
        samples: Its length.
        mean_s: Mean time of a sample, s.
        spread: Standard deviation of the logarithm of the time; 0 for equal times.
        values: Length of a sample, a float32 tensor.
    """

    def __init__(self, samples: int, mean_s: float, spread: float = 0.0, values: int = 256) -> None:
        self._samples = samples
        self._median_s = mean_s / math.exp(spread**2 / 2)
        self._spread = spread
        self._values = values

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self._median_s * math.exp(random.Random(index).gauss(0.0, self._spread)))
        return torch.full((self._values,), float(index))


class Arithmetic(Dataset[torch.Tensor]):
    """About a millisecond of CPU time for each sample, most of it in the interpreter, the rest in NumPy.

    Args:
        samples: Its length.
        share: How much of that is done: 0.1 makes samples of about a tenth of a millisecond.
    """

    def __init__(self, samples: int, share: float = 1.0) -> None:
        self._samples = samples
        self._steps = round(10_000 * share)
        self._sines = round(10 * share)
        self._start = np.linspace(0.0, 1.0, 4096)

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> torch.Tensor:
        digest = index
        for step in range(self._steps):
            digest = (digest * 31 + step) % 65_521
        values = self._start + digest
        for _ in range(self._sines):
            values = np.sin(values) + 1.0
        return torch.from_numpy(values[:64])


class FetchedArithmetic(Arithmetic):
    """Sleeps for each sample, and computes then: two causes in one.

    Args:
        samples: Its length.
        mean_s: Time that each sample sleeps, s.
        share: How much is computed, as ``Arithmetic`` has it.
    """

    def __init__(self, samples: int, mean_s: float, share: float = 1.0) -> None:
        super().__init__(samples, share)
        self._mean_s = mean_s

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self._mean_s)
        return super().__getitem__(index)


class LabelledArithmetic(Arithmetic):
    """The same, with labels to train on: 64 values a sample."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:  # type: ignore[override]
        return super().__getitem__(index).float(), index % 10


class Hungry(Latency):
    """Each process that loads from it holds a buffer.

    Args:
        samples: Its length.
        mean_s: Mean time of a sample, s.
        held_bytes: Size of the buffer, B.
    """

    def __init__(self, samples: int, mean_s: float, held_bytes: int) -> None:
        super().__init__(samples, mean_s)
        self._held_bytes = held_bytes
        self._held: dict[int, bytes] = {}

    def __getitem__(self, index: int) -> torch.Tensor:
        if os.getpid() not in self._held:
            self._held = {os.getpid(): b"x" * self._held_bytes}
        return super().__getitem__(index)


class InMemory(TensorDataset):
    """Random samples that are in memory already, with integer labels.

    Args:
        samples: Its length.
        values: Length of a sample, a float32 tensor.
    """

    def __init__(self, samples: int, values: int = 784) -> None:
        super().__init__(torch.randn(samples, values), torch.randint(10, (samples,)))


class Jpeg(Dataset[tuple[torch.Tensor, int]]):
    """JPEG photos of 500 x 375 pixels, cropped and resized to 224 x 224 at random; the same 2048 again and again.

    Args:
        samples: Its length.
        root: Folder that the folder of files is made in, once.
    """

    def __init__(self, samples: int, root: str) -> None:
        self._samples = samples
        self._photos = Photos(root, transform=Compose([RandomResizedCrop(224), ToTensor()]))

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, label = self._photos[index % len(self._photos)]
        return image, label


class Cifar(Dataset[tuple[torch.Tensor, int]]):
    """Random images of CIFAR-10's shape in one array in memory, with the transforms that everybody trains it with.

    Args:
        samples: Its length.
    """

    def __init__(self, samples: int) -> None:
        self._images = np.random.default_rng(0).integers(256, size=(samples, 32, 32, 3), dtype=np.uint8)
        self._transform = Compose(
            [
                RandomCrop(32, padding=4),
                RandomHorizontalFlip(),
                ToTensor(),
                Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
            ]
        )

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._transform(Image.fromarray(self._images[index])), index % 10


class Heavy(Dataset[torch.Tensor]):
    """Large samples that are quick to make: parts of one array, after half a millisecond of sleep.

    Args:
        samples: Its length.
        values: Length of a sample, a float32 tensor.
    """

    def __init__(self, samples: int, values: int = 196_608) -> None:
        self._samples = samples
        self._values = values
        self._source = torch.randn(2 * values)

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.0005)
        first = index % self._values
        return self._source[first : first + self._values]
