"""Samplers that are timed."""

import time
from collections.abc import Iterator

from nws_sweep.dataloading.orders import SamplerClock, TimedBatches


class Slow:
    """Takes 10 ms to begin, and 5 ms for each batch."""

    epoch = 7

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[list[int]]:
        time.sleep(0.01)
        for number in range(3):
            time.sleep(0.005)
            yield [number]


def test_a_sampler_is_timed_where_it_works_and_gives_what_it_gives() -> None:
    clock = SamplerClock()
    batches = TimedBatches(Slow(), clock)
    drawn = []
    for batch in batches:
        drawn.append(batch)
        time.sleep(0.05)  # belongs to the loop
    assert drawn == [[0], [1], [2]]
    assert 0.025 <= clock.spent_s < 0.1 < 3 * 0.05
    assert clock.spent_cpu_s < clock.spent_s
    assert (len(batches), batches.epoch) == (3, 7)
