"""A dataset whose samples take a known time: latency without load."""

from __future__ import annotations

import math
import random
import time

import torch
from torch.utils.data import Dataset

from nws_sweep.errors import DatasetError


class Sleep(Dataset[torch.Tensor]):
    """Sleeps for each sample, then returns its index as a tensor of shape ().

    Args:
        length: Samples, at least 1.
        seconds_per_sample: Median time of a sample, s, at least 0.
        spread: Standard deviation of the logarithm of the time; 0 for equal times, 1 for a store with a long tail.
            A sample's time depends on its index alone, so that every candidate meets the same ones.

    Raises:
        DatasetError: If an argument is out of range.
    """

    def __init__(self, length: int, seconds_per_sample: float, spread: float = 0.0) -> None:
        for name, value, least in (
            ("length", length, 1),
            ("seconds_per_sample", seconds_per_sample, 0),
            ("spread", spread, 0),
        ):
            if value < least:
                raise DatasetError(f"dataset.{name}={value}: allowed is at least {least}")
        self.length = length
        self.seconds_per_sample = seconds_per_sample
        self.spread = spread

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if not 0 <= index < self.length:
            raise IndexError(index)
        time.sleep(self.seconds_per_sample * math.exp(random.Random(index).gauss(0.0, self.spread)))
        return torch.tensor(index)
