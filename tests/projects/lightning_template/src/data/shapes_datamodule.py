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
    def __init__(self, data_dir: str, batch_size: int, num_workers: int, pin_memory: bool) -> None:
        super().__init__()
        self.save_hyperparameters(logger=False)
        self.batch_size_per_device = batch_size

    def setup(self, stage: str | None = None) -> None:
        if self.trainer is not None:
            self.batch_size_per_device = self.hparams.batch_size // self.trainer.world_size
        self.data_train, self.data_val = random_split(Shapes(), (400, 100))

    def train_dataloader(self) -> DataLoader[Any]:
        own = self.hparams
        return DataLoader(
            self.data_train, self.batch_size_per_device, True, num_workers=own.num_workers, pin_memory=own.pin_memory
        )
