"""The epoch without a stage, from planted costs, and how it is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from nws_sweep import cli, programs
from nws_sweep.analysis import advice
from nws_sweep.analysis.advice import Advice
from nws_sweep.analysis.limits import COLLATE
from nws_sweep.analysis.remedies import Remedy
from nws_sweep.errors import NwsSweepError
from nws_sweep.model.stages import Stage
from nws_sweep.records import BatchCost, BatchRecord, LoopCosts, SearchRecord, StageTime
from nws_sweep.report import explanation
from tests import factories
from tests.analysis.test_diagnosis import COMPUTING, WAITING
from tests.factories import recorded_trial, search_result, store_grid

READING = StageTime(
    name="read", parent=0, calls=8, wait_s=0.09, file="/project/data.py", line=40
)


def searched(
    cost: BatchCost,
    step_s: float,
    *stages: StageTime,
    workers: tuple[int, ...] = (0, 1, 2, 4),
) -> SearchRecord:
    root = StageTime(
        name="Set.__getitem__",
        cpu_s=cost.cpu_s,
        wait_s=cost.wait_s,
        all_cpu_s=cost.cpu_s,
    )
    trials = []
    for number in workers:
        trial = recorded_trial(number, cost, LoopCosts(step_s=step_s, fork_s=0.001))
        batch_s = (
            max(step_s, sum(cost.parts) / number)
            if number
            else sum(cost.parts) + step_s
        )
        found = factories.measurement(128 * batch_s, epoch_s=100 * batch_s)
        records = [*trial.records]
        if number:
            records += [
                BatchRecord(
                    number=1,
                    began_s=0.0,
                    ended_s=0.1,
                    cost=cost,
                    stages=(root, *stages),
                )
                for _ in range(3)
            ]
        trials.append(replace(trial, measurement=found, records=tuple(records)))
    return search_result(*trials)


def test_the_epoch_without_what_limits_it_is_shorter_and_needs_fewer_workers() -> None:
    """Batches of 0.1 s, of which 0.09 s wait, beside a step of 25 ms: four workers are
    needed, without waiting one."""
    found = explanation.of_record(searched(BatchCost(0.01, 0.09), 0.025, READING))
    assert found.num_workers == 4
    reading = found.stages[0]
    assert (reading.name, reading.file, reading.line) == (
        "read",
        "/project/data.py",
        40,
    )
    assert reading.share == pytest.approx(0.9)
    assert reading.workers_without == 1
    assert reading.saved == pytest.approx(0.0, abs=0.15)


def test_without_a_step_the_epoch_falls_as_the_stage_does() -> None:
    found = explanation.of_record(searched(BatchCost(0.01, 0.09), 0.0, READING))
    assert found.stages[0].saved == pytest.approx(0.9, abs=0.05)
    text = str(found)
    assert "data.py:40" in text
    assert text.startswith("a cheaper read (data.py:40) saves up to 9")
    assert (
        found.to_dict()["stages"][0]["epoch_without_s_low"]
        < found.to_dict()["stages"][0]["epoch_without_s"]
    )
    frame = found.to_frame()
    assert frame["name"].iloc[0] == "read"
    assert list(frame.columns) == [
        *(
            "name",
            "file",
            "line",
            "share",
            "cpu_share",
            "seconds",
            "calls",
            "within",
            "depth",
            "saved",
        ),
        *(
            "workers_without",
            "epoch_without_s",
            "epoch_without_s_low",
            "epoch_without_s_high",
        ),
    ]
    assert "<pre>" in found._repr_html_()


@pytest.mark.parametrize(
    ("batch_s", "waiting", "computing"), [(0.064, 0.25, 0.375), (0.0524, 0.08, 0.36)]
)
def test_workers_that_wait_at_the_same_time_no_longer_do_without_the_waiting(
    batch_s: float, waiting: float, computing: float
) -> None:
    """Four workers on two CPUs wait 64 ms and compute 96 ms for a batch: in step it
    takes (64 + 2 * 96) / 4 ms.

    Without waiting it takes 48 ms, without half of the computing 40 ms. The other pace
    is that of workers that wait at any time.
    """
    read = StageTime(name="read", parent=0, wait_s=0.064)
    decode = StageTime(name="decode", parent=0, cpu_s=0.048, all_cpu_s=0.048)
    record = searched(BatchCost(0.096, 0.064), 0.0, read, decode, workers=(4,))
    measured = factories.measurement(128 * batch_s)
    trial = replace(record.trials[0], measurement=measured, spans=())
    host = replace(record.host, usable_cpus=2, usable_cores=2)
    found = explanation.of_record(replace(record, host=host, trials=(trial,)))
    saved = {stage.name: stage.saved for stage in found.stages}
    assert (saved["read"], saved["decode"]) == pytest.approx(
        (waiting, computing), abs=0.03
    )


def test_times_are_per_sample_where_the_dataset_makes_the_batches() -> None:
    record = searched(BatchCost(0.01, 0.09), 0.025, READING)
    own = replace(record.configuration.loader, batch_size=None)
    trials = tuple(
        replace(one, settings=own.with_workers(one.num_workers))
        for one in record.trials
    )
    made = replace(
        record, trials=trials, configuration=replace(record.configuration, loader=own)
    )
    assert (
        explanation.of_record(made).sample_s
        == explanation.of_record(record).sample_s
        == pytest.approx(0.1 / 64)
    )


def test_a_stage_that_costs_workers_but_no_time_is_said_so() -> None:
    stage = Stage(
        name="read",
        share=0.6,
        seconds=0.003,
        cpu_share=0.1,
        saved=0.002,
        workers_without=2,
    )
    best = factories.trial(8, 8.0)
    assert explanation.answer_of([stage], best).lines == [
        "no function is worth making cheaper: without any an epoch takes as long",
        "next   without read num_workers=2 is enough instead of 8",
    ]
    saving = replace(stage, saved=0.38, workers_without=3)
    lines = [
        "a cheaper read saves up to 38 % of an epoch with num_workers=8",
        "why    read takes 60 % of a sample (3.0 ms of 5.0 ms), 10 % of it on a CPU",
        "next   without read num_workers=3 is enough instead of 8",
        "cost   6.2 s",
    ]
    assert explanation.answer_of([saving], best, "6.2 s").lines == lines
    second = replace(saving, name="crop", saved=0.2)
    assert explanation.answer_of([saving, second], best).remedies == (
        "a cheaper crop saves up to 20 %",
    )
    unknown = replace(stage, saved=None)
    assert explanation.answer_of([unknown], best).answer == (
        "read takes most of a sample; what it costs an epoch is unknown"
    )


def test_what_to_change_is_to_index_whole_batches_if_it_saves_most() -> None:
    remedy = Remedy("indexing whole batches saves about {} of the epoch", 0.6)
    indexing = Advice("samples are collated one by one", (remedy,))
    collate = Stage(name=COLLATE, share=0.7, seconds=1e-5, cpu_share=1.0, saved=0.7)
    read = replace(collate, name="read", saved=0.4)
    best = factories.trial(0, 8.0)
    assert explanation.answer_of([collate, read], best, "", indexing).lines == [
        "indexing whole batches saves about 60 % of the epoch with num_workers=0",
        "why    samples are collated one by one",
        "next   a cheaper read saves up to 40 %",
    ]
    dear = replace(read, saved=0.8)
    answer = explanation.answer_of([collate, dear], best, "", indexing).answer
    assert answer.startswith("a cheaper read saves up to 80 %")


def test_the_diagnosis_names_what_to_make_cheaper() -> None:
    blur = Stage(
        name="Blur",
        file="/project/data.py",
        line=12,
        share=0.7,
        cpu_share=1.0,
        saved=0.4,
    )
    read = replace(blur, name="read", file="", cpu_share=0.1, saved=0.2)
    computing = advice.of(COMPUTING.diagnosis, [read, blur])
    assert computing.cause == (
        "the CPUs are busy: Blur takes 70 % of a sample (data.py:12)"
    )
    assert str(computing.remedies[1]) == "a cheaper Blur saves up to 40 % of the epoch"
    assert advice.of(COMPUTING.diagnosis, [read]).cause == (
        "the CPUs are busy: 16 ms a batch"
    )
    waiting = advice.of(WAITING.diagnosis, [read, blur])
    assert waiting.cause.endswith(" is waiting for storage or the network, in read")


def test_threads_that_compute_much_of_the_batches_are_told_with_their_number() -> None:
    record = searched(BatchCost(0.09, 0.01), 0.0)
    assert advice.on_samples(record) == ()
    batch = StageTime(
        name="Set.__getitem__", cpu_s=0.03, all_cpu_s=0.09, pools="torch 4, cv2 8"
    )
    timed = factories.batch_record(0, BatchCost(0.09, 0.01), stages=(batch,))
    trial = replace(recorded_trial(2, timed.cost), records=(timed,))
    assert explanation.of_record(replace(record, trials=(trial,))).advice == (
        "threads beside the worker's own use 67 % of the CPU time of making batches; libraries with several threads in "
        "a worker: torch 4, cv2 8; fewer, set in worker_init_fn, may be as fast",
    )
    waiting = replace(timed, stages=(replace(batch, wait_s=1.0),))
    trial = replace(trial, records=(waiting,))
    assert advice.on_samples(replace(record, trials=(trial,))) == ()


@pytest.mark.parametrize(
    ("workers", "remedy"),
    [
        (
            0,
            r"none were measured; type nws-sweep explain --num-workers 1 train\.py, or",
        ),
        (2, r"another tool, .* watched the workers, .*; search again without it$"),
    ],
)
def test_a_search_without_timed_calls_says_why_and_what_to_type(
    workers: int, remedy: str
) -> None:
    record = factories.search_result(factories.trial(workers, 8.0))
    with pytest.raises(
        NwsSweepError, match=rf"^dataset=photos: no calls were timed: .*{remedy}"
    ):
        explanation.of_record(record)


def test_the_command_prints_the_stages_of_each_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = store_grid(tmp_path, searched(BatchCost(0.01, 0.09), 0.025, READING))
    assert cli.run(["explain", str(folder)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("a cheaper ")
    assert "\n\n| stage " in out
    assert "| read " in out
    assert "data.py:40" in out
    of_programs = (
        ["explain", "--loader", "2", __file__],
        ["explain", "-m", "package.train"],
        ["search"],
    )
    assert [
        programs.are_asked_for(one) for one in (["explain", str(folder)], *of_programs)
    ] == [False, *[True] * 3]
