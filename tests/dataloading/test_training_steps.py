import statistics
import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nws_sweep.dataloading.training_steps import Sleep, Train, inputs_and_targets, mlp, to_device
from nws_sweep.errors import ConfigurationError


def test_sleep_times_have_the_given_mean_and_spread_for_all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    def slept(training_step: Sleep, count: int = 50_000) -> list[float]:
        found: list[float] = []
        monkeypatch.setattr(time, "sleep", found.append)
        for _ in range(count):
            training_step(None)
        return found

    first, second = (slept(Sleep(0.1, spread=0.5, seed=1)) for _ in range(2))
    assert first == second
    assert statistics.fmean(first) == pytest.approx(0.1, rel=0.02)
    assert statistics.stdev(first) == pytest.approx(0.05, rel=0.05)
    assert slept(Sleep(0.1), 5) == [0.1] * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seconds_per_batch": -0.1}, "training_step.seconds_per_batch=-0.1: allowed is a number of at least 0"),
        ({"seconds_per_batch": 0.1, "spread": float("nan")},
         "training_step.spread=nan: allowed is a number of at least 0"),
    ],
)  # fmt: skip
def test_errors_of_sleep_name_the_key(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{message}"):
        Sleep(**arguments)


def test_a_training_step_is_forward_loss_backward_and_optimiser() -> None:
    torch.manual_seed(0)
    model = mlp([4, 8, 3])
    assert [type(layer) for layer in model] == [nn.Flatten, nn.Linear, nn.ReLU, nn.Linear]
    inputs = torch.randn(16, 2, 2)
    targets = inputs.flatten(1)[:, :3].argmax(1)
    train = Train(model, nn.CrossEntropyLoss(), lambda parameters: torch.optim.SGD(parameters, lr=0.5), device="cpu")
    train((inputs, targets))
    first = float(train.total_loss)
    for _ in range(50):
        train([inputs, targets])
    last = float(train.total_loss)
    train({"image": inputs, "label": targets})
    assert float(train.total_loss) - last < first / 2

    def gradients() -> list[Any]:
        return [parameter.grad for parameter in model.parameters()]

    still = Train(model, nn.CrossEntropyLoss(), lambda parameters: torch.optim.SGD(parameters, lr=0.0), device="cpu")
    still((inputs, targets))
    before = [gradient.clone() for gradient in gradients()]
    still((inputs, targets))
    assert all(torch.equal(old, new) for old, new in zip(before, gradients(), strict=True))


def test_tensors_in_nested_containers_are_copied_to_the_device() -> None:
    nest = {"a": torch.zeros(2), "b": [torch.ones(1), "name", 3]}
    found = to_device(nest, torch.device("meta"))
    assert found["a"].device.type == "meta"
    assert [part.device.type if isinstance(part, Tensor) else part for part in found["b"]] == ["meta", "name", 3]


def test_batches_without_targets_are_refused_with_a_remedy() -> None:
    for batch in (torch.zeros(3), [torch.zeros(3)], {"x": torch.zeros(3)}, 5):
        with pytest.raises(TypeError, match=r"needs batches of inputs and targets.*training_step=custom"):
            inputs_and_targets(batch)
