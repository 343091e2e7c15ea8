"""The machine's accelerator, through whichever of torch's interfaces this version has."""

from __future__ import annotations

import os
from typing import Any

import torch

_interface: Any = getattr(torch, "accelerator", torch.cuda)  # the former since torch 2.6


def available() -> str | None:
    """Its type as ``torch.device`` takes it, such as ``cuda``; None if there is none."""
    if not _interface.is_available():
        return None
    return _interface.current_accelerator().type if hasattr(_interface, "current_accelerator") else "cuda"


def of_rank() -> str | None:
    """The one of this process: by LOCAL_RANK, where a launcher has set it; None if there is none."""
    device, rank = available(), os.environ.get("LOCAL_RANK", "")
    if device is None or not rank.isdecimal():
        return device
    return f"{device}:{int(rank) % max(1, _interface.device_count())}"


def synchronize(device: torch.device) -> None:
    """Waits until a device has done all that it was asked to; a CPU always has."""
    if device.type != "cpu":
        _interface.synchronize(device)
