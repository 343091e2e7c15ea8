"""Runs a search on rank 0 of a training program and broadcasts its result to the other
ranks."""

import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar, cast

from nws_sweep.errors import NwsSweepError, OutOfTime
from nws_sweep.system import streams

Answer = TypeVar("Answer")
# A search takes minutes; the timeout of the program's own process group may be shorter.
_BROADCAST_TIMEOUT = timedelta(days=7)
_NOTICE_AFTER_S = 10.0


def run_on_rank0(work: Callable[[], Answer]) -> Answer:
    """Calls ``work`` and returns its result; under torch.distributed only on rank 0,
    and every rank gets the result.

    The result must be picklable. If rank 0 fails, it raises its own error, the other
    ranks OutOfTime too, or NwsSweepError with its message.
    """
    distributed = _initialised()
    if distributed is None or distributed.get_world_size() == 1:
        return work()
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    # Without this line a program whose other ranks make no such call would hang
    # silently.
    line = f"rank {rank} is waiting for the other ranks: all {ranks} ranks must call search or tune"
    timer = threading.Timer(_NOTICE_AFTER_S, streams.print_line, [line])
    timer.daemon = True
    timer.start()
    try:
        # A NCCL group would need tensors on accelerators and time out after ten
        # minutes.
        group = distributed.new_group(backend="gloo", timeout=_BROADCAST_TIMEOUT)
    finally:
        timer.cancel()
    shared: list[Any] = [None, None]  # the result, the error
    try:
        if rank == 0:
            shared[0] = work()
    except BaseException as error:
        failure = NwsSweepError(
            f"the search failed on rank 0: {str(error) or type(error).__name__}"
        )
        # an error of the user may not be picklable
        shared[1] = error if isinstance(error, OutOfTime) else failure
        raise
    finally:
        distributed.broadcast_object_list(shared, src=0, group=group)
        distributed.destroy_process_group(group)
    if shared[1] is not None:
        raise shared[1]
    return cast(Answer, shared[0])


def has_other_ranks() -> bool:
    """Whether this process is one of several ranks."""
    distributed = _initialised()
    return distributed is not None and distributed.get_world_size() > 1


def _initialised() -> Any:
    """Returns torch.distributed, if the program has imported it and joined a process
    group; else None."""
    distributed = sys.modules.get("torch.distributed")
    return (
        distributed
        if distributed and distributed.is_available() and distributed.is_initialized()
        else None
    )
