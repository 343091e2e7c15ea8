"""Epochs of an iterable dataset whose length depends on the number of workers, which it
must not. Pure.

Workers that share the samples have as many batches in all as one process, but for a
shorter last batch of each worker. A stream of which each worker has a separate epoch,
such as a resampled stream of webdataset, has more batches with more workers.
"""

LONGER = "the length of an epoch depends on num_workers: "
# more batches or samples by this factor are not due to unequal shares of the workers
_UNEQUAL = 1.25


def longest(usual: int, workers: int) -> int:
    """Counts the batches, or samples, that an epoch with these workers may have, if
    another epoch has ``usual``."""
    return int(_UNEQUAL * usual) + workers


def difference(batches: int, workers: int, usual: int, usual_workers: int) -> str:
    """Says that two epochs differ in length by more than the shares of their workers;
    empty if they do not.

    Args:
        batches: Of the latest epoch.
        workers: With which it was loaded.
        usual: Batches of the epoch to compare with.
        usual_workers: With which that epoch was loaded.
    """
    is_longer = batches > longest(usual, workers)
    is_shorter = usual > longest(batches, usual_workers)
    if not (is_longer or is_shorter):
        return ""
    return f"{LONGER}{usual} batches with {usual_workers}, {batches} with {workers}"
