"""Several ranks of one training program ask one question: rank 0 answers it, the others wait for the answer."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

from nws_sweep.errors import NwsSweepError

Answer = TypeVar("Answer")
# A search takes minutes; the time limit of the program's own process group may be shorter.
_PATIENCE = timedelta(days=7)
_TOLD_AFTER_S = 10.0


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
    with _told_to_wait(distributed.get_rank(), distributed.get_world_size()):
        group = distributed.new_group(backend="gloo", timeout=_PATIENCE)
    try:
        return _first_rank_answers(work, distributed, group)
    finally:
        distributed.destroy_process_group(group)


@contextlib.contextmanager
def _told_to_wait(rank: int, ranks: int) -> Iterator[None]:
    """Says what it waits for: a program whose other ranks never ask would stand still without a word."""
    line = f"nws_sweep: rank {rank} waits for the others: all {ranks} ranks must call search or tune"
    timer = threading.Timer(_TOLD_AFTER_S, print, [line], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


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
