import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from nws_sweep import units
from nws_sweep.records import Estimate

# The arguments of each function, and the text at the end.
SHOWN: Mapping[Callable[..., str], Sequence[tuple[Any, ...]]] = {
    units.seconds: [
        (None, "-"), (0.0, "0.00 µs"), (0.0000123, "12.3 µs"), (0.00123, "1.23 ms"), (0.0456, "45.6 ms"),
        (0.789, "789 ms"), (1.0, "1.00 s"), (23.45, "23.4 s"), (119.0, "119 s"), (120.0, "2.00 min"),
        (7200.0, "120 min"),
        # rounded up to the next unit
        (0.0009999, "1.00 ms"), (0.9999, "1.00 s"), (119.9, "2.00 min"),
    ],
    units.interval: [  # half of its width
        (None, "-"),
        (Estimate(value=0.5, low=None, high=None, n=2), "500 ms"),
        (Estimate(value=1.0, low=0.97, high=1.035, n=5), "1.00 s ±3.2 %"),
        (Estimate(value=0.5, low=0.4, high=0.64, n=5), "500 ms ±24 %"),
        (Estimate(value=6.234, low=5.484, high=6.984, n=5), "6.2 s ±12 %"),
        (Estimate(value=0.0001, low=0.0000901, high=0.0001099, n=5), "100 µs ±9.9 %"),
        # wider than half of the number
        (Estimate(value=0.15, low=0.0901, high=0.249, n=5), "about 90 to 250 ms"),
        (Estimate(value=0.5, low=0.375, high=0.75, n=5), "about 400 to 800 ms"),
        (Estimate(value=0.9, low=0.4, high=1.3, n=5), "about 0.4 to 1.3 s"),
        (Estimate(value=0.9, low=0.4, high=0.999, n=5), "about 0.4 to 1 s"),
        (Estimate(value=130.0, low=60.0, high=300.0, n=5), "about 1 to 5 min"),
        (Estimate(value=0.02, low=0.0008, high=0.7, n=5), "unknown"),
    ],
    units.number: [  # with an uncertainty
        (12345.6, 0.02, "12300"), (12345.6, 0.5, "12000"), (512.4, 0.01, "512"), (512.4, 0.3, "510"),
        (1.94, 0.1, "1.94"), (1.94, 0.6, "1.9"), (9.96, 0.3, "10"), (0.0, 0.3, "0.00"),
        # three digits without one
        (None, None, "-"), (0.00512, None, "0.00512"), (9.999, None, "10.0"), (12345.6, None, "12346"),
    ],
    units.duration: [
        (3.0, "10 s"), (62.0, "60 s"), (89.0, "90 s"), (90.0, "2 minutes"), (248.0, "4 minutes"),
    ],
    units.limit: [
        (0.5, "0.5 s"), (4.0, "4 s"), (12.0, "12 s"), (90.0, "90 s"), (300.0, "5 minutes"), (301.0, "301 s"),
    ],
    units.rate: [
        (None, "-"), (Estimate(value=512.4, low=None, high=None, n=2), "512"),
        (Estimate(value=512.4, low=400.0, high=640.0, n=2), "510"),
    ],
    units.counted: [
        (1, "worker", "1 worker"), (0, "worker", "no workers"), (2, "batch", "2 batches"), (2.5, "epoch", "2.5 epochs"),
    ],
    units.memory: [
        (None, "-"), (0, "0 B"), (999, "999 B"), (1024, "1.02 kB"), (999_400, "999 kB"), (999_900, "1.00 MB"),
        (999_999_999, "1.00 GB"), (2_500_000_000_000, "2500 GB"), (-1_500_000, "-1.50 MB"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("shows", "case"),
    [(shows, case) for shows, cases in SHOWN.items() for case in cases],
)
def test_values_have_a_suitable_unit_and_the_digits_of_their_interval(
    shows: Callable[..., str], case: Sequence[Any]
) -> None:
    *arguments, text = case
    assert shows(*arguments) == text


def test_a_moment_is_that_of_the_readers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        shown = units.moment("2026-11-29T19:15:56.946493+00:00")
        assert shown == "2026-11-30 00:45"
    finally:
        monkeypatch.undo()
        time.tzset()
