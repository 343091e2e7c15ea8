"""JPEG files on disk, made once out of a real photograph, about the size of ImageNet's: real decoding, no download."""

from __future__ import annotations

import logging
import math
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
from nws_sweep.results.atomic import expand_user

logger = logging.getLogger(__name__)

# Part of the folder's name: raise it when the files would come out different, and old folders are left alone.
_RECIPE = 1
_PROGRESS_EVERY = 256


class Photos(Dataset[tuple[Any, int]]):
    """A folder of JPEG files, each a random crop of the photograph that matplotlib ships, some of them mirrored.

    The folder is made when it is first needed, under a temporary name, and renamed when it is complete: one whose
    making was interrupted is never mistaken for a finished one.

    Args:
        root: Folder that the folder of files is made in; ``~`` is expand_user.
        count: Files, at least 1.
        width: Pixels.
        height: Pixels.
        quality: JPEG quality, 1 to 95.
        transform: Called with each ``PIL.Image`` in mode RGB.
        classes: Labels go round from 0 to ``classes - 1``.

    Raises:
        DatasetError: If an argument is out of range or the folder cannot be written.
    """

    def __init__(
        self,
        root: str,
        count: int = 2048,
        width: int = 500,
        height: int = 375,
        quality: int = 90,
        transform: Callable[[Image.Image], Any] | None = None,
        classes: int = 10,
    ) -> None:
        most = {"count": math.inf, "width": 10_000, "height": 10_000, "quality": 95}
        for name, value in {"count": count, "width": width, "height": height, "quality": quality}.items():
            if not 1 <= value <= most[name]:
                allowed = "at least 1" if most[name] == math.inf else f"1 to {most[name]}"
                raise DatasetError(f"dataset.{name}={value}: allowed is {allowed}")
        name = f"photos-{count}-{width}x{height}-q{quality}-v{_RECIPE}"
        self.folder = expand_user(root) / name
        self.transform = transform
        self._count = count
        self._classes = classes
        try:
            _ensure(self.folder, count, (width, height), quality)
        except OSError as error:
            raise DatasetError(f"dataset.root={root}: photos cannot be made there ({error})") from error

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if not 0 <= index < self._count:
            raise IndexError(index)
        with Image.open(_path(self.folder, index)) as file:
            image = file.convert("RGB")
        return (self.transform(image) if self.transform else image), index % self._classes


def _path(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.jpg"


def _ensure(folder: Path, count: int, size: tuple[int, int], quality: int) -> None:
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder.with_name(folder.name + ".lock")):
        if folder.is_dir():  # made by another process while this one waited
            return
        for leftover in folder.parent.glob(f".{folder.name}-*"):  # of a making that was interrupted
            shutil.rmtree(leftover, ignore_errors=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        _make(unfinished, count, size, quality)
        unfinished.chmod(0o755)  # mkdtemp's own mode would keep other users out
        unfinished.rename(folder)


def _make(folder: Path, count: int, size: tuple[int, int], quality: int) -> None:
    import matplotlib

    with Image.open(Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg") as file:
        source = file.convert("RGB")

    def make_one(index: int) -> None:
        _variation(source, random.Random(index), size).save(_path(folder, index), quality=quality)

    # Pillow lets go of the interpreter's lock while it resizes and encodes, so threads use all cores.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, _ in enumerate(pool.map(make_one, range(count))):
            if done % _PROGRESS_EVERY == 0:
                logger.info("making %d JPEG files, once: %d %%", count, 100 * done // count)


def _variation(source: Image.Image, rng: random.Random, size: tuple[int, int]) -> Image.Image:
    """A random crop of the target's shape, 60 to 100 % of the largest that fits, mirrored half of the time."""
    largest = min(source.width / size[0], source.height / size[1])
    scale = largest * rng.uniform(0.6, 1.0)
    width, height = scale * size[0], scale * size[1]
    left, top = rng.uniform(0, source.width - width), rng.uniform(0, source.height - height)
    image = source.resize(size, Image.Resampling.BICUBIC, box=(left, top, left + width, top + height))
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else image
