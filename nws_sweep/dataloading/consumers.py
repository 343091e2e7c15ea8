"""What is done with each batch while it is measured, without a training step: nothing, or something that takes as long.

The real training step is in ``training``; any other callable can be given by its ``_target_``.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from nws_sweep.errors import ConfigurationError


class Nothing:
    """Takes the batch and does nothing: the loader's own speed."""

    def __call__(self, batch: Any) -> None:
        """Drops the batch."""


class Sleep:
    """Sleeps, as a training step on an accelerator leaves the CPU alone.

    Args:
        seconds_per_batch: Mean time of a batch, s, at least 0.
        spread: Standard deviation of that time / its mean, at least 0; 0 for equal times.
        shape: How the times are distributed, a key of ``SHAPES``; uniform ones cannot spread by more than 0.57.
        seed: Decides the times: every candidate meets the same ones in the same order.

    Raises:
        ConfigurationError: If an argument is out of range.
    """

    def __init__(self, seconds_per_batch: float, spread: float = 0.0, shape: str = "lognormal", seed: int = 0) -> None:
        for name, value in (("seconds_per_batch", seconds_per_batch), ("spread", spread)):
            if not 0 <= value < math.inf:
                raise ConfigurationError(f"consumer.{name}={value}: allowed is a number of at least 0")
        if shape not in SHAPES:
            raise ConfigurationError(f"consumer.shape={shape}: allowed are {', '.join(SHAPES)}")
        if shape == "uniform" and spread > _MOST_UNIFORM_SPREAD:
            raise ConfigurationError(f"consumer.spread={spread}: allowed is at most 0.57 with consumer.shape=uniform")
        self._mean_s = seconds_per_batch
        self._spread = spread
        self._factor = SHAPES[shape]
        self._random = random.Random(seed)

    def __call__(self, batch: Any) -> None:
        """Sleeps for the time of this batch."""
        time.sleep(self._mean_s * (self._factor(self._random, self._spread) if self._spread else 1.0))


_MOST_UNIFORM_SPREAD = 1 / math.sqrt(3)
# Each draws a factor of mean 1 with the given standard deviation. Of gamma's, a spread of 1 is the exponential one.
SHAPES: Mapping[str, Callable[[random.Random, float], float]] = {
    "lognormal": lambda source, spread: source.lognormvariate(-math.log1p(spread**2) / 2, math.log1p(spread**2) ** 0.5),
    "gamma": lambda source, spread: source.gammavariate(1 / spread**2, spread**2),
    "uniform": lambda source, spread: 1 + math.sqrt(3) * spread * source.uniform(-1, 1),
}
