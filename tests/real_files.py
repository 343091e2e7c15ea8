"""Writes small files in exactly the formats of CIFAR-10 and MNIST."""

import pickle
import struct
from pathlib import Path
from typing import ClassVar

import numpy as np
from torchvision.datasets import CIFAR10


class Cifar10(CIFAR10):  # type: ignore[misc] # torchvision has no types
    """Without the checksums of the original files."""

    train_list: ClassVar[list[list[str | None]]] = [[name, None] for name, _ in CIFAR10.train_list]
    test_list: ClassVar[list[list[str | None]]] = [[name, None] for name, _ in CIFAR10.test_list]
    meta: ClassVar[dict[str, str | None]] = {**CIFAR10.meta, "md5": None}


def write_cifar10(root: Path, images: int = 100) -> None:
    """``cifar-10-batches-py`` as in the archive: six batches of so many images, and the names of the classes."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    source = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        batch = {
            "batch_label": name,
            "labels": source.integers(0, 10, images).tolist(),
            "data": source.integers(0, 256, (images, 3 * 32 * 32), dtype=np.uint8),
            "filenames": [f"{name}_{index}.png" for index in range(images)],
        }
        (folder / name).write_bytes(pickle.dumps(batch))
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    meta = {"label_names": names, "num_cases_per_batch": images, "num_vis": 3072}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta))


def write_mnist(root: Path, images: int = 600) -> None:
    """``MNIST/raw`` as torchvision unpacks it: four files in the IDX format; the test set has a sixth of the images."""
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    source = np.random.default_rng(0)
    for name, count in (("train", images), ("t10k", images // 6)):
        pixels = source.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = source.integers(0, 10, count, dtype=np.uint8)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, count, 28, 28) + pixels.tobytes())
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, count) + labels.tobytes())
