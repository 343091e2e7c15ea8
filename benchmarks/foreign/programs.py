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

    usual = {"input_size": (3, 32, 32), "batch_size": BATCH, "is_training": True, "num_workers": 1}
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

    return Accelerator(cpu=True).prepare(DataLoader(Items(), batch_size=BATCH, shuffle=True))


@program
def monai_dataset(folder: Path) -> Any:
    from monai.data import Dataset
    from monai.transforms import RandomOrder

    return DataLoader(Dataset(list(range(COUNT)), RandomOrder([same, slow])), batch_size=BATCH)


@program
def monai_cache_dataset(folder: Path) -> Any:
    from monai.data import CacheDataset

    return DataLoader(CacheDataset(list(range(COUNT)), slow, cache_rate=0.1, progress=False), batch_size=BATCH)


@program
def monai_smart_cache_dataset(folder: Path) -> Any:
    from monai.data import SmartCacheDataset

    return DataLoader(SmartCacheDataset(list(range(COUNT)), slow, cache_rate=0.5, progress=False), batch_size=BATCH)


@program
def monai_thread_dataloader(folder: Path) -> Any:
    from monai.data import ThreadDataLoader

    return ThreadDataLoader(Items(), batch_size=BATCH)


@program
def monai_thread_workers(folder: Path) -> Any:
    from monai.data import ThreadDataLoader

    return ThreadDataLoader(Items(), batch_size=BATCH, num_workers=2, use_thread_workers=True)


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

    options = {"output_dir": str(folder), "chunk_size": 10, "num_workers": 1, "verbose": False}
    litdata.optimize(fn=same, inputs=list(range(COUNT)), **options)
    torch.multiprocessing.set_start_method("fork", force=True)  # litdata has set another one
    return litdata.StreamingDataLoader(litdata.StreamingDataset(str(folder)), batch_size=BATCH, collate_fn=_slow_batch)


@program
def mosaicml_streaming(folder: Path) -> Any:
    import streaming

    with streaming.MDSWriter(out=str(folder), columns={"x": "int"}, size_limit=500) as out:
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
    return webdataset.WebDataset(tars, shardshuffle=False, **keywords).decode().to_tuple("cls").map(slow)


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

    cuts = CutSet.from_cuts([dummy_cut(number, duration=1.0 + number % 5) for number in range(COUNT)])
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

    return DataLoader(Dataset.from_dict({"x": range(COUNT)}).with_transform(slow), batch_size=BATCH)


def _numbers(shards: Iterable[int]) -> Any:
    return ({"x": number} for shard in shards for number in range(shard, COUNT, 16))


@program
def datasets_iterable(folder: Path) -> Any:
    from datasets import IterableDataset

    stream = IterableDataset.from_generator(_numbers, gen_kwargs={"shards": list(range(16))}).map(slow)
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


@program
def lmdb(folder: Path) -> Any:
    import lmdb

    with lmdb.open(str(folder / "data")) as made, made.begin(write=True) as transaction:
        for number in range(COUNT):
            transaction.put(str(number).encode(), str(number).encode())
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
