"""The length of epochs of an iterable dataset, which must not depend on the number of workers. Pure.

Workers that share the samples have as many batches in all as without workers, but for a shorter last one each. A
stream of which each worker has an epoch of its own, such as a resampled one of webdataset, has more with more workers.
"""

import math
from dataclasses import dataclass

_LONGER = 1.25  # more batches by this factor are not due to unequal shares of the workers


@dataclass
class EpochLength:
    """Compares epochs with those of the program's own number of workers.

    Attributes:
        workers: Of the program.
        plain: Batches of the latest epoch with them; None before the end of one.
    """

    workers: int
    plain: int | None = None

    def most(self, workers: int) -> int | None:
        """Batches after which an epoch with so many workers is too long; None if any length is right."""
        if self.plain is None or workers <= self.workers:
            return None
        return math.ceil(_LONGER * self.plain) + workers

    def notice(self, batches: int, workers: int) -> str:
        """An epoch with so many workers has these batches; returns what is wrong with its length, or nothing."""
        if workers == self.workers:
            self.plain = batches
        most = self.most(workers)
        if self.plain is None or (batches != most and _LONGER * batches + self.workers >= self.plain):
            return ""
        more = "more than " if batches == most else ""
        return (
            f"the length of an epoch depends on it: {more}{batches} batches with num_workers={workers}, "
            f"{self.plain} with {self.workers}"
        )
