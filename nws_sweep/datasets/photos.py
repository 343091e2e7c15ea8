"""JPEG files of about the size of ImageNet's, made once from a photograph, without a
download."""

import logging
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import filelock
from PIL import Image
from torch.utils.data import Dataset

from nws_sweep.errors import DatasetError
from nws_sweep.records.atomic import expand_user

logger = logging.getLogger(__name__)

_RECIPE = 1  # in the folder's name; to be raised with each change of the files' content
_FILE = "{:06d}.jpg"
_PROGRESS_EVERY = 256
_CLASSES = 10


class Photos(Dataset[tuple[Any, int]]):
    """A folder of JPEG files: random crops of the photograph that matplotlib ships,
    half of them mirrored.

    A sample is an image, and the label i modulo 10 of file i.

    The folder is made on first use under a temporary name and renamed when it is
    complete. DatasetError if an argument is out of range or the folder cannot be
    written.

    Args:
        root: Parent of the folder; ``~`` is expanded.
        count: Number of files, at least 1.
        width, height: Pixels, 1 to 10,000.
        quality: JPEG quality, 1 to 95.
        transform: Called with each ``PIL.Image`` in mode RGB.
    """

    def __init__(
        self,
        root: str,
        count: int = 2048,
        width: int = 500,
        height: int = 375,
        quality: int = 90,
        transform: Callable[[Image.Image], Any] | None = None,
    ) -> None:
        if count < 1:
            raise DatasetError(f"dataset.count={count}: must be at least 1")
        for option, value, most in (
            ("width", width, 10_000),
            ("height", height, 10_000),
            ("quality", quality, 95),
        ):
            if not 1 <= value <= most:
                raise DatasetError(f"dataset.{option}={value}: must be 1 to {most}")
        self.folder = (
            expand_user(root) / f"photos-{count}-{width}x{height}-q{quality}-v{_RECIPE}"
        )
        self.transform = transform
        self._count = count
        try:
            _ensure(self.folder, count, (width, height), quality)
        except OSError as error:
            raise DatasetError(
                f"dataset.root={root}: cannot make photos there ({error})"
            ) from error

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if not 0 <= index < self._count:
            raise IndexError(index)
        with Image.open(self.folder / _FILE.format(index)) as file:
            image: Any = file.convert("RGB")
        if self.transform:
            image = self.transform(image)
        return image, index % _CLASSES


def _ensure(folder: Path, count: int, size: tuple[int, int], quality: int) -> None:
    """Makes the folder unless it is there."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder.with_name(folder.name + ".lock")):
        # made by another process while this one waited for the lock
        if folder.is_dir():
            return
        # from an interrupted process
        for leftover in folder.parent.glob(f".{folder.name}-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        unfinished = Path(
            tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent)
        )
        _make(unfinished, count, size, quality)
        unfinished.chmod(0o755)  # mkdtemp makes it unreadable for other users
        unfinished.rename(folder)


def _make(folder: Path, count: int, size: tuple[int, int], quality: int) -> None:
    import matplotlib

    with Image.open(
        Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
    ) as file:
        source = file.convert("RGB")

    def save(index: int) -> None:
        image = _variation(source, random.Random(index), size)
        image.save(folder / _FILE.format(index), quality=quality)

    # Pillow releases the GIL while it resizes and encodes, so threads use all cores.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, _ in enumerate(pool.map(save, range(count))):
            if done % _PROGRESS_EVERY == 0:
                logger.info(
                    "making %d JPEG files, once: %d %%", count, 100 * done // count
                )


def _variation(
    source: Image.Image, rng: random.Random, size: tuple[int, int]
) -> Image.Image:
    """Returns a random crop of 60 to 100 % of the largest that fits, resized, and
    mirrored with probability 0.5."""
    largest = min(source.width / size[0], source.height / size[1])
    scale = largest * rng.uniform(0.6, 1.0)
    width, height = scale * size[0], scale * size[1]
    left = rng.uniform(0, source.width - width)
    top = rng.uniform(0, source.height - height)
    image = source.resize(
        size, Image.Resampling.BICUBIC, box=(left, top, left + width, top + height)
    )
    if rng.random() < 0.5:
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return image
