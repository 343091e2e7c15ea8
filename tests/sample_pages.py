"""Reports and a comparison of invented measurements, in the shapes that a page must
support."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nws_sweep.records import Account, Estimate, SearchRecord, Trial, storage
from nws_sweep.report import writer
from tests.factories import (
    configuration,
    failed_trial,
    loader_settings,
    measurement,
    search_result,
    search_rules,
    store_grid,
    store_run,
    trial,
)

EVIL = "<script>alert('& more')</script>"
LONG = "/data/" + "a_folder_with_a_long_name/" * 6 + "train"
WORKERS = (0, 1, 2, 4, 8)


def paced(num_workers: int, batch_s: float, batch_size: int = 64) -> Trial:
    """A trial with this time per batch, ±2 %; waiting decreases with workers."""
    steady = Estimate(value=batch_s, low=batch_s / 1.02, high=batch_s * 1.02, n=12)
    waiting = 0.9 / (1 + num_workers)
    account = Account(
        step_s=65 * (1 - waiting) * batch_s, making_s=65 * waiting * batch_s, starting_s=1.5
    )  # fmt: skip
    found = measurement(
        65 * batch_s + 1.5, startup_s=1.5, batch_s=steady, samples_per_s=batch_size / batch_s, stall_fraction=waiting,
        wait_s=waiting * batch_s, step_s=(1 - waiting) * batch_s, memory_bytes=(1 + num_workers) * 3 * 2**28,
        account=account,
    )  # fmt: skip
    settings = loader_settings(num_workers, batch_size=batch_size)
    return trial(
        num_workers,
        1.0,
        measurement=found,
        settings=settings,
        batches=8192 // batch_size,
    )


def searched(
    batch_s: float, *more: Trial, columns: Mapping[str, Any] | None = None, workers: Sequence[int] = WORKERS,
    **changes: Any,
) -> SearchRecord:  # fmt: skip
    """A search in which up to four workers help."""
    size = (columns or {}).get("batch_size", 64)
    trials = [paced(n, batch_s / min(1 + n, 5) * (1 + n / 100), size) for n in workers]
    measured = configuration(
        columns,
        loader=loader_settings(batch_size=size),
        search=search_rules(tuple(workers)),
    )
    return search_result(*trials, *more, configuration=measured, **changes)


def grid_of_200() -> Iterator[SearchRecord]:
    """Batch sizes in neither numerical nor alphabetical order."""
    for size in ((37 * n) % 200 + 1 for n in range(200)):
        yield searched(
            0.1 + 7 * size % 200 / 100, columns={"batch_size": size}, workers=(0, 4)
        )


def grid_of_datasets() -> Iterator[SearchRecord]:
    """A thousandfold apart, each with other numbers of workers."""
    for batch_s, name, workers in (
        (0.5, "photos", (0, 1, 2)), (8.0, "objects", (0, 2, 8, 31, 63)), (0.001, "tensors", (0, 2))
    ):  # fmt: skip
        for size in (64, 256):
            yield searched(
                batch_s * size / 64,
                columns={"dataset": name, "batch_size": size},
                workers=workers,
            )


# Hostile and long names, a candidate and a configuration that failed.
GRID_OF_4 = (
    searched(0.5, columns={"dataset": EVIL, "batch_size": 64}),
    searched(
        0.25,
        failed_trial(16, f"it broke: {EVIL}"),
        columns={"dataset": LONG, "batch_size": 128},
    ),
    searched(0.125, columns={"dataset": "photos", "batch_size": 256}),
    search_result(
        failed_trial(0, f"no such file: {LONG}"),
        columns={"dataset": "arrays", "batch_size": 64},
    ),
)
FAILED = search_result(failed_trial(0, f"OSError: {EVIL} is not a file"))


def page_of(folder: Path) -> Path:
    writer.write(folder)
    return folder / storage.PAGE


PAGES: dict[str, Callable[[Path], Path]] = {
    "run": lambda parent: page_of(store_run(parent, searched(0.5))),
    "failed": lambda parent: page_of(store_run(parent, FAILED)),
    "grid_of_4": lambda parent: page_of(store_grid(parent, *GRID_OF_4)),
    "grid_of_datasets": lambda parent: page_of(store_grid(parent, *grid_of_datasets())),
    "grid_of_200": lambda parent: page_of(store_grid(parent, *grid_of_200())),
}
