"""A LightningDataModule in the layout of lightning-hydra-template."""

import time
from typing import Any

import torch
from lightning import LightningDataModule
from torch.utils.data import DataLoader, Dataset, random_split


class Shapes(Dataset):
    def __len__(self) -> int:
        return 500

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.002)
        return torch.zeros(3, 8, 8), index % 10


class ShapesDataModule(LightningDataModule):
    def __init__(
        self, data_dir: str = "data/", batch_size: int = 64, num_workers: int = 0, pin_memory: bool = False
    ) -> None:
        super().__init__()
        self.save_hyperparameters(logger=False)
        self.data_train: Dataset[Any] | None = None
        self.batch_size_per_device = batch_size

    def setup(self, stage: str | None = None) -> None:
        if self.trainer is not None:
            self.batch_size_per_device = self.hparams.batch_size // self.trainer.world_size
        if self.data_train is None:
            halves = random_split(Shapes(), (400, 100), generator=torch.Generator().manual_seed(42))
            self.data_train, self.data_val = halves

    def train_dataloader(self) -> DataLoader[Any]:
        return self._loader(self.data_train, shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        return self._loader(self.data_val, shuffle=False)

    def _loader(self, dataset: Any, *, shuffle: bool) -> DataLoader[Any]:
        return DataLoader(
            dataset=dataset,
            batch_size=self.batch_size_per_device,
            num_workers=self.hparams.num_workers,
            pin_memory=self.hparams.pin_memory,
            shuffle=shuffle,
        )
