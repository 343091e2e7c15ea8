"""torchvision's datasets of files, with errors that name the folder and the expected files."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from torch.utils.data import TensorDataset
from torchvision import datasets

from nws_sweep.errors import DatasetError, one_line
from nws_sweep.results.atomic import expand_user

_CONNECT_TIMEOUT_S = 20.0  # torchvision's download has no time limit
_MNIST_MEAN, _MNIST_STD = 0.1307, 0.3081  # of the pixels of the 60,000 training images, scaled to 0..1


class Cifar10(datasets.CIFAR10):  # type: ignore[misc] # torchvision has no types
    """torchvision's class without checksums of the files, so that other data in CIFAR-10's format can be read."""

    train_list: ClassVar[list[list[str | None]]] = [[name, None] for name, _ in datasets.CIFAR10.train_list]
    test_list: ClassVar[list[list[str | None]]] = [[name, None] for name, _ in datasets.CIFAR10.test_list]
    meta: ClassVar[dict[str, str | None]] = {**datasets.CIFAR10.meta, "md5": None}


def cifar10(
    root: str, train: bool = True, download: bool = True, transform: Callable[[Any], Any] | None = None
) -> datasets.CIFAR10:
    """torchvision's CIFAR10 in ``root`` (``~`` is expanded), downloaded if missing; DatasetError if that fails."""
    folder = expand_user(root)
    with _explained("cifar10", folder, "cifar-10-python.tar.gz (or its unpacked folder cifar-10-batches-py)"):
        return Cifar10(str(folder), train=train, download=download, transform=transform)


def mnist(
    root: str, train: bool = True, download: bool = True, transform: Callable[[Any], Any] | None = None
) -> datasets.MNIST:
    """torchvision's MNIST in ``root``/MNIST/raw, like ``cifar10``."""
    folder = expand_user(root)
    with _explained("mnist", folder / "MNIST" / "raw", "the four files of MNIST (train-images-idx3-ubyte.gz, ...)"):
        return datasets.MNIST(str(folder), train=train, download=download, transform=transform)


def mnist_tensors(root: str, train: bool = True, download: bool = True) -> TensorDataset:
    """MNIST as two tensors: normalised images, float32, shape (n, 784), and labels, int64, shape (n,)."""
    images = mnist(root, train, download)
    return TensorDataset(((images.data / 255 - _MNIST_MEAN) / _MNIST_STD).flatten(1), images.targets)


def image_folder(root: str, transform: Callable[[Any], Any] | None = None) -> datasets.ImageFolder:
    """torchvision's ImageFolder, one sub-folder per class; DatasetError if there are no images in sub-folders."""
    try:
        return datasets.ImageFolder(str(expand_user(root)), transform=transform)
    except (FileNotFoundError, NotADirectoryError) as error:
        reason = one_line(error, 160)
        raise DatasetError(f"dataset.root={root}: expected one sub-folder per class with images ({reason})") from error


@contextmanager
def _explained(name: str, folder: Path, files: str) -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_CONNECT_TIMEOUT_S)
    try:
        yield
    # URLError, a refused connection and a missing folder are OSErrors; truncated files raise the others.
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError, ValueError) as error:
        raise DatasetError(
            f"dataset {name} is not in {folder.resolve()} and was not downloaded ({one_line(error, 120)}); "
            f"put {files} there"
        ) from error
    finally:
        socket.setdefaulttimeout(before)
