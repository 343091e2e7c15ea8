"""Uses each batch: for nothing, for a sleep as long as a training step, or for a real
training step.

A step on the CPU competes with the workers for cores, so candidates can rank
differently than without a training step.
"""

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from nws_sweep.errors import ConfigurationError
from nws_sweep.system import accelerator


class Nothing:
    """Does nothing with a batch, to measure the loader alone."""

    def __call__(self, batch: Any) -> None:
        """Discards the batch."""


class Sleep:
    """Sleeps for each batch, as a training step on an accelerator uses no CPU time.

    ConfigurationError if an argument is out of range.

    Args:
        seconds_per_batch: Mean time per batch, s, at least 0.
        spread: Standard deviation of the time / its mean, at least 0; 0 for equal
            times. The times are log-normal.
        seed: Seed of the times; every candidate gets the same times in the same order.
    """

    def __init__(
        self, seconds_per_batch: float, spread: float = 0.0, seed: int = 0
    ) -> None:
        for name, value in {
            "seconds_per_batch": seconds_per_batch,
            "spread": spread,
        }.items():
            if not 0 <= value < math.inf:
                raise ConfigurationError(
                    f"training_step.{name}={value}: must be a number of at least 0"
                )
        self._mean_s = seconds_per_batch
        self._variance = math.log1p(spread**2)  # of the logarithm of a time
        self._random = random.Random(seed)

    def __call__(self, batch: Any) -> None:
        """Sleeps for the next time of the sequence."""
        # of mean 1
        factor = self._random.lognormvariate(
            -self._variance / 2, math.sqrt(self._variance)
        )
        time.sleep(self._mean_s * factor)


class Train:
    """Does one training step per batch, and does not wait for the accelerator.

    Args:
        model: Module that takes the inputs of a batch.
        loss: Called with the model's outputs and the targets.
        optimizer: Called with the model's parameters; returns the optimiser.
        device: Device of the model; ``auto`` for the accelerator of this rank if there
            is one, else the CPU. Inputs and targets are copied to it, asynchronously
            from pinned memory.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Any], Tensor],
        optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
        device: str = "auto",
    ) -> None:
        if device == "auto":
            device = accelerator.of_rank() or "cpu"
        self._device = torch.device(device)
        self._model = model.to(self._device).train()
        self._loss = loss
        self._optimizer = optimizer(self._model.parameters())

    def __call__(self, batch: Any) -> None:
        """Does one step; TypeError if the batch has no inputs and targets."""
        inputs, targets = inputs_and_targets(batch)
        inputs = _to_device(inputs, self._device)
        targets = _to_device(targets, self._device)
        self._optimizer.zero_grad(set_to_none=True)
        self._loss(self._model(inputs), targets).backward()
        self._optimizer.step()


def inputs_and_targets(batch: Any) -> tuple[Any, Any]:
    """Returns the first two elements of a sequence, or values of a mapping; TypeError
    for other batches."""
    parts: Sequence[Any] = list(batch.values()) if isinstance(batch, Mapping) else batch
    if not isinstance(parts, Sequence) or len(parts) < 2:
        raise TypeError(
            f"a training step needs batches of inputs and targets, got {type(batch).__name__}; "
            "for other batches write a training step: training_step=custom training_step._target_=module.Class"
        )
    return parts[0], parts[1]


def _to_device(value: Any, device: torch.device) -> Any:
    """Copies a tensor, or the tensors in nested containers, to a device; asynchronously
    from pinned memory."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=value.is_pinned())
    if isinstance(value, Mapping):
        return {key: _to_device(part, device) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_device(part, device) for part in value]
    return value


def mlp(layers: Sequence[int]) -> nn.Sequential:
    """Makes fully connected layers with ReLU between them: sizes of the flattened
    inputs, hidden layers, outputs."""
    parts: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(layers):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*parts[:-1])
