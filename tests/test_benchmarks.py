import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import accelerator, demo, epoch_times, predictions, predictions_page
from benchmarks.__main__ import main
from benchmarks.bias import complete
from benchmarks.bias_page import Ratios, rows_of
from benchmarks.catalogue import WORKLOADS
from benchmarks.journal import BARE_AFTER, BARE_BEFORE, KINDS, NWS_SWEEP, Figure, Forecast, Journal, Outcome, Run
from nws_sweep.results import BatchCost, BatchRecord
from tests import factories
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("batches", "workers", "span"),
    [
        (100, 0, (1, 100)),  # the first batch includes the start-up
        (100, 4, (8, 92)),
        (19, 4, None),
        *((workload.batches, 8, (16, workload.batches // 8 * 8 - 16)) for workload in WORKLOADS),
    ],
)
def test_the_steady_span_has_no_filling_or_emptying(batches: int, workers: int, span: tuple[int, int] | None) -> None:
    assert epoch_times.steady_span(batches, workers) == span


def test_the_steady_pace_is_taken_over_all_counted_epochs() -> None:
    start_4_s = (4.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 16.0, 16.0)  # 2 s each; the last two from the queue
    assert epoch_times.steady_batch_s([start_4_s], 1) == 2.0
    assert epoch_times.steady_batch_s([(1.0, 2.0, 3.0, 4.0, 5.0), (3.0, 6.0, 9.0, 12.0, 15.0)], 0) == 2.0
    assert epoch_times.steady_batch_s([(1.0, 2.0)], 2) is None
    first, *others = epochs = [(7.0,), (2.0,), (2.0,)]
    assert [epoch_times.enough(epochs[:n], least_s=4.0) for n in range(4)] == [False, False, False, True]
    assert epoch_times.enough([(8.0,)], least_s=4.0), "the first only if it is twice as long"
    assert (epoch_times.counting(epochs), epoch_times.counting([first])) == (others, [first])


def a_round(before: float, own: float | None, after: float, **changes: Any) -> list[Figure]:
    defaults: dict[str, Any] = {"workload": "w", "workers": 2, "round": 1, **changes}
    sides = zip(KINDS, (before, own, after), strict=True)
    return [Figure(kind=kind, batch_s=value, epoch_s=value and 100 * value, **defaults) for kind, value in sides]


def test_a_ratio_is_to_the_mean_of_the_bare_loops_of_its_round() -> None:
    figures = [*a_round(1.0, 3.0, 2.0), *a_round(1.0, 1.0, 1.0, round=2), *a_round(4.0, 2.0, 4.0, round=3)]
    (row,) = rows_of(figures)
    assert row.batch_s == row.epoch_s == Ratios(1.0, 0.5, 2.0)
    assert row.drift == Ratios(1.0, 1.0, 2.0)
    assert row.bare_batch_s == 1.5
    (row,) = rows_of(a_round(1.0, None, 1.0, detail={"state": "failed", "reason": "it broke"}))
    assert (row.batch_s, row.epoch_s, row.faults) == (None, None, ("failed: it broke",))


def forecast(predicted_s: float, **changes: Any) -> Forecast:
    defaults: dict[str, Any] = {
        "workload": "w", "repeat": 1, "workers": 2, "prefetch_factor": 2, "in_order": True, "predicted_s": predicted_s,
        "interval_s": (predicted_s - 0.25, predicted_s + 0.25), "measured_s": 2.0, "recorded_s": 1.5,
    }  # fmt: skip
    return Forecast(**{**defaults, **changes})


def test_predictions_are_judged_by_their_ratio_to_measured_epochs() -> None:
    right = [forecast(2.0), forecast(2.0625), forecast(1.8, workload="v", workers=0)]
    lines = [line.partition(": ")[2] for line in predictions_page.verdicts(right, 0.1)]
    assert lines == 3 * ["met"]
    wrong = [*right, forecast(3.0, workload="v"), forecast(1.0)]
    lines = [line.partition(": ")[2] for line in predictions_page.verdicts(wrong, 0.2)]
    assert lines == ["missed by all (10.0 %)", "missed by all (50.0 %)", "missed by all (0.200 s)"]
    text = predictions_page.page(wrong, WORKLOADS[:1], "origin", 0.2)
    assert "| v | 2 | 1.5 | 1.200 | 0.960 | 1.440 | 30.0 % | 46.0 % | 50.0 % |" in text
    assert "- v num_workers=2 prefetch_factor=2 in_order=True: predicted 3 s (2.75 to 3.25), measured 2 s," in text


def test_recorded_trials_last_two_seconds_and_settings_are_drawn_evenly() -> None:
    trials = [
        replace(factories.trial(workers, 1.0), windows=(factories.window(wait_s=(length_s,), step_s=(0.0,)),))
        for workers, length_s in ((0, 0.75), (2, 1.25), (8, 2.5))
    ]
    assert predictions.recorded(trials) == ([trials[1], trials[0]], 2.0)
    made = [BatchRecord(number=n, position=0.0, began_s=n, ended_s=n + 1, cost=BatchCost(0.5, 0.5)) for n in (5, 6, 7)]
    slow = replace(trials[2], records=tuple(made))
    assert predictions.recorded([slow]) == ([replace(slow, records=tuple(made[:2]))], 2.0)
    drawn = predictions.drawn(100, lambda settings: settings.num_workers < 4, random.Random(0))
    assert sorted(one.num_workers for one in drawn) == [0, *8 * [1], *8 * [2]]
    assert ({one.num_workers for one in drawn[:3]}, len(set(drawn))) == ({0, 1, 2}, 17)


def test_an_interrupted_journal_is_continued(tmp_path: Path) -> None:
    path, made_with = tmp_path / "new" / "all.jsonl", {"least_s": 4.0}
    journal = Journal(path, made_with, resume=True)
    outcome = Outcome(workload="w", method="m", repeat=1, pick=2, tied=(3,), tried=(0, 1), detail={"cost": None})
    run = Run(workload="w", workers=2, repeat=1, number=1, epoch_s=1.5)
    figures = [*a_round(1.0, 1.0, 1.0), *a_round(1.0, 1.0, 1.0, round=2)[:2]]
    journal.add(outcome, run, *figures, forecast(1.0))
    with path.open("a") as file:
        file.write('{"run": {"workload": "w", "detail": {}')  # interrupted in the middle of a line
    for _ in range(2):
        again = Journal(path, made_with, resume=True)
        assert (again.of(Outcome), again.of(Run), again.of(Figure)) == ([outcome], [run], figures)
        assert again.of(Forecast) == [forecast(1.0)]
    assert complete(again.of(Figure), [2]) == figures[:3]
    with pytest.raises(ValueError, match="made with other settings or on another machine: leave out --resume"):
        Journal(path, {**made_with, "least_s": 1.0}, resume=True)
    kept = path.read_text()
    assert Journal(path, made_with, resume=False).of(Figure) == []
    assert path.with_name("all.previous.jsonl").read_text() == kept


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("bias --rounds 0", "'0': must be an integer of at least 1"),
        ("bias --workers 1,x", "'1,x': must be integers of at least 0, as in 0,1,2"),
        ("accelerator", "there is no CUDA device"),
    ],
)
def test_a_wrong_command_line_is_refused(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    assert message in capsys.readouterr().err


def test_figures_of_an_accelerator_have_their_median_and_range() -> None:
    common: dict[str, Any] = {"name": "a", "measured": 1.0, "search_s": 10.0, "tuned": 1.0, "pinned": 0.5}
    found = [
        accelerator.Finding(picked="0", price=1.0, said=0.5, waits=0.25, **common),
        accelerator.Finding(picked="2 x 4", price=1.5, said=0.5, waits=0.75, **common),
    ]
    *_, line = accelerator.page(found, "").splitlines()
    assert line.startswith("| a | 0, 2 x 4 | 1.25 (1.00 to 1.50) | 1.00 (1.00 to 1.00) | 10.0 s | 50 %, 50 % | 1.00")
    *_, line = accelerator.page([replace(found[0], said=None, waits=None)], "").splitlines()
    assert line == "| a | 0 | 1.00 | 1.00 | 10.0 s | - | 1.00 | 0.50 | 1 |"


def measured(tmp_path: Path, arguments: str) -> tuple[str, Journal]:
    """The page and the journal of a quick benchmark in a process of its own."""
    page_path, path = tmp_path / "page.md", tmp_path / f"{arguments.partition(' ')[0]}.jsonl"
    files = ["--quick", "--output", str(page_path), "--journal", str(path)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments.split(), *files],
        cwd=ROOT, env={**os.environ, "NWS_SWEEP_LOCK_FILE": str(tmp_path / "lock")},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return page_path.read_text("utf-8"), Journal(path, json.loads(path.read_text().splitlines()[0]), resume=True)


@pytest.mark.extended
@pytest.mark.slow
def test_quick_benchmarks_write_their_pages(tmp_path: Path) -> None:
    text, journal = measured(tmp_path, "bias --only step_bound --rounds 1 --workers 2")
    (line,) = [line for line in text.splitlines() if line.startswith("| step_bound | 2 |")]
    assert 0.5 < float(line.split("|")[4].split()[0]) < 2  # other tests run at the same time
    assert [figure.kind for figure in journal.of(Figure)] == [BARE_BEFORE, NWS_SWEEP, BARE_AFTER]
    text, journal = measured(tmp_path, "predictions --only short --settings 2")
    assert [one.measured_s > 0.1 for one in journal.of(Forecast)] == [True, True]
    assert "| short | 2 |" in text
    text, journal = measured(tmp_path, "search --only short --methods zero seed --candidates 0,2 --passes 1")
    seed = next(outcome for outcome in journal.of(Outcome) if outcome.method == "seed")
    assert seed.tried[:2] == (0, 1)
    assert seed.cost_s > sum(elapsed_s for _, _, elapsed_s in seed.detail["probes"]) > 0.4
    assert not seed.left_behind
    assert {0, 2} <= {run.workers for run in journal.of(Run) if run.epoch_s}
    assert "| short | seed |" in text


@pytest.mark.parametrize(("best", "verdict"), [(0, "worse than none"), (2, "too many"), (4, "right"), (16, "too few")])
def test_the_rule_of_thumb_is_judged_by_the_best_number(best: int, verdict: str) -> None:
    assert demo.verdict(best, 4) == verdict
