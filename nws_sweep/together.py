"""Several ranks of one training program ask one question: rank 0 answers it, the others wait for the answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from nws_sweep.errors import NwsSweepError

Answer = TypeVar("Answer")
# A search takes minutes; the time limit of the program's own process group may be shorter.
_PATIENCE = timedelta(days=7)


def agreed(work: Callable[[], Answer]) -> Answer:
    """What ``work`` returns; under torch.distributed it is done by rank 0 alone, and all ranks get its answer.

    Args:
        work: Its result can be pickled.

    Raises:
        NwsSweepError: If rank 0 failed; on every rank.
    """
    distributed = _initialised()
    if distributed is None or distributed.get_world_size() == 1:
        return work()
    # Of its own, since a NCCL group would need tensors on accelerators and give up after ten minutes.
    group = distributed.new_group(backend="gloo", timeout=_PATIENCE)
    try:
        return _first_rank_answers(work, distributed, group)
    finally:
        distributed.destroy_process_group(group)


def _first_rank_answers(work: Callable[[], Answer], distributed: Any, group: Any) -> Answer:
    if distributed.get_rank() != 0:
        received: list[Any] = [None, None]
        distributed.broadcast_object_list(received, src=0, group=group)
        if received[1] is not None:
            raise NwsSweepError(f"rank 0 could not measure: {received[1]}")
        answer: Answer = received[0]
        return answer
    try:
        answer = work()
    except BaseException as error:
        distributed.broadcast_object_list([None, str(error) or type(error).__name__], src=0, group=group)
        raise
    distributed.broadcast_object_list([answer, None], src=0, group=group)
    return answer


def _initialised() -> Any:
    """torch.distributed, if the program has imported torch and joined a process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed
