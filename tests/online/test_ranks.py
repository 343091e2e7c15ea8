"""A distributed training of two ranks: rank 0 decides, and the other one follows."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn
from torch.utils.data import DataLoader, DistributedSampler

import nws_sweep
from tests.user_datasets import Slow

RANKS, SAMPLES = 2, 4000


def train(rank: int, folder: str) -> None:
    """One rank: an epoch with a barrier after each batch."""
    torch.set_num_threads(1)
    # this process was spawned, and so would be its workers
    multiprocessing.set_start_method("fork", force=True)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS
    )
    sampler: Any = DistributedSampler(
        Slow(SAMPLES, seconds=0.002), RANKS, rank, shuffle=True
    )
    loader: Any = DataLoader(sampler.dataset, batch_size=4, sampler=sampler)
    tuned = nws_sweep.autotune(loader, reuse="never", progress=False)
    seen: list[int] = []
    for batch in tuned:
        seen += batch.tolist()
        distributed.barrier()
    switches = [(one.batch, one.after.num_workers) for one in tuned.tuning.switches]
    found = {"in_order": seen == list(sampler), "switches": switches}
    Path(folder, f"{rank}.json").write_text(json.dumps(found), "utf-8")
    distributed.destroy_process_group()


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_all_ranks_change_to_the_same_settings_and_keep_their_own_order(
    tmp_path: Path,
) -> None:
    spawn(train, (str(tmp_path),), RANKS)
    first, second = (
        json.loads((tmp_path / f"{rank}.json").read_text("utf-8"))
        for rank in range(RANKS)
    )
    assert first["in_order"]
    assert second["in_order"]
    assert [workers for _, workers in first["switches"]] == [
        workers for _, workers in second["switches"]
    ]
    assert first["switches"]
