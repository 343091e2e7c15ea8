from __future__ import annotations

import pytest

from nws_sweep.bottleneck import Forecast, Profile, Seen


def profile(loading_s: float = 8.0, cpu_s: float = 2.0, consume_s: float = 0.0, cores: float = 2.0) -> Profile:
    return Profile(loading_s=loading_s, cpu_s=cpu_s, consume_s=consume_s, cores=cores)


def forecast(seen: dict[int, Seen], batches: int | None = None, **changes: float) -> Forecast:
    return Forecast(profile=profile(**changes), batches=batches, seen=seen)


def at(batch_s: float, startup_s: float = 0.0) -> Seen:
    return Seen(batch_s=batch_s, startup_s=startup_s)


def test_workers_share_the_loading_until_the_cpus_are_busy() -> None:
    assert [profile().batch_s(n) for n in (1, 2, 4, 8, 16)] == [8.0, 4.0, 2.0, 1.0, 1.0]


def test_without_workers_loading_and_consumer_add_up_and_with_them_the_longer_one_counts() -> None:
    busy = profile(consume_s=3.0)
    assert [busy.batch_s(n) for n in (0, 1, 2, 4)] == [11.0, 8.0, 4.0, 3.0]


def test_the_rule_of_the_sleeping_dataset() -> None:
    # 1 s a sample, 0.25 s of work: 1.25 without workers, then 1.00, 0.50, 0.33, 0.25
    sleeping = profile(loading_s=1.0, cpu_s=0.0, consume_s=0.25)
    assert [sleeping.batch_s(n) for n in (0, 1, 2, 3, 4, 5)] == pytest.approx([1.25, 1.0, 0.5, 1 / 3, 0.25, 0.25])


def test_nothing_can_beat_the_cpus_or_the_consumer() -> None:
    assert profile(cpu_s=6.0, cores=2.0, consume_s=1.0).floor_s == 3.0
    assert profile(cpu_s=6.0, cores=2.0, consume_s=4.0).floor_s == 4.0


def test_beyond_those_measured_the_departure_from_the_model_goes_on_to_grow_as_it_did() -> None:
    # 1.5 times the model at 2 workers, 2.25 times at 4: 1.5 times more with each doubling
    assert forecast({0: at(8.0), 2: at(6.0), 4: at(4.5)}).cost_s(8) == pytest.approx(1.0 * 1.5**3)
    assert forecast({0: at(8.0), 2: at(6.0)}).cost_s(4) == pytest.approx(2.0 * 1.5**2)


def test_a_departure_that_shrank_is_taken_to_stay() -> None:
    assert forecast({0: at(8.0), 2: at(6.0), 4: at(2.5)}).cost_s(8) == pytest.approx(1.0 * 1.25)


def test_a_flat_dataset_is_not_hoped_to_be_faster_with_more_workers() -> None:
    flat = forecast({0: at(8.0), 4: at(8.0)}, cpu_s=0.0)
    assert [flat.cost_s(n) for n in (8, 16, 64)] == pytest.approx([8.0, 8.0, 8.0])


def test_of_fewer_workers_than_any_measured_the_model_is_hoped_or_better() -> None:
    above = forecast({0: at(8.0), 4: at(3.0)}).cost_s(2)
    assert 4.0 <= above < 4.0 * 1.5**0.5  # nearer to the model than what 1 and 4 interpolate
    below = forecast({0: at(8.0), 4: at(1.0)}).cost_s(2)
    assert 2.0 < below < 4.0 * 0.5**0.5


def test_between_two_measured_candidates_it_is_hoped_to_be_nearer_to_the_better_one() -> None:
    found = forecast({0: at(8.0), 2: at(8.0), 8: at(1.5)})
    assert 2.0 * 1.5 < found.cost_s(4) < 2.0 * (2.0 * 1.5) ** 0.5


def test_an_epoch_is_its_start_and_the_batches_after_the_first() -> None:
    found = forecast({0: at(8.0, startup_s=8.0), 4: at(2.0, startup_s=9.0)}, batches=11)
    assert found.cost_s(4) == 9.0 + 10 * 2.0
    # 1 s of 9 went into starting 4 workers, the rest into the first batch
    assert found.cost_s(8) == 8.0 + 2.0 + 10 * 1.0


def test_before_any_worker_was_started_each_is_taken_to_cost_ten_milliseconds() -> None:
    found = forecast({0: at(8.0, startup_s=8.0)}, batches=11)
    assert found.cost_s(4) == pytest.approx(8.0 + 0.04 + 10 * 2.0)


def test_the_floor_of_an_epoch_is_that_of_its_batches() -> None:
    assert forecast({0: at(8.0)}, batches=10).floor_s == 10.0
    assert forecast({0: at(8.0)}).floor_s == 1.0
