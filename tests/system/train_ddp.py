"""A training in DistributedDataParallel as programs have it, started by torchrun; knows nothing of nws_sweep.

Rank 0 prints the seconds per step with each number of workers, once the pipeline is full, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch.distributed as dist
from hydra.utils import instantiate
from torch.utils.data import DataLoader, DistributedSampler

from tests.system.workloads import Step


def step_s(dataset: Any, plan: dict[str, Any], num_workers: int) -> float:
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, plan["batch_size"], sampler=sampler, num_workers=num_workers)
    step = Step(plan["step_s"])
    sampler.set_epoch(1)
    warm_up, measured = 2 * num_workers + 4, int(plan["steps"])
    began = 0.0
    for number, batch in enumerate(loader, 1):
        step(batch)
        if number == warm_up:
            began = time.perf_counter()
        if number == warm_up + measured:
            return (time.perf_counter() - began) / measured
    raise ValueError("the epoch is too short")


def main() -> None:
    plan = json.loads(sys.argv[1])
    dist.init_process_group("gloo")
    dataset = instantiate(plan["dataset"])
    found = {str(workers): step_s(dataset, plan, workers) for workers in plan["workers"]}
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
