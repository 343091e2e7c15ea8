"""Small programs of other libraries: each makes a loader of samples with ids, as the library's documentation does."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, default_collate

COUNT, BATCH, SECONDS = 200, 4, 0.005
PROGRAMS: dict[str, Callable[[Path], Any]] = {}


def slow(sample: Any) -> Any:
    time.sleep(SECONDS)
    return sample


def same(sample: Any) -> Any:
    return sample


def program(make: Callable[[Path], Any]) -> Callable[[Path], Any]:
    PROGRAMS[make.__name__] = make
    return make


class Items:
    """A map-style dataset."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return slow(index)


class Images(Items):
    transform: Any = None

    def __getitem__(self, index: int) -> Any:
        from PIL import Image

        return self.transform(slow(Image.new("RGB", (32, 32)))), index


def _of_timm(**settings: Any) -> Any:
    from timm.data import create_loader

    usual = {
        "input_size": (3, 32, 32),
        "batch_size": BATCH,
        "is_training": True,
        "num_workers": 1,
    }
    return create_loader(Images(), **usual, **settings)


@program
def timm(folder: Path) -> Any:
    return _of_timm(use_prefetcher=False)


@program
def timm_prefetch_loader(folder: Path) -> Any:
    return _of_timm(use_prefetcher=True, device=torch.device("cpu"))


@program
def timm_multi_epochs_loader(folder: Path) -> Any:
    return _of_timm(use_prefetcher=False, use_multi_epochs_loader=True)


@program
def accelerate_prepared(folder: Path) -> Any:
    from accelerate import Accelerator

    return Accelerator(cpu=True).prepare(
        DataLoader(Items(), batch_size=BATCH, shuffle=True)
    )


@program
def monai_dataset(folder: Path) -> Any:
    from monai.data import Dataset
    from monai.transforms import RandomOrder

    return DataLoader(
        Dataset(list(range(COUNT)), RandomOrder([same, slow])), batch_size=BATCH
    )


@program
def monai_cache_dataset(folder: Path) -> Any:
    from monai.data import CacheDataset

    return DataLoader(
        CacheDataset(list(range(COUNT)), slow, cache_rate=0.1, progress=False),
        batch_size=BATCH,
    )


@program
def monai_smart_cache_dataset(folder: Path) -> Any:
    from monai.data import SmartCacheDataset

    return DataLoader(
        SmartCacheDataset(list(range(COUNT)), slow, cache_rate=0.5, progress=False),
        batch_size=BATCH,
    )


@program
def monai_thread_dataloader(folder: Path) -> Any:
    from monai.data import ThreadDataLoader

    return ThreadDataLoader(Items(), batch_size=BATCH)


@program
def monai_thread_workers(folder: Path) -> Any:
    from monai.data import ThreadDataLoader

    return ThreadDataLoader(
        Items(), batch_size=BATCH, num_workers=2, use_thread_workers=True
    )


@program
def torchdata_stateful_dataloader(folder: Path) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader(Items(), batch_size=BATCH, shuffle=True)


@program
def torchdata_nodes(folder: Path) -> Any:
    from torchdata.nodes import Batcher, IterableWrapper, Loader

    return Loader(Batcher(IterableWrapper(range(COUNT)), BATCH))


def _slow_batch(samples: Any) -> Any:
    time.sleep(SECONDS * len(samples))
    return default_collate(samples)


@program
def litdata_streaming(folder: Path) -> Any:
    import litdata

    options = {
        "output_dir": str(folder),
        "chunk_size": 10,
        "num_workers": 1,
        "verbose": False,
    }
    litdata.optimize(fn=same, inputs=list(range(COUNT)), **options)
    torch.multiprocessing.set_start_method(
        "fork", force=True
    )  # litdata has set another one
    return litdata.StreamingDataLoader(
        litdata.StreamingDataset(str(folder)), batch_size=BATCH, collate_fn=_slow_batch
    )


@program
def mosaicml_streaming(folder: Path) -> Any:
    import streaming

    with streaming.MDSWriter(
        out=str(folder), columns={"x": "int"}, size_limit=500
    ) as out:
        for number in range(COUNT):
            out.write({"x": number})
    dataset = streaming.StreamingDataset(local=str(folder), batch_size=BATCH)
    return DataLoader(dataset, batch_size=BATCH, num_workers=1, collate_fn=_slow_batch)


def _webdataset(folder: Path, shards: int, count: int, **keywords: Any) -> Any:
    import webdataset

    for shard in range(shards):
        with webdataset.TarWriter(f"{folder}/{shard:02d}.tar") as out:
            for number in range(shard, count, shards):
                out.write({"__key__": f"{number:05d}", "cls": number})
    tars = f"{folder}/{{00..{shards - 1}}}.tar"
    return (
        webdataset.WebDataset(tars, shardshuffle=False, **keywords)
        .decode()
        .to_tuple("cls")
        .map(slow)
    )


@program
def webdataset(folder: Path) -> Any:
    from webdataset import WebLoader

    return WebLoader(_webdataset(folder, 16, COUNT).batched(BATCH), batch_size=None)


@program
def webdataset_resampled(folder: Path) -> Any:
    from webdataset import WebLoader

    resampled = _webdataset(folder, 64, 64 * COUNT, resampled=True).batched(BATCH)
    return WebLoader(resampled.with_epoch(COUNT // BATCH), batch_size=None)


class _Cuts(torch.utils.data.Dataset[Any]):
    def __getitem__(self, cuts: Any) -> Any:
        time.sleep(SECONDS * len(cuts))
        return torch.tensor([int(cut.id.rpartition("-")[2]) for cut in cuts])


def _lhotse(kind: str, **keywords: Any) -> Any:
    from lhotse import CutSet, dataset
    from lhotse.testing.dummies import dummy_cut

    cuts = CutSet.from_cuts(
        [dummy_cut(number, duration=1.0 + number % 5) for number in range(COUNT)]
    )
    sampler = getattr(dataset, kind)(cuts, max_cuts=BATCH, shuffle=True, **keywords)
    return DataLoader(_Cuts(), sampler=sampler, batch_size=None)


@program
def lhotse_simple_cut_sampler(folder: Path) -> Any:
    return _lhotse("SimpleCutSampler")


@program
def lhotse_dynamic_cut_sampler(folder: Path) -> Any:
    return _lhotse("DynamicCutSampler")


@program
def lhotse_dynamic_bucketing_sampler(folder: Path) -> Any:
    return _lhotse("DynamicBucketingSampler", num_buckets=4)


@program
def datasets_map_style(folder: Path) -> Any:
    from datasets import Dataset

    return DataLoader(
        Dataset.from_dict({"x": range(COUNT)}).with_transform(slow), batch_size=BATCH
    )


def _numbers(shards: Iterable[int]) -> Any:
    return ({"x": number} for shard in shards for number in range(shard, COUNT, 16))


@program
def datasets_iterable(folder: Path) -> Any:
    from datasets import IterableDataset

    stream = IterableDataset.from_generator(
        _numbers, gen_kwargs={"shards": list(range(16))}
    ).map(slow)
    return DataLoader(stream, batch_size=BATCH)


class _Opened(Items):
    """Opens its file in ``__init__``, or on first use."""

    def __init__(self, folder: Path) -> None:
        self.path, self.opened = str(folder / "data"), None


class _Lmdb(_Opened):
    def __getitem__(self, index: int) -> Any:
        import lmdb

        self.opened = self.opened or lmdb.open(self.path, readonly=True, lock=False)
        with self.opened.begin() as transaction:
            return slow(int(transaction.get(str(index).encode())))


def _write_lmdb(folder: Path) -> None:
    import lmdb

    with lmdb.open(str(folder / "data")) as made, made.begin(write=True) as transaction:
        for number in range(COUNT):
            transaction.put(str(number).encode(), str(number).encode())


@program
def lmdb(folder: Path) -> Any:
    _write_lmdb(folder)
    return DataLoader(_Lmdb(folder), batch_size=BATCH, num_workers=1)


class _Hdf5(_Opened):
    def __getitem__(self, index: int) -> Any:
        import h5py

        self.opened = self.opened or h5py.File(self.path, "r")
        return slow(int(self.opened["x"][index]))


@program
def hdf5(folder: Path) -> Any:
    import h5py

    with h5py.File(folder / "data", "w") as made:
        made["x"] = np.arange(COUNT)
    return DataLoader(_Hdf5(folder), batch_size=BATCH, num_workers=1)


class _Reading(Items):
    """Reads with a function that has an open file; the file is opened before the program makes a loader."""

    def __init__(self, read: Callable[[int], Any]) -> None:
        self.read = read

    def __getitem__(self, index: int) -> Any:
        return slow(int(self.read(index)))


def _reading(read: Callable[[int], Any], **settings: Any) -> Any:
    return DataLoader(_Reading(read), batch_size=BATCH, num_workers=1, **settings)


@program
def lmdb_in_init(folder: Path) -> Any:
    import lmdb

    _write_lmdb(folder)
    environment = lmdb.open(str(folder / "data"), readonly=True, lock=False)

    def read(index: int) -> Any:
        with environment.begin() as transaction:
            return transaction.get(str(index).encode())

    return _reading(read)


@program
def hdf5_in_init(folder: Path) -> Any:
    import h5py

    with h5py.File(folder / "file", "w") as made:
        made["x"] = np.arange(COUNT)
    return _reading(h5py.File(folder / "file")["x"].__getitem__)


@program
def sqlite3_in_init(folder: Path) -> Any:
    import sqlite3

    connection = sqlite3.connect(folder / "file")
    connection.execute("create table numbers (number integer)")
    connection.executemany(
        "insert into numbers values (?)", [(number,) for number in range(COUNT)]
    )
    connection.commit()
    query = "select number from numbers where rowid = ?"
    return _reading(lambda index: connection.execute(query, (index + 1,)).fetchone()[0])


def _parquet(folder: Path) -> str:
    import pyarrow.parquet

    path = str(folder / "file")
    pyarrow.parquet.write_table(
        pyarrow.table({"x": range(COUNT)}), path, row_group_size=10
    )
    return path


@program
def pyarrow_parquet_file_in_init(folder: Path) -> Any:
    from pyarrow.parquet import ParquetFile

    opened = ParquetFile(_parquet(folder))
    return _reading(
        lambda index: opened.read_row_group(index // 10)["x"][index % 10].as_py()
    )


@program
def pyarrow_os_file_in_init(folder: Path) -> Any:
    import pyarrow

    (folder / "file").write_bytes(np.arange(COUNT, dtype="<i8").tobytes())
    opened = pyarrow.OSFile(str(folder / "file"))

    def read(index: int) -> Any:
        opened.seek(8 * index)
        return int.from_bytes(opened.read(8), "little")

    return _reading(read)


@program
def zarr_directory(folder: Path) -> Any:
    import zarr

    array = zarr.create_array(
        str(folder / "array"), shape=(COUNT,), chunks=(10,), dtype="i4"
    )
    array[:] = np.arange(COUNT)
    return _reading(array.__getitem__)


@program
def zarr_zip_store(folder: Path) -> Any:
    import zarr

    with zarr.storage.ZipStore(folder / "array.zip", mode="w") as store:
        zarr.create_array(store, shape=(COUNT,), chunks=(10,), dtype="i4")[:] = (
            np.arange(COUNT)
        )
    return _reading(
        zarr.open_array(
            zarr.storage.ZipStore(folder / "array.zip", mode="r"), mode="r"
        ).__getitem__
    )


def _numbers_of(samples: Any) -> Any:
    return torch.tensor([int(sample["number"]) for sample in samples])


def _voxels_of(patches: Any) -> Any:
    return torch.tensor([int(slow(patch).image.data) for patch in patches])


@program
def torchio_grid_sampler(folder: Path) -> Any:
    import torchio

    voxels = torch.arange(float(COUNT)).reshape(1, COUNT, 1, 1)
    patient = torchio.Subject(image=torchio.ScalarImage(tensor=voxels))
    return DataLoader(
        torchio.GridSampler(patient, patch_size=1),
        batch_size=BATCH,
        collate_fn=_voxels_of,
    )


class Patients(Items):
    transform: Any = None

    def __getitem__(self, index: int) -> Any:
        import torchio

        image = torchio.ScalarImage(tensor=torch.zeros(1, 4, 4, 4))
        return self.transform(torchio.Subject(image=image, number=index))


@program
def torchio_transforms(folder: Path) -> Any:
    import torchio

    patients = Patients()
    patients.transform = torchio.Compose([torchio.RandomFlip(), slow])
    return DataLoader(patients, batch_size=BATCH, collate_fn=_numbers_of)


@program
def ultralytics_infinite_dataloader(folder: Path) -> Any:
    from ultralytics.data.build import InfiniteDataLoader

    return InfiniteDataLoader(
        dataset=Items(), batch_size=BATCH, shuffle=True, num_workers=1
    )


@program
def ultralytics_infinite_dataloader_reset(folder: Path) -> Any:
    """Of a program that calls ``reset`` between epochs, as the name says."""
    return ultralytics_infinite_dataloader(folder)


@program
def fastai_dataloader(folder: Path) -> Any:
    from fastai.data.load import DataLoader as FastaiLoader

    return FastaiLoader(Items(), bs=BATCH, shuffle=True, num_workers=1)


@program
def fastai_image_dataloaders(folder: Path) -> Any:
    from fastai.vision.all import ImageDataLoaders

    _write_pictures(folder)
    return ImageDataLoaders.from_folder(
        folder / "pictures", valid_pct=0.1, bs=BATCH, num_workers=1
    ).train


def _write_pictures(folder: Path) -> Path:
    """Pictures of one colour each: the red, 0 to 199, is their number."""
    from PIL import Image

    for number in range(COUNT):
        path = folder / "pictures" / str(number % 2) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
    return folder / "pictures"


def _red(pictures: Any) -> Any:
    """The numbers of pictures of the range 0 to 1."""
    return torch.stack([(255 * picture[0, 0, 0]).round() for picture, _ in pictures])


@program
def torchvision_image_folder(folder: Path) -> Any:
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    steps = [
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        slow,
    ]
    pictures = ImageFolder(str(_write_pictures(folder)), v2.Compose(steps))
    return DataLoader(pictures, batch_size=BATCH, shuffle=True, collate_fn=_red)


@program
def timm_image_dataset(folder: Path) -> Any:
    from timm.data import ImageDataset, create_transform

    steps = create_transform(
        8, is_training=True, mean=(0, 0, 0), std=(1, 1, 1), color_jitter=None
    )
    steps.transforms.append(slow)
    pictures = ImageDataset(str(_write_pictures(folder)), transform=steps)
    return DataLoader(pictures, batch_size=BATCH, shuffle=True, collate_fn=_red)


class _Transformed(Items):
    """Transforms a sample, and gives its index."""

    def __init__(self, transform: Callable[[int], Any]) -> None:
        self.transform = transform

    def __getitem__(self, index: int) -> Any:
        self.transform(index)
        return slow(index)


@program
def albumentations(folder: Path) -> Any:
    import albumentations as library

    steps = library.Compose(
        [
            library.RandomCrop(8, 8),
            library.HorizontalFlip(),
            library.CLAHE(p=1),
            library.Normalize(),
        ]
    )
    image = np.zeros((16, 16, 3), np.uint8)
    return DataLoader(
        _Transformed(lambda _: steps(image=image)), batch_size=BATCH, shuffle=True
    )


@program
def opencv_clahe(folder: Path) -> Any:
    import cv2

    clahe, image = cv2.createCLAHE(), np.zeros((16, 16), np.uint8)
    return DataLoader(
        _Transformed(lambda _: clahe.apply(image)), batch_size=BATCH, shuffle=True
    )


def _tokenizer() -> Any:
    import tokenizers

    words = {"[UNK]": 0, "a": 1, "b": 2}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return made


@program
def tokenizers(folder: Path) -> Any:
    tokenizer = _tokenizer()
    return DataLoader(
        _Transformed(lambda _: tokenizer.encode("a b c").ids),
        batch_size=BATCH,
        shuffle=True,
    )


@program
def transformers_fast_tokenizer(folder: Path) -> Any:
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(tokenizer_object=_tokenizer(), unk_token="[UNK]")
    return DataLoader(
        _Transformed(lambda _: fast(["a b c"] * 4)), batch_size=BATCH, shuffle=True
    )


@program
def torch_geometric_in_memory_dataset(folder: Path) -> Any:
    from torch_geometric.data import Data, InMemoryDataset
    from torch_geometric.loader import DataLoader as GraphLoader

    class Graphs(InMemoryDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(transform=slow)
            graphs = [
                Data(x=torch.ones(3, 2), y=torch.tensor([number]))
                for number in range(COUNT)
            ]
            self.data, self.slices = self.collate(graphs)

    return GraphLoader(Graphs(), batch_size=BATCH, shuffle=True)
