import math
import statistics
import time
from typing import Any

import pytest
import torch
from torch import nn

from nws_sweep.dataloading.training_steps import Sleep, Train, inputs_and_targets, mlp
from nws_sweep.errors import ConfigurationError


def test_sleep_times_have_the_mean_and_spread_and_are_the_same_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    for training_step in (
        Sleep(0.1, spread=0.5, seed=1),
        Sleep(0.1, spread=0.5, seed=1),
    ):
        for _ in range(50_000):
            training_step(None)
    assert statistics.fmean(slept) == pytest.approx(0.1, rel=0.02)
    assert statistics.stdev(slept) == pytest.approx(0.05, rel=0.05)
    assert slept[:50_000] == slept[50_000:]
    slept.clear()
    Sleep(0.1)(None)
    assert slept == [0.1]


def test_errors_of_sleep_name_the_key() -> None:
    for given, arguments in (
        ("seconds_per_batch=-0.1", (-0.1,)),
        ("spread=nan", (0.1, math.nan)),
    ):
        with pytest.raises(
            ConfigurationError,
            match=rf"^training_step\.{given}: must be a number of at least 0",
        ):
            Sleep(*arguments)


def test_a_training_step_is_forward_loss_backward_and_optimiser() -> None:
    torch.manual_seed(0)
    model = mlp([4, 8, 3])
    assert [type(layer) for layer in model] == [
        nn.Flatten,
        nn.Linear,
        nn.ReLU,
        nn.Linear,
    ]
    inputs = torch.randn(16, 2, 2)
    targets = inputs.flatten(1)[:, :3].argmax(1)
    train = Train(
        model,
        nn.CrossEntropyLoss(),
        lambda parameters: torch.optim.SGD(parameters, lr=0.5),
        device="cpu",
    )
    first = float(nn.CrossEntropyLoss()(model(inputs), targets).detach())
    for batch in ((inputs, targets), {"image": inputs, "label": targets}):
        for _ in range(25):
            train(batch)
    assert float(nn.CrossEntropyLoss()(model(inputs), targets).detach()) < first / 2
    still = Train(
        model,
        nn.CrossEntropyLoss(),
        lambda parameters: torch.optim.SGD(parameters, lr=0.0),
        device="cpu",
    )
    still((inputs, targets))
    on_device = Train(
        mlp([4, 3]), nn.CrossEntropyLoss(), torch.optim.SGD, device="meta"
    )
    on_device((inputs, targets))  # fails unless both are copied
    weights: Any = next(model.parameters())
    before = weights.grad.clone()
    still((inputs, targets))
    assert torch.equal(weights.grad, before)


def test_batches_without_targets_are_refused_with_a_remedy() -> None:
    for batch in (torch.zeros(3), [torch.zeros(3)], {"x": torch.zeros(3)}, 5):
        with pytest.raises(
            TypeError,
            match=r"needs batches of inputs and targets.*training_step=custom",
        ):
            inputs_and_targets(batch)
