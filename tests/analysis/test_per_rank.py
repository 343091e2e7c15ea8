from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from nws_sweep.analysis import per_rank
from nws_sweep.report import page, snippets, writer
from nws_sweep.results import (
    Estimate,
    LoaderSettings,
    RankMeasurement,
    SearchRecord,
    Trial,
    codec,
    storage,
    timing_table,
)
from tests import factories


def rank(number: int, own_s: float, barrier_s: float = 0.0, width: float = 0.01) -> RankMeasurement:
    return RankMeasurement(
        rank=number,
        startup_s=0.5,
        own_s=Estimate(value=own_s, low=own_s * (1 - width), high=own_s * (1 + width), n=5),
        wait_s=own_s / 2,
        step_s=own_s / 2,
        barrier_s=barrier_s,
        samples_per_s=64.0,
    )


RANKS = (rank(0, 0.03, 0.03), rank(1, 0.06), rank(2, 0.031, 0.029))


def trial(ranks: tuple[RankMeasurement, ...] = RANKS, num_workers: int = 0, epoch_s: float = 128.0) -> Trial:
    found = factories.measurement(epoch_s, ranks=ranks, samples_per_s=192.0)
    return factories.trial(num_workers, epoch_s, measurement=found)


# Batches in store: two ranks wait for the third, which says nothing of how fast they are.
AHEAD = (rank(0, 0.01, 0.02), rank(1, 0.03), rank(2, 0.01, 0.02))
ALIKE = (rank(0, 0.03, 0.01), rank(1, 0.03, 0.01), rank(2, 0.03, 0.01))


def result() -> SearchRecord:
    record = factories.search_result(trial(), trial(AHEAD, 1, 64.0), columns={"ranks": 3})
    return replace(record, configuration=replace(record.configuration, ranks=3))


@pytest.mark.parametrize(
    "ranks",
    [
        (RANKS[0], rank(1, 0.06, width=0.6)),
        (rank(0, 0.0300, width=1e-6), rank(1, 0.0303, width=1e-6)),  # less than 2 % slower
        (RANKS[0], replace(RANKS[1], own_s=Estimate(value=9.0, low=None, high=None, n=2))),
        (replace(RANKS[0], own_s=Estimate(value=0.01, low=None, high=None, n=2)), RANKS[1]),
    ],
)
def test_the_slowest_has_an_interval_above_all_others(ranks: tuple[RankMeasurement, ...]) -> None:
    assert per_rank.slowest(ranks) is None
    assert per_rank.slowest(RANKS) == RANKS[1]


SLOWEST = "rank 1 is the slowest, 97 % slower than the others: "
BARRIER = "the others wait at the barrier"
WAITS = "a rank waits at the barrier"


@pytest.mark.parametrize(
    ("found", "alone", "said"),
    [
        (trial(), None, f"{SLOWEST}its step takes 60.0 ms instead of 30.5 ms, and {BARRIER} 49 % of the time"),
        # the slowest rank is identified without workers
        (
            trial(AHEAD, 1), trial(),
            f"{SLOWEST}without workers its step takes 60.0 ms instead of 30.5 ms, and {BARRIER} "
            "67 % of the time",
        ),
        # batches in the queue do not make a rank slow
        (
            trial(AHEAD, 1), trial(ALIKE),
            f"no rank is slower than the others beyond noise; {WAITS} 44 % of the time on average",
        ),
        (trial(AHEAD, 1), None, f"{WAITS} 44 % of the time on average"),
    ],
)  # fmt: skip
def test_the_slowest_rank_is_named(found: Trial, alone: Trial | None, said: str) -> None:
    workers = "1 worker" if found.num_workers else "no workers"
    sentence = f"3 ranks with {workers} each, 192 samples/s in total (64.0 per rank): {said}"
    assert per_rank.sentence(found, alone) == sentence
    assert per_rank.sentence(factories.trial(1, 64.0)) == ""  # a single loader


def test_measurements_of_ranks_are_stored_with_a_row_each(tmp_path: Path) -> None:
    folder = factories.store_run(tmp_path, result())
    stored = storage.find(folder).runs[0].result
    assert stored.configuration.ranks == 3
    assert [trial.measurement.ranks for trial in stored.trials if trial.measurement] == [RANKS, AHEAD]
    with (folder / storage.RANKS).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["num_workers"], row["rank"], row["own_s"]) for row in rows] == [
        ("0", "0", "0.03"), ("0", "1", "0.06"), ("0", "2", "0.031"),
        ("1", "0", "0.01"), ("1", "1", "0.03"), ("1", "2", "0.01"),
    ]  # fmt: skip
    assert tuple(rows[0]) == (*stored.configuration.columns, *timing_table.RANK_COLUMNS)
    alone = factories.search_result(factories.trial(1, 64.0))  # is stored as before
    assert "ranks" not in codec.to_text(alone)
    assert not (factories.store_run(tmp_path, alone, "alone") / storage.RANKS).exists()


def test_the_reports_have_ranks_and_workers_per_rank() -> None:
    summary = factories.summary_of_run(result())
    text, drawn = writer.markdown(summary, []), page.report(page.page(summary), [])
    expected = ("num_workers per rank", "rank 1 is the slowest", "The ranks with num_workers=1 each")
    assert [line for line in expected if line not in text] == []
    assert [line for line in ("num_workers=1 (each of 3 ranks)", "Each rank, by step") if line not in drawn] == []
    rendered = snippets.render(summary, "kwargs")
    assert rendered.comments == ("for each of 3 ranks",)
    assert rendered.text.startswith("batch_size=64, num_workers=1")


def test_ranks_share_the_samples_of_an_epoch_and_change_the_fingerprint() -> None:
    settings, facts = LoaderSettings(batch_size=10), replace(factories.FACTS, samples=82)
    alone = factories.configuration()
    four = replace(alone, ranks=4)
    assert facts.batches_of(settings, 1) == 9
    assert facts.batches_of(settings, 4) == 3  # of 21 samples
    assert facts.batches_of(replace(settings, drop_last=True), 4) == 2  # of 20
    assert replace(facts, iterable=True).batches_of(settings, 4) == 9
    assert replace(facts, samples=None).batches_of(settings, 4) is None
    assert len({alone.fingerprint, four.fingerprint, replace(alone, ranks=3).fingerprint}) == 3
