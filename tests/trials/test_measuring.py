"""Windows of the DataLoader of a trial process, measured in this process."""

from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, IterableDataset

from nws_sweep.records import LoaderSettings, WindowKind, WindowRequest
from nws_sweep.trials.measuring import MeasuredLoader

EPOCH = WindowRequest(kind=WindowKind.EPOCH)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(8))


def positions(
    dataset: Any, num_workers: int, place: float, folder: Path
) -> list[tuple[int, float | None]]:
    settings = LoaderSettings(batch_size=2, num_workers=num_workers)
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=2,
        shuffle=None if isinstance(dataset, Stream) else True,
        num_workers=num_workers,
    )
    measured = MeasuredLoader(
        loader, settings, place, lambda batch: None, None, str(folder)
    )
    return [
        (record.number, record.position) for record in measured.window(EPOCH).records
    ]


@pytest.mark.parametrize(("num_workers", "first"), [(0, 1), (1, 0)])
def test_records_have_the_places_of_their_batches_in_the_order_of_the_sampler(
    num_workers: int, first: int, tmp_path: Path
) -> None:
    """The epoch begins at half of the order; without workers, its first batch has no
    record."""
    places = [(0, 0.5), (1, 0.75), (2, 0.0), (3, 0.25)]
    assert positions(range(8), num_workers, 0.5, tmp_path) == places[first:]
    assert positions(Stream(), num_workers, 0.5, tmp_path) == [
        (number, None) for number in range(first, 4)
    ]
