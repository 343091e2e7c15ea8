from __future__ import annotations

import math
import random

import pytest

from nws_sweep.records import Estimate
from nws_sweep.scaling import Law, Point, law_of, point_of


def points(law: Law, workers: tuple[int, ...], error: float = 0.0, seed: int = 0) -> list[Point]:
    """What is measured of a known law, off by errors of the given size."""
    source = random.Random(seed)
    return [
        Point(num_workers=n, batch_s=law.batch_s(n) * (1 + source.gauss(0.0, error)), error=max(error, 0.01))
        for n in workers
    ]


def law(n_s: float = 1.0, m_s: float = 0.0, crowding_s: float = 0.0, floor_s: float = 0.0) -> Law:
    return Law(n_s=n_s, m_s=m_s, crowding_s=crowding_s, floor_s=floor_s)


@pytest.mark.parametrize(
    "truth", [law(), law(m_s=0.1), law(m_s=0.1, crowding_s=0.02), law(floor_s=0.3), law(crowding_s=0.05, floor_s=0.4)]
)
def test_a_known_law_is_found_again(truth: Law) -> None:
    found = law_of(points(truth, (1, 2, 3, 4, 8, 16)), truth.floor_s)
    assert found is not None
    assert [found.batch_s(n) for n in (1, 3, 6, 12)] == pytest.approx(
        [truth.batch_s(n) for n in (1, 3, 6, 12)], rel=0.02
    )


def test_no_term_is_negative_however_the_points_lie() -> None:
    source = random.Random(5)
    for _ in range(50):
        made = [Point(num_workers=n, batch_s=source.uniform(0.5, 1.5), error=0.05) for n in (1, 2, 4, 8)]
        found = law_of(made)
        assert found is not None
        assert min(found.n_s, found.m_s, found.crowding_s, *(term for draw in found.draws for term in draw)) >= 0


def test_few_points_have_few_terms() -> None:
    one = law_of(points(law(m_s=0.5), (2,)))
    assert one is not None
    assert (one.n_s, one.m_s, one.crowding_s) == pytest.approx((2.0, 0.0, 0.0))
    two = law_of(points(law(m_s=0.5), (1, 4)))
    assert two is not None
    assert (two.n_s, two.m_s, two.crowding_s) == pytest.approx((1.0, 0.5, 0.0))


def test_the_rule_of_the_sleeping_dataset() -> None:
    """1 s a sample, 0.25 s of work a batch: four workers suffice, and three do not."""
    found = law_of(points(law(floor_s=0.25), (1, 2, 3, 4)), 0.25)
    assert found is not None
    assert found.enough == pytest.approx(4.0, rel=0.01)
    assert [found.batch_s(n) for n in (1, 2, 3, 4, 5)] == pytest.approx([1.0, 0.5, 1 / 3, 0.25, 0.25], rel=0.01)


def test_a_floor_that_cannot_be_reached_needs_no_number_of_workers() -> None:
    assert law(m_s=0.3, floor_s=0.25).enough is None
    assert law().enough is None


def test_what_workers_add_to_each_other_takes_more_of_them_to_the_floor_or_keeps_them_from_it() -> None:
    crowded = law(crowding_s=0.01, floor_s=0.3)
    assert crowded.enough is not None
    assert crowded.enough > law(floor_s=0.3).enough  # type: ignore[operator]
    without_floor = law(crowding_s=0.01)
    assert without_floor.batch_s(crowded.enough) == pytest.approx(0.3)
    assert law(crowding_s=0.05, floor_s=0.3).enough is None


def test_nobody_gains_more_than_his_share_of_workers() -> None:
    """However wide the interval of a single point is, twice the workers are at most twice as fast."""
    found = law_of([Point(num_workers=4, batch_s=1.0, error=0.3)])
    assert found is not None
    assert found.points == 1
    assert found.most_gain(4, 8) == pytest.approx(1.0)
    floored = law_of([Point(num_workers=4, batch_s=1.0, error=0.01)], 0.8)
    assert floored is not None
    assert 0.25 < floored.most_gain(4, 8) < 0.3  # 1.0 / 0.8, and the error of the point
    assert law(floor_s=0.5).most_gain(2, 4) == 0.0


def test_what_only_shows_the_floor_shows_no_law() -> None:
    assert law_of(points(law(floor_s=0.6), (2, 4, 8)), 0.6) is None
    assert law_of([]) is None


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    truth = law(m_s=0.1, crowding_s=0.01)
    covered = 0
    for seed in range(200):
        found = law_of(points(truth, (1, 2, 4, 8, 16), error=0.05, seed=seed))
        assert found is not None
        low, high = found.interval_s(6)
        covered += low <= truth.batch_s(6) <= high
    assert covered >= 180


def test_points_that_do_not_lie_on_the_curve_widen_its_interval() -> None:
    straight = law_of(points(law(m_s=0.1), (1, 2, 3, 4, 6, 8)))
    crooked = [
        Point(num_workers=p.num_workers, batch_s=p.batch_s * factor, error=p.error)
        for p, factor in zip(points(law(m_s=0.1), (1, 2, 3, 4, 6, 8)), (1.3, 0.8, 1.2, 0.8, 1.2, 0.8), strict=True)
    ]
    bent = law_of(crooked)
    assert straight is not None
    assert bent is not None
    widths = [math.log(high / low) for low, high in (straight.interval_s(5), bent.interval_s(5))]
    assert widths[1] > 5 * widths[0]


def test_the_same_points_have_the_same_curve() -> None:
    made = points(law(m_s=0.1), (1, 2, 4), error=0.05)
    assert law_of(made) == law_of(list(reversed(made)))


def test_a_law_without_draws_has_no_width() -> None:
    assert law().interval_s(2) == (0.5, 0.5)


def test_the_error_of_a_point_is_its_intervals() -> None:
    exact = point_of(2, Estimate(value=1.0, low=1 / 1.5, high=1.5, n=5))
    assert exact.error == pytest.approx(0.4055 / 2.7764, rel=0.01)
    assert point_of(2, Estimate(value=1.0, low=1.0, high=1.0, n=5)).error == 0.01
    assert point_of(2, Estimate(value=1.0, low=None, high=None, n=1)).error == 0.05
