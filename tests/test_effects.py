"""What each setting of a grid changes, from pairs of configurations."""

from __future__ import annotations

from typing import Any

import pytest

from nws_sweep.effects import Effect, effects
from nws_sweep.records import SearchRecord
from tests.factories import COLUMNS, estimate, failed_trial, measurement, search_result, summary_of_grid, trial


def one(seconds: float, precision: float = 0.01, **columns: Any) -> SearchRecord:
    """A configuration whose best takes so many seconds per batch, known so well."""
    batch = estimate(seconds)
    narrow = type(batch)(value=seconds, low=seconds / (1 + precision), high=seconds * (1 + precision), n=6)
    found = measurement(65 * seconds, batch_s=narrow, samples_per_s=64 / seconds)
    return search_result(trial(0, 65 * seconds, measurement=found), columns={**COLUMNS, **columns})


def of(*results: SearchRecord) -> dict[str, Effect]:
    return {f"{e.axis} {e.baseline} {e.value}": e for e in effects(summary_of_grid(*results))}


def test_a_setting_that_helps_is_told_with_its_interval() -> None:
    found = of(
        one(1.0, batch_size=64, pin_memory=False), one(0.8, batch_size=64, pin_memory=True),
        one(2.0, batch_size=128, pin_memory=False), one(1.6, batch_size=128, pin_memory=True),
    )  # fmt: skip
    pinned = found["pin_memory false true"]
    assert pinned.pairs == 2
    assert pinned.ratio.value == pytest.approx(0.8)
    assert pinned.ratio.is_certain
    assert pinned.text.startswith("20 % less time (")
    assert found["batch_size 64 128"].ratio.value == pytest.approx(2.0)  # per sample: the factory's batches have 64


def test_a_setting_that_makes_no_difference_is_told_as_such() -> None:
    (effect,) = of(one(1.0, 0.05, pin_memory=True), one(1.01, 0.05, pin_memory=False)).values()
    assert not effect.ratio.is_certain
    assert effect.text.startswith("no measurable difference (")
    assert "less time to " in effect.text
    assert effect.text.endswith("more time)")


def test_without_intervals_nothing_is_claimed() -> None:
    first, second = one(1.0, pin_memory=False), search_result(trial(0, 100.0), columns={**COLUMNS, "pin_memory": True})
    whole = measurement(100.0, batch_s=None, samples_per_s=None)
    second = search_result(trial(0, 100.0, measurement=whole), columns={**COLUMNS, "pin_memory": True})
    (effect,) = of(first, second).values()
    assert effect.text.endswith("without an interval: too few bursts or pairs to tell")


def test_only_pairs_that_differ_in_nothing_else_count() -> None:
    found = of(one(1.0, batch_size=64, pin_memory=False), one(0.5, batch_size=128, pin_memory=True))
    assert found == {}


def test_what_could_not_be_measured_is_in_no_pair() -> None:
    failed = search_result(failed_trial(0), columns={**COLUMNS, "pin_memory": True})
    assert of(one(1.0, pin_memory=False), failed) == {}


def test_values_are_compared_with_the_plainest_one() -> None:
    found = of(
        one(1.0, prefetch_factor=8), one(1.0, prefetch_factor=None), one(1.0, prefetch_factor=2),
    )  # fmt: skip
    assert list(found) == ["prefetch_factor null 2", "prefetch_factor null 8"]


def test_a_run_and_different_datasets_have_no_effects() -> None:
    assert of(one(1.0)) == {}
    assert of(one(1.0, dataset="a"), one(2.0, dataset="b")) == {}
