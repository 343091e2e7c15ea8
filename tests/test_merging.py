from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.blame import blamed
from nws_sweep.errors import DatasetError, RankLost, TrialError, TrialTimeout
from nws_sweep.merging import merged_burst, merged_length, merged_lines, merged_usage
from nws_sweep.quantities import summarise, violation
from nws_sweep.records import Burst, BurstKind, LoaderSettings, MeasureRules, Turn, Usage
from nws_sweep.trial import Conditions


def burst(wait_s: float, consume_s: float, meet_s: float, batches: int = 4, **changes: Any) -> Burst:
    return Burst(
        **{
            "kind": BurstKind.STEADY,
            "startup_s": None,
            "wait_s": (wait_s,) * batches,
            "consume_s": (consume_s,) * batches,
            "meet_s": (meet_s,) * batches,
            "samples": 8 * batches,
            "produced": 8 * batches,
            **changes,
        }
    )


QUICK, SLOW = burst(0.25, 0.25, 0.5), burst(0.5, 0.5, 0.0)


def test_a_step_is_as_long_as_from_meeting_to_meeting_and_samples_add_up() -> None:
    merged = merged_burst([QUICK, SLOW])
    assert merged.consume_s == (0.375,) * 4
    assert merged.wait_s == (0.625,) * 4
    assert merged.elapsed_s == QUICK.elapsed_s == SLOW.elapsed_s == 4.0
    assert (merged.samples, merged.produced, merged.batches) == (64, 64, 4)
    assert merged.ranks == (QUICK, SLOW)
    assert merged.meet_s == ()


def test_the_slowest_start_and_the_heaviest_batch_count() -> None:
    first = replace(QUICK, startup_s=0.25, end_s=0.5, batch_bytes=10, batch_tensors=2)
    merged = merged_burst([first, replace(SLOW, startup_s=2.0, end_s=0.25, batch_bytes=20)])
    assert (merged.startup_s, merged.end_s, merged.batch_bytes, merged.batch_tensors) == (2.0, 0.5, 20, 2)


def test_samples_that_one_rank_cannot_count_are_not_counted() -> None:
    assert merged_burst([QUICK, replace(SLOW, produced=None)]).produced is None


def test_what_is_used_is_used_together() -> None:
    one, other = Usage(cpu_s=1.0, memory_bytes=100, shm_bytes=1), Usage(cpu_s=2.0, memory_bytes=50, disk_bytes=7)
    assert merged_usage([one, other]) == Usage(cpu_s=3.0, memory_bytes=150, shm_bytes=1, disk_bytes=7)


def test_an_epoch_ends_with_the_first_rank_and_warnings_are_told_once() -> None:
    assert merged_length([10, 9, 10]) == 9
    assert merged_length([10, None]) is None
    assert merged_lines([("a", "b"), ("b", "c")]) == ("a", "b", "c")


def conditions(cores: float = 2.0) -> Conditions:
    settings = LoaderSettings(batch_size=8, num_workers=1)
    return Conditions(settings=settings, rules=MeasureRules(), batches_per_epoch=None, cores=cores, ranks=2)


def turns(cpu_s: float = 0.0) -> list[Turn]:
    start = merged_burst([replace(each, kind=BurstKind.WARM_UP, startup_s=1.0) for each in (QUICK, SLOW)])
    window = Turn(bursts=(merged_burst([QUICK, SLOW]),), after=Usage(cpu_s=cpu_s), elapsed_s=4.0)
    return [Turn(bursts=(start,)), window, replace(window, before=window.after), replace(window, before=window.after)]


def test_a_batch_is_a_step_and_rates_and_cpu_time_are_sums() -> None:
    found = summarise(turns(cpu_s=4.0), conditions())
    assert found.batch_s is not None
    assert found.batch_s.value == 1.0
    assert found.samples_per_s == 16.0
    assert found.cpu_s == pytest.approx(4.0 / 12)  # of the first window only, over three
    assert [rank.samples_per_s for rank in found.ranks] == [8.0, 8.0]
    assert [rank.own_s.value for rank in found.ranks] == [0.5, 1.0]
    assert [rank.own_s.n for rank in found.ranks] == [3, 3]
    assert [rank.meet_s for rank in found.ranks] == [0.5, 0.0]
    assert [(rank.wait_s, rank.consume_s, rank.startup_s) for rank in found.ranks] == [(0.25, 0.25, 1), (0.5, 0.5, 1)]


def test_the_roofline_is_that_of_all_ranks_on_all_cores() -> None:
    """Three windows of 4 s and four steps; the CPU time is that of the first."""
    assert violation(turns(cpu_s=12 * 1.9), conditions(cores=2.0)) == ""
    assert "2.50 s of CPU time" in violation(turns(cpu_s=12 * 2.5), conditions(cores=2.0))


def test_whole_epochs_lose_their_first_clump_in_every_rank() -> None:
    epoch = merged_burst([replace(each, kind=BurstKind.EPOCH, startup_s=0.25, end_s=0.0) for each in (QUICK, SLOW)])
    found = summarise([Turn(bursts=(epoch,))], replace(conditions(), rules=MeasureRules(mode="epoch")))
    assert found.samples_per_s == 16.0
    assert [rank.own_s.value for rank in found.ranks] == [0.5, 1.0]


def test_one_loader_alone_has_no_ranks() -> None:
    alone = [Turn(bursts=(replace(QUICK, meet_s=(), startup_s=0.25),))]
    assert summarise(alone, replace(conditions(), ranks=1)).ranks == ()


def test_whose_failure_it_was_is_told_not_whom_it_took_along() -> None:
    failures = {0: RankLost("lost"), 2: TrialError("ValueError: bad sample 40"), 3: RankLost("lost")}
    assert str(blamed(failures, 4)) == "rank 2: ValueError: bad sample 40"
    assert isinstance(blamed({1: DatasetError("none")}, 4), DatasetError)
    assert str(blamed({1: RankLost("lost"), 0: RankLost("lost")}, 4)) == "rank 0: lost"


def test_what_all_tell_alike_has_no_number() -> None:
    assert str(blamed({0: TrialError("the same"), 1: TrialError("the same")}, 2)) == "the same"
    assert str(blamed({0: TrialError("one"), 1: TrialError("other")}, 2)) == "rank 0: one"


def test_who_hangs_is_missing_while_all_are_late() -> None:
    late = {number: TrialTimeout("not done") for number in range(3)}
    assert str(blamed(late, 3, missing=(2,))) == "rank 2: not done"
    assert str(blamed(late, 3, missing=(0, 2))) == "ranks 0, 2: not done"
    assert str(blamed(late, 3)) == "not done"
    assert isinstance(blamed(late, 3, missing=(1,)), TrialTimeout)


def test_a_fault_of_our_own_stays_what_it_is() -> None:
    error = OSError("no room")
    assert blamed({1: error}, 2) is error
