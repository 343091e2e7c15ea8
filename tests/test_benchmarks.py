from pathlib import Path

import pytest

from benchmarks import epoch_times
from benchmarks.journal import Journal, Outcome, Row, Run


def test_the_steady_pace_is_taken_over_all_epochs() -> None:
    # 2 s each; the last two from the queue
    start_4_s = (4.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 16.0, 16.0)
    assert epoch_times.steady_batch_s([start_4_s], 10, 1) == 2.0
    assert (
        epoch_times.steady_batch_s(
            [(1.0, 2.0, 3.0, 4.0, 5.0), (3.0, 6.0, 9.0, 12.0, 15.0)], 5, 0
        )
        == 2.0
    )
    assert epoch_times.steady_batch_s([(1.0, 2.0)], 2, 2) is None
    # stopped: no queue runs out of batches
    assert epoch_times.steady_batch_s([(4.0, 4.0, 6.0, 8.0)], 10, 1) == 2.0


def test_costs_that_repeat_are_timed_over_whole_periods() -> None:
    # every fourth batch takes 5 s, the others 1 s
    timestamps = [float(8 * (n // 4) + n % 4) for n in range(1, 24)]
    assert epoch_times.steady_batch_s([timestamps], 100, 0, period=1) != 2.0
    stops = [
        n
        for n in range(1, 24)
        if epoch_times.may_stop(timestamps[:n], 0, 0.0, period=4)
    ]
    assert stops == [9, 13, 17, 21]
    assert {
        epoch_times.steady_batch_s([timestamps[:n]], 100, 0, period=4) for n in stops
    } == {2.0}
    assert epoch_times.steady_span(23, 0, period=4) == (1, 21)
    assert epoch_times.steady_span(23, 2, period=100) == (4, 18), (
        "at least a multiple of the workers"
    )
    assert not epoch_times.may_stop(timestamps, 0, 0.0, period=100)


def test_an_interrupted_journal_is_continued(tmp_path: Path) -> None:
    path, made_with = tmp_path / "new" / "all.jsonl", {"least_s": 4.0}
    journal = Journal(path, made_with, resume=True)
    rows = (Row(workers=2, batch_s=0.1, low_s=0.09, high_s=0.11, batches=7),)
    outcome = Outcome(
        workload="w",
        method="m",
        repeat=1,
        pick=2,
        tied=(3,),
        rows=rows,
        detail={"cost": None},
    )
    run = Run(workload="w", workers=2, repeat=1, number=1, epoch_s=1.5)
    journal.add(outcome, run)
    with path.open("a") as file:
        # interrupted in the middle of a line
        file.write('{"run": {"workload": "w", "detail": {}')
    for _ in range(2):
        again = Journal(path, made_with, resume=True)
        assert (again.of(Outcome), again.of(Run)) == ([outcome], [run])
    with pytest.raises(
        ValueError,
        match="made with other settings or on another machine: leave out --resume",
    ):
        Journal(path, {**made_with, "least_s": 1.0}, resume=True)
    kept = path.read_text()
    assert Journal(path, made_with, resume=False).of(Run) == []
    assert path.with_name("all.previous.jsonl").read_text() == kept
