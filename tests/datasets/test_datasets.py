import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset
from torchvision.datasets import MNIST

from nws_sweep.datasets.photos import Photos
from nws_sweep.datasets.synthetic import OnDevice, Sleep, pixels, tensor
from nws_sweep.errors import DatasetError
from tests.real_files import write_mnist


def test_photos_are_jpeg_files_of_the_given_size_with_labels(tmp_path: Path) -> None:
    photos = Photos(
        str(tmp_path),
        count=12,
        width=100,
        height=75,
        transform=lambda image: image.size,
    )
    files = sorted(photos.folder.glob("*.jpg"))
    assert len(files) == len(photos) == len({path.read_bytes() for path in files}) == 12
    with Image.open(files[11]) as image:
        assert (image.format, image.size) == ("JPEG", (100, 75))
    assert photos[11] == ((100, 75), 1)
    with pytest.raises(IndexError):
        photos[12]
    image, _ = Photos(str(tmp_path), count=12, width=100, height=75)[0]
    assert (image.mode, np.asarray(image).std() > 10) == ("RGB", True)


def test_photos_are_made_once_and_are_the_same_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    first = Photos("~/a", count=3, width=50, height=40).folder
    assert first.parent == tmp_path / "a"
    times = {path.name: path.stat().st_mtime_ns for path in first.iterdir()}
    Photos("~/a", count=3, width=50, height=40)
    assert {path.name: path.stat().st_mtime_ns for path in first.iterdir()} == times
    assert first not in {
        Photos("~/a", count=3, width=50, height=h, quality=q).folder
        for h, q in ((41, 90), (40, 50))
    }
    second = Photos(str(tmp_path / "b"), count=3, width=50, height=40).folder
    assert [p.read_bytes() for p in sorted(first.iterdir())] == [
        p.read_bytes() for p in sorted(second.iterdir())
    ]


def test_an_interrupted_folder_of_photos_is_not_used(tmp_path: Path) -> None:
    with (
        patch.object(Image.Image, "save", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        Photos(str(tmp_path), count=2, width=50, height=40)
    assert list(tmp_path.glob(".photos-2-*"))
    photos = Photos(str(tmp_path), count=2, width=50, height=40)
    assert len(list(photos.folder.glob("*.jpg"))) == 2
    assert not list(tmp_path.glob(".photos-2-*"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((lambda given=given: Photos("x", **given), rf"{'='.join(map(str, *given.items()))}: must be ")
            for given in ({"count": 0}, {"width": 0}, {"height": 10_001}, {"quality": 96})),
        (lambda: Photos(__file__, count=1), "root=.*cannot make photos there"),
        (lambda: Sleep(length=0, seconds_per_sample=1), "length=0: must be at least 1$"),
        (lambda: Sleep(length=1, seconds_per_sample=1, spread=-2), "spread=-2: must be at least 0$"),
        (lambda: tensor(length=0), "length=0"),
    ],
)  # fmt: skip
def test_values_out_of_range_are_one_line(
    make: Any, message: str, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetError, match=rf"^dataset\.{message}.*\Z"):
        make()
    assert not list(tmp_path.iterdir())


def test_sleep_times_are_log_normal_and_equal_for_all_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    sleepy: Any = Sleep(length=3, seconds_per_sample=0.5)
    assert [sample.item() for sample in sleepy] == [0, 1, 2]
    assert slept == [0.5] * 3
    slept.clear()
    for sleepy in (Sleep(2000, 0.1, spread=0.5), Sleep(2000, 0.1, spread=0.5)):
        assert len(list(sleepy)) == 2000
    assert slept[:2000] == slept[2000:]
    assert np.median(slept) == pytest.approx(0.1, rel=0.05)
    assert np.log(slept[:2000]).std() == pytest.approx(0.5, rel=0.05)


def test_tensors_have_the_shape_and_type_that_a_network_expects(tmp_path: Path) -> None:
    write_mnist(tmp_path, images=12)
    mnist = MNIST(str(tmp_path))
    image, label = pixels(mnist)[5]
    assert (image.shape, image.dtype, int(label)) == (
        torch.Size([784]),
        torch.float32,
        mnist[5][1],
    )
    images, _ = pixels(mnist).tensors
    assert images.std() == pytest.approx(1.0)
    assert images.mean() == pytest.approx(0.0, abs=1e-5)
    sample, label = tensor(length=5, shape=[3, 2], classes=4)[4]
    assert (sample.shape, sample.dtype, 0 <= label < 4) == (
        torch.Size([3, 2]),
        torch.float32,
        True,
    )


def test_batches_on_the_device() -> None:
    source = TensorDataset(torch.arange(40.0).reshape(20, 2), torch.arange(20))
    loader = DataLoader(OnDevice(source, "cpu"), batch_size=8)
    batches = list(loader)
    assert [len(labels) for _, labels in batches] == [8, 8, 4]
    assert torch.equal(torch.cat([labels for _, labels in batches]), source.tensors[1])
    assert torch.equal(batches[1][0], source.tensors[0][8:16])
    assert [int(part.sum()) for part in OnDevice(source)[3]] == [13, 3]
