"""The machine's accelerator, through whichever of torch's interfaces this version has."""

from __future__ import annotations

import os

import torch


def available() -> str | None:
    """Its type as ``torch.device`` takes it, such as ``cuda``; None if there is none."""
    if hasattr(torch, "accelerator"):  # torch 2.6 and later
        device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return device.type if device is not None else None
    return "cuda" if torch.cuda.is_available() else None


def of_rank() -> str | None:
    """The one of this process: by LOCAL_RANK, where a launcher has set it; None if there is none."""
    device, rank = available(), os.environ.get("LOCAL_RANK", "")
    if device is None or not rank.isdecimal():
        return device
    return f"{device}:{int(rank) % _count()}"


def _count() -> int:
    count = torch.accelerator.device_count() if hasattr(torch, "accelerator") else torch.cuda.device_count()
    return max(1, count)


def synchronize(device: torch.device) -> None:
    """Waits until a device has done all that it was asked to; a CPU always has."""
    if device.type == "cpu":
        return
    if hasattr(torch, "accelerator"):
        torch.accelerator.synchronize(device)
    else:
        torch.cuda.synchronize(device)
