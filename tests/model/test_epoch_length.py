"""Lengths of epochs that depend on the number of workers."""

import pytest

from nws_sweep.model import epoch_length


@pytest.mark.parametrize(
    ("batches", "workers", "usual", "usual_workers", "differs"),
    [
        (100, 4, 100, 0, False),
        (104, 4, 100, 0, False),  # a shorter last batch of each worker
        (400, 4, 100, 0, True),  # an epoch of each worker
        (25, 1, 100, 4, True),  # likewise, with fewer workers
        (96, 1, 100, 4, False),
        (5, 8, 1, 0, False),  # of tiny epochs nothing can be said
    ],
)
def test_only_more_than_the_shares_of_the_workers_is_a_difference(
    batches: int, workers: int, usual: int, usual_workers: int, differs: bool
) -> None:
    text = epoch_length.difference(batches, workers, usual, usual_workers)
    expected = f"{epoch_length.LONGER}{usual} batches with {usual_workers}, {batches} with {workers}"
    assert text == (expected if differs else "")


def test_an_epoch_that_ends_at_the_limit_is_not_too_long_and_one_batch_more_is() -> (
    None
):
    most = epoch_length.longest(50, 8)
    assert not epoch_length.difference(most, 8, 50, 0)
    assert epoch_length.difference(most + 1, 8, 50, 0)
