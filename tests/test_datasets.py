from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset
from torchvision import datasets as torchvision_datasets

from nws_sweep.datasets import vision
from nws_sweep.datasets.photos import Photos
from nws_sweep.datasets.synthetic import OnDevice, Sleep, tensor
from nws_sweep.errors import DatasetError
from tests.real_files import write_cifar10, write_mnist


def test_photos_are_jpeg_files_of_the_size_asked_for_with_labels(tmp_path: Path) -> None:
    photos = Photos(str(tmp_path), count=12, width=100, height=75, transform=lambda image: image.size, classes=10)
    files = sorted(photos.folder.glob("*.jpg"))
    assert len(files) == len(photos) == len({path.read_bytes() for path in files}) == 12
    with Image.open(files[11]) as image:
        assert (image.format, image.size) == ("JPEG", (100, 75))
    assert photos[11] == ((100, 75), 1)
    with pytest.raises(IndexError):
        photos[12]
    image, _ = Photos(str(tmp_path), count=12, width=100, height=75)[0]
    assert (image.mode, np.asarray(image).std() > 10) == ("RGB", True)


def test_photos_are_made_once_and_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    first = Photos("~/a", count=3, width=50, height=40).folder
    assert first.parent == tmp_path / "a"
    times = {path.name: path.stat().st_mtime_ns for path in first.iterdir()}
    Photos("~/a", count=3, width=50, height=40)
    assert {path.name: path.stat().st_mtime_ns for path in first.iterdir()} == times
    others = {Photos("~/a", count=3, width=50, height=h, quality=q).folder for h, q in ((41, 90), (40, 50))}
    assert len({first, *others}) == 3
    second = Photos(str(tmp_path / "b"), count=3, width=50, height=40).folder
    assert [p.read_bytes() for p in sorted(first.iterdir())] == [p.read_bytes() for p in sorted(second.iterdir())]


def test_an_interrupted_making_is_not_mistaken_for_a_finished_one(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys
        from nws_sweep.datasets.photos import Photos
        Photos(sys.argv[1], count=100_000, width=50, height=40)
    """)
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) as making:
        while not list(tmp_path.glob(".photos-*/*.jpg")):
            assert making.poll() is None
            time.sleep(0.05)
        making.kill()
    assert not [path for path in tmp_path.glob("photos-100000*") if path.is_dir()]
    (tmp_path / ".photos-2-50x40-q90-v1-left").mkdir()
    photos = Photos(str(tmp_path), count=2, width=50, height=40)
    assert len(list(photos.folder.glob("*.jpg"))) == 2
    assert not list(tmp_path.glob(".photos-2-*"))


@pytest.mark.parametrize(
    ("name", "value"), [("count", 0), ("count", -1), ("width", 0), ("height", 10_001), ("quality", 0), ("quality", 96)]
)
def test_photos_refuse_values_out_of_range(tmp_path: Path, name: str, value: int) -> None:
    with pytest.raises(DatasetError, match=rf"^dataset\.{name}={value}: allowed is "):
        Photos(str(tmp_path), **{name: value})  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_photos_in_a_place_that_cannot_be_written_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match="photos cannot be made there") as caught:
        Photos(str(tmp_path / "file"), count=1)
    assert "\n" not in str(caught.value)


def test_sleep_takes_its_time_log_normal_if_spread_and_the_same_for_every_candidate(
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 0, "seconds_per_sample": 1}, "dataset.length=0: allowed is at least 1"),
        ({"length": 1, "seconds_per_sample": -1}, "dataset.seconds_per_sample=-1: allowed is at least 0"),
        ({"length": 1, "seconds_per_sample": 1, "spread": -2}, "dataset.spread=-2: allowed is at least 0"),
    ],
)
def test_sleep_refuses_values_out_of_range(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(DatasetError) as caught:
        Sleep(**arguments)
    assert str(caught.value) == message


def test_tensor_is_in_memory_in_the_shape_asked_for() -> None:
    sample, label = tensor(length=5, shape=[3, 2], classes=4)[4]
    assert (sample.shape, sample.dtype) == (torch.Size([3, 2]), torch.float32)
    assert 0 <= label < 4
    with pytest.raises(DatasetError, match=r"dataset\.length=0"):
        tensor(length=0)


@pytest.mark.parametrize(
    ("make", "write", "lengths", "size"),
    [(vision.cifar10, write_cifar10, (60, 12), (32, 32)), (vision.mnist, write_mnist, (12, 2), (28, 28))],
)
def test_files_are_read_in_their_own_format(
    make: Any, write: Any, lengths: tuple[int, int], size: tuple[int, int], tmp_path: Path
) -> None:
    write(tmp_path, images=12)
    found = make(str(tmp_path), download=False)
    image, label = found[3]
    assert (len(found), len(make(str(tmp_path), train=False))) == lengths
    assert (image.size, label) == (size, found.targets[3])


def test_mnist_as_tensors_is_normalised_once(tmp_path: Path) -> None:
    write_mnist(tmp_path, images=12)
    images = vision.mnist(str(tmp_path))
    pixels, label = vision.mnist_tensors(str(tmp_path))[5]
    assert (pixels.shape, pixels.dtype, int(label)) == (torch.Size([784]), torch.float32, images[5][1])
    assert torch.allclose(pixels * 0.3081 + 0.1307, images.data[5].flatten() / 255)


def test_on_the_device_a_batch_is_a_look_up() -> None:
    source = TensorDataset(torch.arange(40.0).reshape(20, 2), torch.arange(20))
    loader = DataLoader(OnDevice(source, "cpu"), batch_size=8)
    batches = list(loader)
    assert [len(labels) for _, labels in batches] == [8, 8, 4]
    assert torch.equal(torch.cat([labels for _, labels in batches]), source.tensors[1])
    assert torch.equal(batches[1][0], source.tensors[0][8:16])
    assert [int(part.sum()) for part in OnDevice(source)[3]] == [13, 3]


def broken_cifar10(root: Path) -> None:
    write_cifar10(root, images=4)
    batch = root / "cifar-10-batches-py" / "data_batch_2"
    batch.write_bytes(batch.read_bytes()[:100])


@pytest.mark.parametrize(
    ("make", "folder", "prepare", "download"),
    [
        (vision.cifar10, "", lambda root: None, False),
        (vision.mnist, "MNIST/raw", lambda root: None, False),
        (vision.cifar10, "", broken_cifar10, False),
        (vision.cifar10, "", lambda root: None, True),
    ],
    ids=["missing", "missing MNIST", "cut short", "no network"],
)
def test_missing_files_are_one_line_that_names_the_folder(
    make: Any, folder: str, prepare: Any, download: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(self: object) -> None:
        raise URLError("no network")

    monkeypatch.setattr(torchvision_datasets.CIFAR10, "download", no_network)
    prepare(tmp_path)
    with pytest.raises(DatasetError) as caught:
        make(str(tmp_path), download=download)
    line = str(caught.value)
    assert f" is not in {(tmp_path / folder).resolve()} and was not downloaded (" in line
    assert "); put " in line
    assert ("<urlopen error no network>" in line) == download
    assert "\n" not in line


def test_image_folder_reads_classes_from_sub_folders(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 6)).save(tmp_path / name / "1.png")
    found = vision.image_folder(str(tmp_path))
    assert [(image.size, label) for image, label in found] == [((8, 6), 0), ((8, 6), 1)]


@pytest.mark.parametrize("content", ["missing", "empty", "flat", "no images"])
def test_a_folder_without_images_in_sub_folders_is_one_line(tmp_path: Path, content: str) -> None:
    root = tmp_path / "images"
    if content != "missing":
        root.mkdir()
    if content == "flat":
        Image.new("RGB", (8, 6)).save(root / "1.png")
    if content == "no images":
        (root / "cat").mkdir()
        (root / "cat" / "notes.txt").write_text("nothing")
    with pytest.raises(DatasetError, match=rf"^dataset\.root={root}: .*one sub-folder per class") as caught:
        vision.image_folder(str(root))
    assert "\n" not in str(caught.value)
