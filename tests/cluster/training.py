"""A training in DistributedDataParallel, started by torchrun.

Rank 0 prints the seconds per step, without warm-up, by number of workers, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from hydra.utils import instantiate
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

FEATURES = 64


class Step:
    """A training step: a small model, and a sleep for the work of an accelerator."""

    def __init__(self, step_s: float) -> None:
        model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 1))
        # A process group exists in a training and in measured ranks.
        self.model: nn.Module = DistributedDataParallel(model) if distributed.is_initialized() else model
        self._step_s = step_s
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def __call__(self, batch: Tensor) -> None:
        time.sleep(self._step_s)
        self._optimizer.zero_grad(set_to_none=True)
        self.model(batch.float().sign()).square().mean().backward()  # the barrier of the ranks
        self._optimizer.step()


def step_s(dataset: Any, plan: dict[str, Any], num_workers: int) -> float:
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, plan["batch_size"], sampler=sampler, num_workers=num_workers)
    step, warm_up = Step(plan["step_s"]), 2 * num_workers + 4
    for number, batch in enumerate(loader, 1):
        step(batch)
        if number == warm_up:
            began = time.perf_counter()
        if number == warm_up + plan["steps"]:
            return (time.perf_counter() - began) / float(plan["steps"])
    raise ValueError("the epoch is too short")


def main() -> None:
    plan = json.loads(sys.argv[1])
    distributed.init_process_group("gloo")
    dataset = instantiate(plan["dataset"])
    found = {str(workers): step_s(dataset, plan, workers) for workers in plan["workers"]}
    if distributed.get_rank() == 0:
        print(json.dumps(found), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
