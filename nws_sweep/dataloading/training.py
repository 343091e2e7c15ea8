"""A real training step as consumer: forward, loss, backward, optimiser.

Only so is the loader measured beside what it competes with: a step on the CPU takes the workers' cores, one on an
accelerator leaves them alone, and the ranking of candidates can differ from that of loading alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from nws_sweep.system import accelerator


class Train:
    """Takes a training step for each batch.

    Args:
        model: Any module that takes the inputs of a batch.
        loss: Takes the model's outputs and the targets.
        optimizer: Makes the optimiser of the model's parameters.
        device: Where the model is; ``auto`` for the accelerator if there is one (of several ranks each its own, as far
            as there are several), else the CPU. Inputs and targets are copied there, without waiting where they are in
            pinned memory. Of several ranks on the CPU the model is in DistributedDataParallel.
        synchronize: Whether to wait for an accelerator after each step, so that the step's time is its own. A loop
            that does not wait lets the main process load (num_workers=0) or pin the next batch meanwhile; that work
            then shows as part of the training step's time.

    Attributes:
        total_loss: Sum of the losses of all steps, shape (). It stays on the device: reading it out at each step would
            make every loop wait for its accelerator.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Any], Tensor],
        optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
        device: str = "auto",
        synchronize: bool = True,
    ) -> None:
        self._device = torch.device((accelerator.of_rank() or "cpu") if device == "auto" else device)
        self._model = model.to(self._device).train()
        several = torch.distributed.is_available() and torch.distributed.is_initialized()
        learns = any(parameter.requires_grad for parameter in model.parameters())
        # On accelerators what several ranks tell each other takes the CPUs no time.
        if several and torch.distributed.get_world_size() > 1 and learns and self._device.type == "cpu":
            self._model = nn.parallel.DistributedDataParallel(self._model)
        self._loss = loss
        self._optimizer = optimizer(self._model.parameters())
        self._synchronize = synchronize
        self.total_loss = torch.zeros((), device=self._device)

    def __call__(self, batch: Any) -> None:
        """Takes one step.

        Raises:
            TypeError: If the batch has no inputs and targets.
        """
        inputs, targets = (moved(part, self._device) for part in inputs_and_targets(batch))
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._loss(self._model(inputs), targets)
        loss.backward()
        self._optimizer.step()
        self.total_loss += loss.detach()
        if self._synchronize:
            accelerator.synchronize(self._device)


def inputs_and_targets(batch: Any) -> tuple[Any, Any]:
    """The first two parts of a batch: of a sequence, or the first two values of a mapping.

    Raises:
        TypeError: If it has fewer, or is neither.
    """
    parts: Sequence[Any] = list(batch.values()) if isinstance(batch, Mapping) else batch
    if not isinstance(parts, Sequence) or len(parts) < 2:
        raise TypeError(
            f"a training step needs batches of inputs and targets, got {type(batch).__name__}; "
            "for batches of another form give a consumer of your own: consumer=custom consumer._target_=module.Class"
        )
    return parts[0], parts[1]


def moved(value: Any, device: torch.device) -> Any:
    """A tensor, or any nest of them, on a device; without waiting where the copy can be made from pinned memory."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=value.is_pinned())
    if isinstance(value, Mapping):
        return {key: moved(part, device) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [moved(part, device) for part in value]
    return value


def mlp(layers: Sequence[int]) -> nn.Sequential:
    """Fully connected layers with ReLU between them.

    Args:
        layers: Sizes of the inputs, which are flattened, of each hidden layer, and of the outputs; at least two.

    Raises:
        ValueError: If there are fewer.
    """
    if len(layers) < 2:
        raise ValueError(f"layers={list(layers)}: at least two sizes are needed, of the inputs and of the outputs")
    parts: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(layers):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*parts[:-1])
