"""How long the rest of a grid takes."""

from __future__ import annotations

import pytest

from nws_sweep.pace import Pace


def test_nothing_is_said_before_anything_is_known() -> None:
    pace = Pace(10)
    assert pace.left_s is None
    pace.skipped()
    assert pace.left_s is None


def test_it_is_what_the_rest_takes_at_the_same_pace() -> None:
    pace = Pace(10)
    pace.measured(12.0)
    pace.measured(12.0)
    assert pace.left_s == pytest.approx(8 * 12.0)


def test_what_is_known_already_takes_no_time() -> None:
    pace = Pace(10)
    pace.measured(12.0)
    for _ in range(5):
        pace.skipped()
    assert pace.left_s == pytest.approx(4 * 12.0)


def test_later_ones_count_more() -> None:
    """Half as much after eight."""
    pace = Pace(1000)
    for _ in range(400):
        pace.measured(10.0)
    for _ in range(8):
        pace.measured(20.0)
    assert pace.left_s == pytest.approx(592 * 15.0)


def test_at_the_end_nothing_is_left() -> None:
    pace = Pace(1)
    pace.measured(3.0)
    pace.measured(3.0)
    assert pace.left_s is None
