"""What stages cost, from batches whose calls were timed with known times."""

from dataclasses import replace

import pytest

from nws_sweep.model.model import model_of
from nws_sweep.model.queue import QueueSettings
from nws_sweep.model.stages import COPY, nested, stage_costs
from nws_sweep.records import BatchCost, LoopCosts, StageKind, StageTime, Trial
from tests.factories import batch_record, recorded_trial

SAMPLES = 4
# A batch of 1 s: a container, in it 0.3 s of CPU time and 0.4 s of waiting, for 0.1 s
# of which other threads compute; 0.1 s of collating; 0.2 s of other code.
STAGES = (
    StageTime(name="data.Set.__getitem__", cpu_s=0.6, wait_s=0.4, all_cpu_s=0.7),
    StageTime(
        name="Compose",
        parent=0,
        kind=StageKind.OBJECT,
        calls=4,
        cpu_s=0.31,
        wait_s=0.4,
        all_cpu_s=0.41,
    ),
    StageTime(
        name="Blur", parent=1, calls=4, cpu_s=0.3, all_cpu_s=0.3, file="blur.py", line=7
    ),
    StageTime(name="read", parent=1, calls=4, wait_s=0.4, all_cpu_s=0.1),
    StageTime(name="collate", parent=0, cpu_s=0.1, all_cpu_s=0.1),
)


def trial(
    *timed: tuple[StageTime, ...], num_workers: int = 2, plain_cpu_s: float = 0.6
) -> Trial:
    """Of batches without and with timed calls."""
    cost = BatchCost(cpu_s=plain_cpu_s, wait_s=0.4, copy_s=0.25)
    plain = recorded_trial(num_workers, cost, LoopCosts(step_s=0.1))
    records = [
        batch_record(
            n, replace(cost, cpu_s=stages[0].cpu_s), position=None, stages=stages
        )
        for n, stages in enumerate(timed)
    ]
    return replace(plain, records=(*plain.records, *records))


def test_shares_are_those_of_a_samples_time_and_containers_are_left_out() -> None:
    found = {one.name: one for one in stage_costs([trial(STAGES)], SAMPLES, 2)}
    assert list(found) == ["read", "Blur", COPY, "data.Set.__getitem__", "collate"]
    assert [one.share for one in found.values()] == pytest.approx(
        [0.4 / 1.25, 0.3 / 1.25, 0.2, 0.2 / 1.25, 0.08]
    )
    assert sum(one.share for one in found.values()) == pytest.approx(1.0)
    assert [one.seconds for one in found.values()] == pytest.approx(
        [0.1, 0.075, 0.0625, 0.05, 0.025]
    )
    assert found["read"].cpu_share == pytest.approx(0.25)  # threads of a library
    assert (found["read"].cpu, found["read"].wait) == pytest.approx((1 / 7, 1.0))
    assert (found["Blur"].file, found["Blur"].line, found["Blur"].calls) == (
        "blur.py",
        7,
        1.0,
    )
    assert found["Blur"].within == "data.Set.__getitem__"
    # A batch without one of them.
    cost = BatchCost(1.4, 0.6, 0.5)
    assert found["read"].taken_from(cost).parts == pytest.approx((1.2, 0.0, 0.5))
    assert found["Blur"].taken_from(cost).cpu_s == pytest.approx(0.8)
    assert found[COPY].taken_from(cost) == BatchCost(1.4, 0.6, 0.0)


def called(
    name: str, parent: int, cpu_s: float, kind: StageKind = StageKind.FUNCTION
) -> StageTime:
    return StageTime(name=name, parent=parent, kind=kind, cpu_s=cpu_s, all_cpu_s=cpu_s)


def test_functions_keep_their_names_and_what_they_call_stands_below_them() -> None:
    """A function has hardly any code of its own; what several call is a stage of
    each."""
    stages = (
        called("Subset.__getitems__", -1, 1.0, StageKind.DATASET),
        called("Set.__getitem__", 0, 1.0, StageKind.DATASET),
        called("augment", 1, 0.5),
        called("spin", 2, 0.5),
        called("deeper", 3, 0.2),
        called("Jitter", 1, 0.4, StageKind.OBJECT),
        called("spin", 5, 0.4),
    )
    costs = [
        cost for cost in stage_costs([trial(stages)], SAMPLES, 2) if cost.name != COPY
    ]
    root, shown = stages[0].name, [*nested(costs)]
    assert [(cost.label, cost.within) for cost in shown] == [
        *(
            ("augment", root),
            ("- spin", "augment"),
            ("Jitter", root),
            ("- spin", "Jitter"),
            (root, ""),
        ),
    ]
    assert [cost.cpu for cost in shown] == pytest.approx([0.5, 0.5, 0.4, 0.4, 0.1])
    assert [
        (cost.name, cost.within, cost.depth) for cost in costs if cost.depth > 1
    ] == [("deeper", "spin", 2)]


def test_what_the_search_adds_is_no_part_of_a_batch() -> None:
    stages = (
        *STAGES[:1],
        StageTime(name="", parent=0, cpu_s=0.3),
        StageTime(name="inner", parent=1, cpu_s=0.2),
    )
    found = {one.name: one.seconds for one in stage_costs([trial(stages)], SAMPLES, 2)}
    assert found == {
        "data.Set.__getitem__": pytest.approx((0.3 + 0.4) / SAMPLES),
        COPY: pytest.approx(0.0625),
    }


def test_what_timing_has_cost_is_no_part_of_a_stage() -> None:
    """The batch takes 0.6 s of CPU time, waits 0.4 s, and is copied in 0.25 s."""
    stages = (
        StageTime(name="root", cpu_s=1.8, wait_s=0.4, all_cpu_s=1.8, overhead_s=1.2),
        StageTime(
            name="called often", parent=0, cpu_s=1.2, all_cpu_s=1.2, overhead_s=0.9
        ),
    )
    found = {one.name: one for one in stage_costs([trial(stages)], SAMPLES, 2)}
    assert (found["called often"].share, found["root"].share) == pytest.approx(
        (0.3 / 1.25, 0.7 / 1.25)
    )


def test_the_latest_timed_batch_of_each_worker_counts_in_trials_with_about_as_many_workers() -> (
    None
):
    other = (
        replace(STAGES[0], cpu_s=5.0),
        StageTime(name="other", parent=0, cpu_s=4.0),
    )
    far, near = (
        trial(other, num_workers=32),
        trial(*[other] * 8, *[STAGES] * 8, num_workers=8),
    )
    assert "other" not in {one.name for one in stage_costs([far, near], SAMPLES, 8)}
    assert stage_costs([trial()], SAMPLES, 4) == ()


def test_timed_batches_are_not_replayed() -> None:
    slow = replace(STAGES[0], cpu_s=60.0)
    plain, timed = (
        model_of([one], 100, 4.0, "fork") for one in (trial(), trial((slow,)))
    )
    assert plain is not None
    assert timed is not None
    settings = QueueSettings(2, 4.0)
    assert timed.cost_s(settings) == pytest.approx(plain.cost_s(settings), rel=0.01)
    (stage, *_) = stage_costs([trial(STAGES)], SAMPLES, 2)
    assert plain.cost_s(settings, without=(stage,)) < 0.8 * plain.cost_s(settings)
