"""What is loaded and trained: by a real training in DistributedDataParallel, and by nws_sweep in its place."""

from __future__ import annotations

import os
import time

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

FEATURES = 64


class Latency(Dataset[Tensor]):
    """Samples that are waited for, as from a network."""

    def __init__(self, length: int, sample_s: float, slow_rank: int | None = None, factor: float = 2.0) -> None:
        slow = slow_rank is not None and os.environ.get("RANK") == str(slow_rank)
        self.length = length
        self.sample_s = sample_s * (factor if slow else 1.0)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(self.sample_s)
        return torch.full((FEATURES,), float(index % 7))


class Computing(Latency):
    """Samples that are computed: all ranks and workers share the host's CPUs."""

    def __getitem__(self, index: int) -> Tensor:
        end = time.thread_time() + self.sample_s
        while time.thread_time() < end:
            pass
        return torch.full((FEATURES,), float(index % 7))


class Step:
    """A training step: a small model, and an accelerator's work, during which the CPU is idle."""

    def __init__(self, step_s: float) -> None:
        model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 1))
        # As programs do it; a process group is there in a training, and in the ranks that are measured.
        self.model: nn.Module = DistributedDataParallel(model) if distributed.is_initialized() else model
        self._step_s = step_s
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def __call__(self, batch: Tensor) -> None:
        time.sleep(self._step_s)
        self._optimizer.zero_grad(set_to_none=True)
        self.model(batch).square().mean().backward()  # in a training the ranks meet here
        self._optimizer.step()
