import json
import os
from pathlib import Path

import pytest

from benchmarks import epoch_times
from benchmarks.bias import complete
from benchmarks.journal import BARE_AFTER, BARE_BEFORE, KINDS, NWS_SWEEP, Figure, Journal, Outcome, Run
from tests.conftest import ROOT, run_python


def test_the_steady_pace_is_taken_over_all_counted_epochs() -> None:
    start_4_s = (4.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 16.0, 16.0)  # 2 s each; the last two from the queue
    assert epoch_times.steady_batch_s([start_4_s], 1) == 2.0
    assert epoch_times.steady_batch_s([(1.0, 2.0, 3.0, 4.0, 5.0), (3.0, 6.0, 9.0, 12.0, 15.0)], 0) == 2.0
    assert epoch_times.steady_batch_s([(1.0, 2.0)], 2) is None
    first, *others = epochs = [(7.0,), (2.0,), (2.0,)]
    assert [epoch_times.enough(epochs[:n], least_s=4.0) for n in range(4)] == [False, False, False, True]
    assert epoch_times.enough([(8.0,)], least_s=4.0), "the first only if it is twice as long"
    assert (epoch_times.counting(epochs), epoch_times.counting([first])) == (others, [first])


def test_an_interrupted_journal_is_continued(tmp_path: Path) -> None:
    path, made_with = tmp_path / "new" / "all.jsonl", {"least_s": 4.0}
    journal = Journal(path, made_with, resume=True)
    outcome = Outcome(workload="w", method="m", repeat=1, pick=2, tied=(3,), tried=(0, 1), detail={"cost": None})
    run = Run(workload="w", workers=2, repeat=1, number=1, epoch_s=1.5)
    kinds = [(round_, kind) for round_ in (1, 2) for kind in KINDS][:-1]  # the second round was interrupted
    figures = [Figure(workload="w", workers=2, round=n, kind=kind, batch_s=1.0, epoch_s=100.0) for n, kind in kinds]
    journal.add(outcome, run, *figures)
    with path.open("a") as file:
        file.write('{"run": {"workload": "w", "detail": {}')  # interrupted in the middle of a line
    for _ in range(2):
        again = Journal(path, made_with, resume=True)
        assert (again.of(Outcome), again.of(Run), again.of(Figure)) == ([outcome], [run], figures)
    assert complete(again.of(Figure), [2]) == figures[:3]
    with pytest.raises(ValueError, match="made with other settings or on another machine: leave out --resume"):
        Journal(path, {**made_with, "least_s": 1.0}, resume=True)
    kept = path.read_text()
    assert Journal(path, made_with, resume=False).of(Figure) == []
    assert path.with_name("all.previous.jsonl").read_text() == kept


@pytest.mark.extended
@pytest.mark.slow
def test_a_quick_benchmark_writes_its_page(tmp_path: Path) -> None:
    page_path, path = tmp_path / "page.md", tmp_path / "bias.jsonl"
    files = ["--quick", "--output", str(page_path), "--journal", str(path)]
    environment = os.environ | {"NWS_SWEEP_LOCK_FILE": str(tmp_path / "lock")}
    quick = ["bias", "--only", "step_bound", "--rounds", "1", "--workers", "2"]
    done = run_python(ROOT, environment, "-m", "benchmarks", *quick, *files)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in page_path.read_text("utf-8").splitlines() if line.startswith("| step_bound | 2 |")]
    assert 0.5 < float(line.split("|")[4].split()[0]) < 2  # other tests run at the same time
    journal = Journal(path, json.loads(path.read_text().splitlines()[0]), resume=True)
    assert [figure.kind for figure in journal.of(Figure)] == [BARE_BEFORE, NWS_SWEEP, BARE_AFTER]
