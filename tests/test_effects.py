"""What each setting of a grid changes, from pairs of configurations."""

from __future__ import annotations

from typing import Any

import pytest

from nws_sweep.effects import Effect, effects
from nws_sweep.records import Estimate, SearchRecord
from tests.factories import failed_trial, measurement, search_result, summary_of_grid, trial


def one(seconds: float, precision: float | None = 0.01, **columns: Any) -> SearchRecord:
    """A configuration whose best takes so many seconds per batch, known so well."""
    batch_s = None
    if precision is not None:
        batch_s = Estimate(value=seconds, low=seconds / (1 + precision), high=seconds * (1 + precision), n=6)
    found = measurement(65 * seconds, batch_s=batch_s, samples_per_s=64 / seconds)
    return search_result(trial(0, 65 * seconds, measurement=found), columns=columns)


def of(*results: SearchRecord) -> dict[str, Effect]:
    return {f"{e.axis} {e.baseline} {e.value}": e for e in effects(summary_of_grid(*results))}


def test_a_setting_that_helps_is_told_with_its_interval() -> None:
    found = of(
        one(1.0, batch_size=64, pin_memory=False), one(0.8, batch_size=64, pin_memory=True),
        one(2.0, batch_size=128, pin_memory=False), one(1.6, batch_size=128, pin_memory=True),
    )  # fmt: skip
    pinned = found["pin_memory false true"]
    assert (pinned.pairs, pinned.text) == (2, "20 % less time (19 % less time to 21 % less time)")
    assert found["batch_size 64 128"].ratio.value == pytest.approx(2.0)  # per sample: the factory's batches have 64


@pytest.mark.parametrize(
    ("precision", "text"),
    [
        (0.05, "no measurable difference (5.7 % less time to 8.2 % more time)"),
        (None, "1.0 % more time, without an interval: too few bursts or pairs to tell"),
    ],
)
def test_a_setting_that_makes_no_difference_is_told_as_such(precision: float | None, text: str) -> None:
    results = [one(seconds, precision, prefetch_factor=n) for n, seconds in ((8, 1.01), (None, 1.0), (2, 1.01))]
    found = of(*results)  # with the plainest value
    assert list(found) == ["prefetch_factor null 2", "prefetch_factor null 8"]
    assert {effect.text for effect in found.values()} == {text}


@pytest.mark.parametrize(
    "results",
    [
        [one(1.0)],
        [one(1.0, batch_size=64, pin_memory=False), one(0.5, batch_size=128, pin_memory=True)],
        [one(1.0, pin_memory=False), search_result(failed_trial(0), columns={"pin_memory": True})],
        [one(1.0, dataset="a"), one(2.0, dataset="b")],
    ],
    ids=["a run", "more than one differs", "one that was not measured", "datasets"],
)
def test_only_pairs_that_differ_in_one_setting_have_effects(results: list[SearchRecord]) -> None:
    assert of(*results) == {}
