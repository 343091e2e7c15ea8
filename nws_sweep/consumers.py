"""What is done with each batch while it is measured: the training step, or something that takes as long."""

from __future__ import annotations

import time
from typing import Any


class Nothing:
    """Takes the batch and does nothing: the loader's own speed."""

    def __call__(self, batch: Any) -> None:
        """Drops the batch."""


class Sleep:
    """Sleeps, as a training step on an accelerator leaves the CPU alone.

    Args:
        seconds_per_batch: Seconds for each batch, at least 0.
    """

    def __init__(self, seconds_per_batch: float) -> None:
        if seconds_per_batch < 0:
            raise ValueError(f"seconds_per_batch must be at least 0, got {seconds_per_batch}")
        self.seconds_per_batch = seconds_per_batch

    def __call__(self, batch: Any) -> None:
        """Sleeps for ``seconds_per_batch``."""
        time.sleep(self.seconds_per_batch)
