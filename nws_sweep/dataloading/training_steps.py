"""Training steps without a training step: do nothing, or sleep for as long as a step would take."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from nws_sweep.errors import ConfigurationError


class Nothing:
    """Does nothing with a batch, to measure the loader alone."""

    def __call__(self, batch: Any) -> None:
        """Discards the batch."""


class Sleep:
    """Sleeps for each batch, as a training step on an accelerator uses no CPU time.

    ConfigurationError if an argument is out of range.

    Args:
        seconds_per_batch: Mean time per batch, s, at least 0.
        spread: Standard deviation of the time / its mean, at least 0; 0 for equal times.
        shape: Distribution of the times, a key of ``SHAPES``; ``uniform`` allows a spread of at most 0.57.
        seed: Seed of the times; every candidate gets the same times in the same order.
    """

    def __init__(self, seconds_per_batch: float, spread: float = 0.0, shape: str = "lognormal", seed: int = 0) -> None:
        for name, value in (("seconds_per_batch", seconds_per_batch), ("spread", spread)):
            if not 0 <= value < math.inf:
                raise ConfigurationError(f"training_step.{name}={value}: allowed is a number of at least 0")
        if shape not in SHAPES:
            raise ConfigurationError(f"training_step.shape={shape}: allowed are {', '.join(SHAPES)}")
        if shape == "uniform" and spread > _MOST_UNIFORM_SPREAD:
            raise ConfigurationError(
                f"training_step.spread={spread}: allowed is at most 0.57 with training_step.shape=uniform"
            )
        self._mean_s = seconds_per_batch
        self._spread = spread
        self._factor = SHAPES[shape]
        self._random = random.Random(seed)

    def __call__(self, batch: Any) -> None:
        """Sleeps for the next time of the sequence."""
        time.sleep(self._mean_s * (self._factor(self._random, self._spread) if self._spread else 1.0))


_MOST_UNIFORM_SPREAD = 1 / math.sqrt(3)
# Each draws a factor with mean 1 and the given standard deviation; gamma with spread 1 is the exponential distribution.
SHAPES: Mapping[str, Callable[[random.Random, float], float]] = {
    "lognormal": lambda source, spread: source.lognormvariate(-math.log1p(spread**2) / 2, math.log1p(spread**2) ** 0.5),
    "gamma": lambda source, spread: source.gammavariate(1 / spread**2, spread**2),
    "uniform": lambda source, spread: 1 + math.sqrt(3) * spread * source.uniform(-1, 1),
}
