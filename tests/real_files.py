"""Writes small files in exactly the format of MNIST."""

import struct
from pathlib import Path

import numpy as np


def write_mnist(root: Path, images: int = 600) -> None:
    """``MNIST/raw`` as torchvision unpacks it: four files in the IDX format; the test
    set has a sixth of the images."""
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    source = np.random.default_rng(0)
    for name, count in (("train", images), ("t10k", images // 6)):
        pixels = source.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = source.integers(0, 10, count, dtype=np.uint8)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(
            struct.pack(">4i", 0x803, count, 28, 28) + pixels.tobytes()
        )
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2i", 0x801, count) + labels.tobytes()
        )
