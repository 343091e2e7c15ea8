"""Orders the batches of an epoch for trial processes, and times samplers. Pure; imports
no torch."""

import contextlib
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

GOLDEN = (5**0.5 - 1) / 2  # its multiples modulo 1 are a sequence of low discrepancy
# batches of a run of neighbours, unless the queue holds more, and runs of an epoch
_LEAST_RUN, _FEWEST_RUNS = 4, 4


class BatchesInRuns:
    """The batches of a sampler in runs of neighbours from the whole epoch.

    Neighbours profit from what was read for them, such as a compressed chunk; an epoch
    may cost more at its end, and a slow candidate takes only tens of batches in a
    window. So runs are short. They begin at multiples of their length: the run that is
    taken as number i, from 1, i times the golden ratio modulo 1 from the beginning of
    the epoch, a sequence of low discrepancy (Niederreiter, Random Number Generation and
    Quasi-Monte Carlo Methods, 1992, section 3.1). From 0 the first runs would lie
    before the middle: too cheap where later batches cost more. So runs of any length
    come from the same parts of the epoch: candidates have batches in common. Each epoch
    begins with another run, because windows do not reach its last batches.

    Args:
        batches: Of the sampler, in its order.
        queued_batches: That the queue of the DataLoader holds: a run is at least as
            long.
        place: Share of the runs before the first that is taken, from 0 to 1.

    Attributes:
        order: The numbers, in the sampler's order, of the batches taken in this epoch.
        is_whole: Whether the whole epoch is taken in the sampler's order.
    """

    def __init__(
        self, batches: Sequence[Any], queued_batches: int, place: float
    ) -> None:
        self._batches, self._place = batches, place
        self._run_length = min(
            max(_LEAST_RUN, queued_batches), max(1, len(batches) // _FEWEST_RUNS)
        )
        self.order: list[int] = []
        self.is_whole = False

    def __iter__(self) -> Iterator[Any]:
        self.order.clear()
        numbers = range(len(self)) if self.is_whole else self._numbers()
        for number in numbers:
            self.order.append(number)
            yield self._batches[number]

    def __len__(self) -> int:
        return len(self._batches)

    def _numbers(self) -> Iterator[int]:
        turns = range(math.ceil(len(self) / self._run_length))
        turn_of_run = sorted(turns, key=lambda turn: (turn + 1) * GOLDEN % 1)
        run_of_turn = dict(zip(turn_of_run, turns, strict=True))
        first = int(self._place * len(turns))
        self._place = (self._place + GOLDEN) % 1
        for turn in (*turns[first:], *turns[:first]):
            begin = run_of_turn[turn] * self._run_length
            yield from range(begin, min(begin + self._run_length, len(self)))


class RotatedBatches:
    """The batches of a sampler from batch ``first`` to the end, then the batches before
    it."""

    def __init__(self, batches: Any, first: int) -> None:
        self._batches, self._first = batches, first
        # where loaders of timm and ultralytics look for the length
        self.sampler = getattr(batches, "sampler", None)

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self._batches)
        before = list(itertools.islice(batches, self._first))
        return itertools.chain(batches, before)

    def __len__(self) -> int:
        return len(self._batches)


@dataclass
class SamplerClock:
    """What a sampler costs the process that iterates.

    Attributes:
        spent_s: Seconds in the sampler so far.
        spent_cpu_s: CPU seconds of the process meanwhile.
    """

    spent_s: float = 0.0
    spent_cpu_s: float = 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The sampler works."""
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.spent_s += time.perf_counter() - began_s
            self.spent_cpu_s += time.process_time() - began_cpu_s

    def read(self) -> tuple[float, float]:
        """Returns both times."""
        return self.spent_s, self.spent_cpu_s


class TimedBatches:
    """The batches of a sampler, which is timed."""

    def __init__(self, batches: Any, clock: SamplerClock) -> None:
        self._batches, self._clock = batches, clock

    def __iter__(self) -> Iterator[Any]:
        with self._clock.running():
            batches = iter(self._batches)
        return self._draws(batches)

    def _draws(self, batches: Iterator[Any]) -> Iterator[Any]:
        while True:
            try:
                with self._clock.running():
                    batch = next(batches)
            except StopIteration:
                return
            yield batch

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:
        """Attributes of the sampler, which loaders of some libraries read."""
        return getattr(vars(self)["_batches"], name)
