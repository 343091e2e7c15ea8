"""What the benchmark of programs with known causes reads, and its results."""

import importlib
from pathlib import Path

import pytest

from benchmarks import loop, loop_cases, rivals
from nws_sweep.analysis import accounts
from nws_sweep.analysis.answers import Answer
from nws_sweep.records import Account, Part
from tests.factories import loader_settings

PREDICTION = """\
4.84 s
nws_sweep: the loader limits training: 80 % of the time is waiting for data   (Shards, shards.py:30)
  why    making samples takes 80 % of the time (3.87 s of 4.86 s)
  next   num_workers=7 saves 75 % (predicted)
  cost   watching took 0.1 % of the time
  where 4.86 s went, with num_workers=4:
  making samples   80 %  3.87 s
  training step    15 %  708 ms
  other loaders     5 %  243 ms  (Photos: 243 ms)
"""


def test_a_prediction_and_the_account_are_read() -> None:
    watched = loop.read(PREDICTION)
    assert watched.verdict == (
        "the loader limits training: 80 % of the time is waiting for data; "
        "num_workers=7 saves 75 % (predicted)"
    )
    assert watched.shares == {Part.MAKING: 0.8, Part.STEP: 0.15, Part.OTHERS: 0.05}
    assert watched.workers == 7
    assert watched.saved_s == pytest.approx(0.75 * 4.86)
    assert (
        loop.read(
            PREDICTION.replace("num_workers=7", "num_workers=4 in_order=False")
        ).workers
        is None
    )


def test_what_a_remedy_saves_is_read_as_it_is_written() -> None:
    account = Account(step_s=1.8, making_s=0.2, starting_s=2.0)
    limit = accounts.limit(account, Part.STARTING)
    (remedy,) = accounts.remedies(account, loader_settings(4))
    answer = Answer(answer=limit, remedies=(remedy,))
    lines = "\n  ".join([*answer.lines, *accounts.table(account, 4)])
    watched = loop.read(f"3.45 s\nnws_sweep: {lines}\n3.6 s\n")
    assert watched.verdict == f"{limit}; {remedy}"
    assert watched.workers is None
    assert watched.saved_s == pytest.approx(2.0)
    assert watched.shares == {
        part: round(account.share(part), 2)
        for part in (Part.STEP, Part.STARTING, Part.MAKING)
    }


def test_a_program_that_is_not_followed_has_no_shares() -> None:
    assert loop.read("1.0 s\n") == loop.Watched(
        verdict="nothing", shares={}, saved_s=None, workers=None
    )


def test_what_no_part_has_is_making() -> None:
    shares = loop.shares_of(
        {"epoch_s": 4.0, "training step": 1.0, "sampler": 0.5, "not seen": 0.5}
    )
    assert {part: share for part, share in shares.items() if share} == {
        Part.STEP: 0.25, Part.SAMPLER: 0.125, Part.UNSEEN: 0.125, Part.MAKING: 0.5,
    }  # fmt: skip


def test_the_results_have_a_row_for_each_finding() -> None:
    case = loop_cases.CASES[0]
    watched = loop.Watched(
        verdict="the sampler", shares={Part.SAMPLER: 0.5}, saved_s=None, workers=None
    )
    bare = {Part.SAMPLER: 0.48, Part.STEP: 0.1}
    traceml = rivals.Diagnosis(verdict="INPUT-BOUND", advice="more workers")
    finding = loop.Finding(
        case=case, watched=watched, bare=bare, by_hand_s=1.0, traceml=traceml
    )
    overhead = loop.Overhead(
        step="1 ms", first=(1.0, 1.02, 1.01), later=(1.0, 1.0, 1.0)
    )
    results = loop.results_of([finding], [overhead])
    assert "in 0 of 1 runs" in results.headline, "the step differs by 10 points"
    programs, overheads = results.tables
    about = (case.name, case.address, case.about, "the sampler", "sampler")
    figures = (
        "50 %",
        "48 %",
        "10",
        "0 %",
        "-",
        "1.00 s",
        "INPUT-BOUND",
        "more workers",
    )
    assert programs.rows == [(*about, *figures)]
    assert overheads.rows == [
        ("1 ms", "1.010 (1.000 to 1.020)", "1.000 (1.000 to 1.000)")
    ]


@pytest.mark.parametrize("case", loop_cases.CASES, ids=lambda case: case.name)
def test_every_case_has_a_program(case: loop_cases.Case) -> None:
    module = importlib.import_module(f"benchmarks.programs.{case.name}")
    assert callable(module.main)
    assert Path(str(module.__file__)).read_text("utf-8").startswith('"""')
