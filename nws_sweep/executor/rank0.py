"""Several ranks of one training program ask one question: rank 0 answers it, the others wait for the answer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from nws_sweep.errors import NwsSweepError

Answer = TypeVar("Answer")
# A search takes minutes; the time limit of the program's own process group may be shorter.
_PATIENCE = timedelta(days=7)
_TOLD_AFTER_S = 10.0


def run_on_rank0(work: Callable[[], Answer]) -> Answer:
    """What ``work`` returns; under torch.distributed it is done by rank 0 alone, and all ranks get its answer.

    Args:
        work: Its result can be pickled.

    Raises:
        NwsSweepError: If rank 0 failed; on every rank.
    """
    distributed = _initialised()
    if distributed is None or distributed.get_world_size() == 1:
        return work()
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    # A program whose other ranks never ask would stand still without a word.
    line = f"nws_sweep: rank {rank} waits for the others: all {ranks} ranks must call search or tune"
    timer = threading.Timer(_TOLD_AFTER_S, print, [line], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        # Of its own, since a NCCL group would need tensors on accelerators and give up after ten minutes.
        group = distributed.new_group(backend="gloo", timeout=_PATIENCE)
    finally:
        timer.cancel()
    shared: list[Any] = [None, None]  # the answer, and why there is none
    try:
        try:
            if rank == 0:
                shared[0] = work()
        except BaseException as error:
            shared[1] = str(error) or type(error).__name__
            raise
        finally:
            distributed.broadcast_object_list(shared, src=0, group=group)
        if shared[1] is not None:
            raise NwsSweepError(f"rank 0 could not measure: {shared[1]}")
    finally:
        distributed.destroy_process_group(group)
    answer: Answer = shared[0]
    return answer


def _initialised() -> Any:
    """torch.distributed, if the program has imported torch and joined a process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed
