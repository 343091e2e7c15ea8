"""A program that uses the API, for mypy alone: that it passes in strict mode is the
test (scripts/check)."""

from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import nws_sweep

if TYPE_CHECKING:
    from typing_extensions import assert_type


class Mine(DataLoader[Any]):
    pass


def step(batch: torch.Tensor) -> float:
    return float(batch.sum())


def main() -> None:
    dataset = TensorDataset(torch.arange(10))
    result = nws_sweep.search(
        dataset,
        batch_size=64,
        shuffle=True,
        training_step=step,
        num_workers=[0, 2],
        progress=print,
    )
    loader: DataLoader[Any] = DataLoader(dataset, **result.loader_kwargs)
    if TYPE_CHECKING:
        assert_type(result, nws_sweep.SearchResult)
        assert_type(result.num_workers, int)
        assert_type(nws_sweep.tune(loader), DataLoader[Any])
        assert_type(nws_sweep.tune(Mine(dataset), training_step=0.1), Mine)
        assert_type(nws_sweep.tune(lambda: Mine(dataset)), Mine)
    nws_sweep.search(dataset, batch_siz=64)  # type: ignore[call-arg]
    nws_sweep.tune(dataset)  # type: ignore[arg-type]
