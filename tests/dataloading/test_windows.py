"""Windows of batches on a fake clock."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from nws_sweep.dataloading.windows import LoaderSession, batch_length, tensor_sizes
from nws_sweep.records import WindowKind, WindowRequest
from tests.fakes import FakeClock, SimulatedLoader

EPOCH = WindowRequest(kind=WindowKind.EPOCH)


def session(clock: FakeClock, loader: Any) -> LoaderSession:
    return LoaderSession(loader, lambda batch: None, clock.moment)


def request(**changes: Any) -> WindowRequest:
    return WindowRequest(**{"kind": WindowKind.STEADY, **changes})


def test_the_first_batch_of_an_epoch_is_the_startup() -> None:
    clock = FakeClock()
    measured = session(
        clock, SimulatedLoader(clock, 10, make_s=1.0, num_workers=1, start_s=5.0)
    )
    assert [measured.window(request()).startup_s for _ in range(2)] == [6.0, None]

    class SlowIterable:
        def __iter__(self) -> Any:
            clock.advance(7.0)
            return iter([0])

    assert session(clock, SlowIterable()).window(request()).startup_s == 7.0


@pytest.mark.parametrize(
    ("changes", "batches"),
    [
        ({"min_batches": 4, "multiple_of": 3}, 6),
        ({"min_seconds": 7.5, "multiple_of": 4}, 8),
        ({"min_seconds": 7.5, "max_batches": 3}, 3),
    ],
)
def test_a_window_stops_after_whole_multiples_at_both_minima_or_at_the_maximum(
    changes: dict[str, Any], batches: int
) -> None:
    clock = FakeClock()
    assert (
        session(clock, SimulatedLoader(clock, 100, make_s=1.0))
        .window(request(**changes))
        .batches
        == batches
    )


def test_the_end_of_an_epoch_ends_the_window_and_is_timed_separately() -> None:
    clock = FakeClock()
    loader = SimulatedLoader(clock, 3, make_s=1.0, end_s=0.5)
    measured = session(clock, loader)
    window = measured.window(request(min_batches=5))
    assert (window.batches, window.end_s, window.elapsed_s) == (3, 0.5, 3.5)
    assert measured.window(request(min_batches=3)).startup_s == 1.0
    over = measured.window(request())
    assert (over.batches, over.startup_s, over.ended_epoch, loader.epochs_begun) == (
        0,
        None,
        True,
        2,
    )


def test_a_window_of_a_whole_epoch_starts_a_new_epoch() -> None:
    clock = FakeClock()
    loader = SimulatedLoader(clock, 5, make_s=1.0)
    measured = session(clock, loader)
    measured.window(request(min_batches=2))
    window = measured.window(EPOCH)
    assert (window.batches, window.ended_epoch, loader.epochs_begun) == (5, True, 2)
    empty = session(clock, []).window(EPOCH)
    assert (empty.batches, empty.startup_s, empty.ended_epoch) == (0, None, True)


@pytest.mark.parametrize(
    ("changes", "made", "stop_s"),
    [
        ({}, 4, 0.5),
        ({}, 3, None),
        ({}, None, None),
        ({"batches_per_epoch": 3}, 3, 0.5),
        ({"drain": True}, 4, None),
    ],
)
def test_workers_end_as_at_the_end_of_an_epoch_if_all_are_idle(
    changes: Any, made: Any, stop_s: float | None
) -> None:
    """One batch has been taken, and three fit into the queue."""
    clock, counts = FakeClock(), [0]

    class Loader:
        def __iter__(self) -> Any:
            try:
                yield from range(3)
            finally:
                clock.advance(0.5)

    measured = LoaderSession(
        Loader(),
        lambda batch: None,
        clock.moment,
        queued_batches=3,
        produced=lambda: counts[-1],
        **changes,
    )
    assert measured.window(request(fresh=True)).stop_s is None  # no epoch was left
    counts.append(made)
    assert measured.window(request(fresh=True)).stop_s == stop_s


def test_progress_is_reported_every_5_s_in_which_batches_arrive() -> None:
    clock, reported_s = FakeClock(), list[float]()
    loader = SimulatedLoader(clock, 9, make_s=2.0)
    measured = LoaderSession(
        loader,
        lambda batch: None,
        clock.moment,
        on_progress=lambda: reported_s.append(clock.now),
    )
    measured.window(EPOCH)
    assert reported_s == [6.0, 12.0, 18.0]


def test_samples_are_counted_and_the_first_batch_is_sized() -> None:
    window = session(
        FakeClock(), [np.zeros((4, 2)), np.zeros((4, 2)), np.zeros((3, 2))]
    ).window(EPOCH)
    assert (window.samples, window.batch_bytes, window.batch_tensors) == (11, 64, 1)


class Attributes(dict[str, Any]):
    """Its items are attributes; KeyError for others."""

    __getattr__ = dict.__getitem__


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


SPARSE = torch.sparse_coo_tensor(
    torch.tensor([[0, 2]]), torch.ones(2), (5,), check_invariants=True
)


@pytest.mark.parametrize(
    ("batch", "length"),
    [
        (np.zeros((8, 3, 2)), 8),
        ([np.zeros((8, 3)), np.zeros(8)], 8),
        ({"image": np.zeros((7, 3)), "label": np.zeros(7)}, 7),
        (np.float32(1.0), 64),
        (
            [Attributes(image=np.zeros((7, 3)))],
            7,
        ),  # pytest reads attributes of a parameter
        (SimpleNamespace(shape=lambda: (8,)), 64),
        ([], 64),
        (None, 64),
    ],
)
def test_the_length_of_a_batch_is_that_of_its_first_tensor(
    batch: Any, length: int
) -> None:
    assert batch_length(batch, default=64) == length


@pytest.mark.parametrize(
    ("batch", "sizes"),
    [
        (np.zeros((8, 3), dtype=np.float32), (96, 1)),
        (
            {
                "image": torch.zeros(4, 2),
                "target": {"box": torch.zeros(4, 4), "label": torch.zeros(4)},
            },
            (112, 3),
        ),
        ([torch.zeros(2), ["a.jpg", "b.jpg"], 7, None, b"bytes"], (8, 1)),
        (default_collate([(torch.zeros(3), 1), (torch.zeros(3), 2)]), (40, 2)),
        (Pair(torch.zeros(1), torch.zeros(2)), (12, 2)),
        ([Attributes(image=torch.zeros(4))], (16, 1)),
        ([SPARSE, torch.zeros(2)], (8, 1)),  # sparse tensors have no size
        *(
            (nothing, (None, None))
            for nothing in (
                None,
                7,
                "text",
                b"bytes",
                [],
                {},
                ["a", ["b"]],
                SPARSE,
                {1: "x"},
            )
        ),
        (SimpleNamespace(nbytes=lambda: 5), (None, None)),
        (torch.zeros(3).untyped_storage(), (None, None)),
    ],
)
def test_the_sizes_of_a_batch_are_those_of_its_tensors_and_arrays(
    batch: Any, sizes: tuple[int | None, int | None]
) -> None:
    assert tensor_sizes(batch) == sizes
