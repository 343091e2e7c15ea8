"""The benchmark's own sums, with figures made up; and once, slowly, the whole of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.catalogue import WORKLOADS
from benchmarks.comparison import Ratios, Row, rows_of, verdicts, workload_medians
from benchmarks.figures import BARE_AFTER, BARE_BEFORE, KINDS, OURS, Figure, Journal
from benchmarks.ours import half_width
from benchmarks.pace import Epoch, counting, ends_s, enough, mean_epoch_s, steady_batch_s, steady_span
from benchmarks.page import Origin, page, table
from nws_sweep.records import Estimate
from tests.conftest import ROOT
from tests.factories import HOST


@pytest.mark.parametrize(
    ("batches", "workers", "queue", "span"),
    [
        (100, 0, 0, (1, 100)),  # the first batch carries the start
        (100, 1, 2, (2, 98)),
        (100, 4, 8, (8, 92)),
        (101, 4, 8, (8, 92)),  # 93 is not a multiple of 4 away from 8
        (100, 3, 7, (9, 93)),  # 7 is not a multiple of 3
        (100, 4, 4, (4, 96)),
        (20, 4, 8, (8, 12)),
        (19, 4, 8, None),
        (3, 4, 8, None),
        (1, 0, 0, None),
    ],
)
def test_the_steady_span_leaves_out_what_the_queue_gave_and_takes(
    batches: int, workers: int, queue: int, span: tuple[int, int] | None
) -> None:
    assert steady_span(batches, workers, queue) == span


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_each_workload_has_sixty_steady_batches_with_eight_workers(workload: Any) -> None:
    span = steady_span(workload.batches, 8, 16)
    assert span is not None
    assert span[1] - span[0] >= 60


def test_the_pace_is_that_between_start_and_end() -> None:
    # start 4 s, then 8 batches in 2 s each, then 2 out of the queue at once
    times = [4.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 16.0, 16.0]
    assert steady_span(10, 1, 2) == (2, 8)
    assert steady_batch_s([Epoch(tuple(times))], workers=1, queue=2) == 2.0


def test_the_ends_are_what_lies_outside_the_steady_span() -> None:
    epoch = Epoch((4.0, 4.5, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 17.0, 19.0))
    assert ends_s(epoch, workers=1, queue=2) == (4.5, 3.0)
    assert ends_s(epoch, workers=4, queue=8) is None


def test_epochs_are_taken_together() -> None:
    fast = Epoch(tuple(1.0 * k for k in range(1, 6)))
    slow = Epoch(tuple(3.0 * k for k in range(1, 6)))
    assert steady_batch_s([fast, slow], workers=0, queue=0) == 2.0
    assert mean_epoch_s([fast, slow]) == 10.0


@pytest.mark.parametrize(
    ("lengths_s", "is_enough"),
    [((), False), ((7.0,), False), ((8.0,), True), ((7.0, 2.0, 1.0), False), ((7.0, 2.0, 2.0), True)],
)
def test_epochs_are_repeated_until_those_after_the_first_have_lasted(
    lengths_s: tuple[float, ...], is_enough: bool
) -> None:
    assert enough([Epoch((length_s,)) for length_s in lengths_s], least_s=4.0) is is_enough


def test_the_first_epoch_counts_only_if_it_is_alone() -> None:
    first, second = Epoch((2.0,)), Epoch((1.0,))
    assert counting([first]) == [first]
    assert counting([first, second]) == [second]


def test_epochs_without_a_steady_span_have_no_pace() -> None:
    assert steady_batch_s([Epoch((1.0, 2.0))], workers=2, queue=4) is None


def figure(kind: str, batch_s: float | None, **changes: Any) -> Figure:
    defaults: dict[str, Any] = {"workload": "w", "workers": 2, "round": 1, "epoch_s": batch_s and 100 * batch_s}
    return Figure(**{**defaults, "kind": kind, "batch_s": batch_s, **changes})


def a_round(before: float, ours: float | None, after: float, **changes: Any) -> list[Figure]:
    return [figure(kind, value, **changes) for kind, value in zip(KINDS, (before, ours, after), strict=True)]


def test_a_ratio_is_ours_to_the_mean_of_the_bares_of_its_round() -> None:
    figures = [*a_round(1.0, 3.0, 2.0), *a_round(1.0, 1.0, 1.0, round=2), *a_round(4.0, 2.0, 4.0, round=3)]
    (row,) = rows_of(figures)
    assert row.batch_s == row.epoch_s == Ratios(1.0, 0.5, 2.0)
    assert row.drift == Ratios(1.0, 1.0, 2.0)
    assert row.bare_batch_s == 1.5


def test_what_has_no_value_has_no_ratio_and_says_why() -> None:
    failed = figure(OURS, None, detail={"state": "failed", "reason": "it broke"})
    (row,) = rows_of([figure(BARE_BEFORE, 1.0), failed, figure(BARE_AFTER, 1.0)])
    assert row.batch_s is None
    assert row.epoch_s is None
    assert row.faults == ("failed: it broke",)


def test_rows_are_sorted_by_workers_inside_a_workload() -> None:
    figures = [f for name in ("b", "a") for n in (4, 0) for f in a_round(1.0, 1.0, 1.0, workload=name, workers=n)]
    assert [(row.workload, row.workers) for row in rows_of(figures)] == [("b", 0), ("b", 4), ("a", 0), ("a", 4)]


def row(workers: int, batch: float | None, epoch: float | None = 1.0, workload: str = "w") -> Row:
    def ratios(value: float | None) -> Ratios | None:
        return None if value is None else Ratios(value, value - 0.25, value + 0.25)

    return Row(
        workload=workload, workers=workers, bare_batch_s=0.0125, batch_s=ratios(batch), epoch_s=ratios(epoch),
        half_width=0.03, drift=ratios(1.0),
    )  # fmt: skip


def test_targets_are_met_at_their_limits() -> None:
    assert [verdict.rpartition(": ")[2] for verdict in verdicts([row(0, 0.95), row(2, 1.02), row(4, 1.05)])] == 4 * [
        "met"
    ]


def test_what_misses_a_target_is_named() -> None:
    rows = [row(0, 1.0), row(2, 1.0625), row(0, 1.03, 0.97, "v"), row(2, None, 0.5, "u")]
    assert workload_medians(rows, "batch_s") == {"w": 1.03125, "v": 1.03, "u": None}
    assert [verdict.partition(": missed by ")[2] for verdict in verdicts(rows)] == [
        "w (1.031), v (1.030), u (no value)",
        "w with 2 workers (1.062), u with 2 workers (no value)",
        "v (0.970), u (0.500)",
        "u with 2 workers (0.500)",
    ]


def test_nothing_measured_meets_no_target() -> None:
    assert not any(verdict.endswith("met") for verdict in verdicts([]))


def test_the_table_shows_median_and_range() -> None:
    lines = table([row(0, 1.0), row(2, None)]).splitlines()
    assert (
        lines[2]
        == "| w | 0 | 12.50 | 1.000 (0.750 to 1.250) | ± 3.0 % | 1.000 (0.750 to 1.250) | 1.000 (0.750 to 1.250) |"
    )
    assert lines[3].startswith("| w | 2 | 12.50 |  | ± 3.0 % |")
    assert lines[4] == "| **w** | median | | **1.000** | | **1.000** | |"


def test_the_page_says_where_the_figures_come_from() -> None:
    origin = Origin(host=HOST, command="scripts/benchmark bias", date="2024-05-01", rounds=3, threads="1")
    text = page([row(0, 1.0)], WORKLOADS[:1], origin)
    assert "Example CPU, 8 usable of 16 cores, torch 2.4.0, Python 3.11.7" in text
    assert "Made on 2024-05-01 by `scripts/benchmark bias`, 3 rounds" in text
    assert text.count(": met") == 4
    assert max(len(line) for line in text.splitlines() if "|" not in line and "Made on" not in line) <= 120


def test_the_half_width_is_a_share_of_the_value() -> None:
    assert half_width(Estimate(value=4.0, low=3.0, high=5.0, n=5)) == 0.25
    assert half_width(Estimate(value=4.0, low=None, high=None, n=2)) is None


MADE_WITH = {"workers": [2], "least_s": 4.0}


def test_a_journal_goes_on_with_its_complete_rounds(tmp_path: Path) -> None:
    path = tmp_path / "new" / "bias.jsonl"
    first = Journal(path, MADE_WITH, resume=True)
    first.add([*a_round(1.0, 1.0, 1.0), *a_round(1.0, 1.0, 1.0, round=2)[:2]])
    with path.open("a") as file:
        file.write('{"workload": "w", "wor')  # interrupted in the middle of a line
    again = Journal(path, MADE_WITH, resume=True)
    assert again.figures == first.figures[:3]
    assert again.has("w", 1)
    assert not again.has("w", 2)
    assert Journal(path, MADE_WITH, resume=True).figures == again.figures


def test_a_journal_that_is_not_resumed_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "bias.jsonl"
    Journal(path, MADE_WITH, resume=False).add(a_round(1.0, 1.0, 1.0))
    kept = path.read_text()
    assert Journal(path, MADE_WITH, resume=False).figures == []
    assert (tmp_path / "bias.previous.jsonl").read_text() == kept


def test_figures_made_otherwise_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "bias.jsonl"
    Journal(path, MADE_WITH, resume=False)
    with pytest.raises(ValueError, match="made with other settings or on another machine: leave out --resume"):
        Journal(path, {**MADE_WITH, "least_s": 1.0}, resume=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rounds", "0"], "'0': allowed is a whole number from 1"),
        (["--workers", "1,x"], "'1,x': allowed are whole numbers from 0, as in 0,1,2"),
        (["--only", "none"], "invalid choice: 'none'"),
    ],
)
def test_a_wrong_command_line_is_refused_in_words(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bias", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.apart
@pytest.mark.slow
def test_the_quick_benchmark_writes_its_page(tmp_path: Path) -> None:
    output, journal = tmp_path / "bias.md", tmp_path / "bias.jsonl"
    options = ["--quick", "--only", "consumer", "--rounds", "1", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "bias", *options, "--output", output, "--journal", journal],
        cwd=ROOT, env={**os.environ, "NWS_SWEEP_LOCK_FILE": str(tmp_path / "lock")}, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in output.read_text("utf-8").splitlines() if line.startswith("| consumer | 2 |")]
    ratio = float(row.split("|")[4].split()[0])
    assert 0.5 < ratio < 2  # the tests that run beside this one disturb it
    assert len(journal.read_text().splitlines()) == 1 + len(KINDS)
