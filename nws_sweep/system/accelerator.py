"""The machine's accelerator, through ``torch.accelerator`` or, before torch 2.6,
``torch.cuda``."""

import os
from typing import Any

import torch

_interface: Any = getattr(torch, "accelerator", torch.cuda)


def available() -> str | None:
    """Its type for ``torch.device``, such as ``cuda``; None if there is none."""
    if not _interface.is_available():
        return None
    return (
        _interface.current_accelerator().type
        if hasattr(_interface, "current_accelerator")
        else "cuda"
    )


def of_rank() -> str | None:
    """The accelerator of this process, by LOCAL_RANK if a launcher has set it; None if
    there is none."""
    device, rank = available(), os.environ.get("LOCAL_RANK", "")
    if device is None or not rank.isdecimal():
        return device
    return f"{device}:{int(rank) % max(1, _interface.device_count())}"


def in_use() -> str | None:
    """Its type, if this process may have used it; None if there is none."""
    device = available()
    # mps cannot tell
    is_initialized = getattr(
        getattr(torch, device or "", None), "is_initialized", lambda: True
    )
    return device if device and is_initialized() else None
