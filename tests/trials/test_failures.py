import json
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from nws_sweep.trials import failures
from tests.user_datasets import Plain


class Fails(Plain):
    def __getitem__(self, index: int) -> torch.Tensor:
        json.loads("{")  # the innermost frames are of the standard library
        return super().__getitem__(index)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_failure_names_the_innermost_frame_of_the_users_code(
    num_workers: int,
) -> None:
    """Of an exception in a worker, from its text."""
    with pytest.raises((json.JSONDecodeError, RuntimeError)) as failed:
        list(DataLoader(Fails(8), num_workers=num_workers))
    line = Fails.__getitem__.__code__.co_firstlineno + 1
    place = f" in Fails.__getitem__ ({Path(__file__).name}:{line})"
    assert failures.describe(failed.value).endswith(place)
    assert failures.describe(ValueError("bad")) == "ValueError: bad"
