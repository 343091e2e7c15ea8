"""Diagnoses of workloads with known bottlenecks: planted costs of batches, measured
without an error."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from nws_sweep.analysis import advice
from nws_sweep.analysis.advice import uneven_workers
from nws_sweep.analysis.diagnosis import Diagnosis, diagnose, refused_by
from nws_sweep.analysis.limits import COLLATE
from nws_sweep.analysis.summary import best_of, summarise, summarise_record
from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.epochs import Records, epoch_of
from nws_sweep.model.queue import QueueSettings, replay
from nws_sweep.model.stages import Stage
from nws_sweep.records import (
    NO_STEP,
    Account,
    BatchCost,
    Estimate,
    LoaderSettings,
    LoopCosts,
    Measurement,
    Noise,
    SearchRecord,
    Trial,
    TrialState,
    WholeBatches,
    storage,
)
from tests import factories
from tests.factories import (
    HOST,
    configuration,
    failed_trial,
    loader_settings,
    search_rules,
    store_grid,
    store_run,
    trial,
)
from tests.fakes import FACTS

pytestmark = pytest.mark.usefixtures("forked_workers")

START = LoopCosts(fork_s=0.002, start_s=0.005, stop_s=0.005)


def lognormal(count: int) -> tuple[float, ...]:
    """Factors with mean 1."""
    draw = random.Random(1)
    return tuple(draw.lognormvariate(-(0.8**2) / 2, 0.8) for _ in range(count))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Costs of a batch and of the loop; ``waits`` multiplies the wait of each batch."""

    cost: BatchCost
    loop: LoopCosts = START
    cores: int = 2
    batches: int = 1000
    waits: tuple[float, ...] = (1.0,)
    beside_s: float | None = None  # the training step beside workers
    tried: tuple[int, ...] = (0, 1, 2, 4, 8, 16)
    refused: tuple[int, ...] = ()
    settings: LoaderSettings = loader_settings()
    step: Mapping[str, str] = field(
        default_factory=lambda: {"_target_": "package.Step"}
    )

    def trial(self, n: int) -> Trial:
        scale = self.waits * (self.batches // len(self.waits))
        costs = [
            replace(self.cost, wait_s=factor * self.cost.wait_s) for factor in scale
        ]
        loop = (
            self.loop
            if n
            else LoopCosts(step_s=self.loop.step_s, step_cpu_s=self.loop.step_cpu_s)
        )
        loop = replace(loop, step_s=self.beside_s) if n and self.beside_s else loop
        found = replay(costs, loop, QueueSettings(n, self.cores))
        records = tuple(
            factories.batch_record(n, c, position=n / len(costs))
            for n, c in enumerate(costs)
        )
        account = Account(
            step_s=self.batches * loop.step_s,
            making_s=0.0,
            sampler_s=self.batches * loop.sampler_s,
            main_s=self.batches * loop.receive_s,
            starting_s=n * loop.fork_s + loop.start_s + loop.start_wait_s + loop.stop_s,
        )
        _, batch_s = epoch_of(
            Records(made=records, loop=loop, batches=len(costs)),
            QueueSettings(n, self.cores),
        )
        return trial(
            n,
            1.0,
            settings=self.settings.with_workers(n),
            measurement=Measurement(
                startup_s=found.returned_s[0],
                batch_s=Estimate(
                    value=batch_s, low=batch_s / 1.02, high=batch_s * 1.02, n=5
                ),
                step_s=loop.step_s,
                epoch_s=found.epoch_s,
                cpu_s=self.cost.cpu_s,
                stall_fraction=1 - loop.step_s / batch_s,
                account=account.lasting(found.epoch_s),
            ),
            noise=Noise(),
            records=records,
            loop=loop,
            batches=self.batches,
        )

    @cached_property
    def result(self) -> SearchRecord:
        refused = [
            failed_trial(n, "it needs 9 GB, 4 GB are free", TrialState.SKIPPED)
            for n in self.refused
        ]
        rules = search_rules((*self.tried, *self.refused))
        return factories.search_result(
            *map(self.trial, self.tried),
            *refused,
            configuration=configuration(
                search=rules, loader=self.settings, training_step=self.step
            ),
            host=replace(HOST, usable_cpus=self.cores, torch="2.6.0+cpu"),
        )

    @cached_property
    def diagnosis(self) -> Diagnosis:
        found = diagnose(self.result, best_of(self.result))
        assert found is not None
        return found


@pytest.mark.parametrize(
    ("slow_s", "words"),
    [(4.0, "worker 1 took 4.0x as long as the others: "), (1.2, "")],
)
def test_a_worker_with_dear_shards_is_named(slow_s: float, words: str) -> None:
    """First batches, which import modules, do not count."""
    costs_s = [9.0, 1.0, 1.0, *[1.0, slow_s, 1.0] * 3]
    records = [
        factories.batch_record(n, BatchCost(0.0, wait_s))
        for n, wait_s in enumerate(costs_s)
    ]
    uneven = uneven_workers(trial(3, 1.0, records=tuple(records)))
    assert uneven.startswith(words)
    assert bool(uneven) == bool(words)


WAITING = Workload(cost=BatchCost(0.0002, 0.032))
COMPUTING = Workload(cost=BatchCost(0.016, 0.0))
SHORT = Workload(
    cost=BatchCost(0.0002, 0.032), loop=replace(START, fork_s=0.02), batches=12
)
SLOW_START = replace(SHORT, batches=48, cores=64, loop=replace(START, start_wait_s=0.3))
UNEVEN = Workload(cost=BatchCost(0.0, 0.032), waits=lognormal(1000))
MOVING = BatchCost(0.001, 0.0, copy_s=0.0015)


@pytest.mark.parametrize(
    ("workload", "bottlenecks", "saved", "words"),
    [
        (WAITING, [Bottleneck.LATENCY], 0.94,
         "loading waits: N % of a batch's 32 ms is waiting for storage or the network | faster storage, or a cache, "
         "saves up to N % of the epoch; num_workers=64 saves N % of the epoch: raise max_workers"),
        (COMPUTING, [Bottleneck.CPU], 0.87,
         "the CPUs are busy: 16 ms a batch | transforms of half the cost, or 4 CPUs, save N % of the epoch"),
        (Workload(cost=MOVING, loop=replace(START, receive_s=0.0015)), [], None,
         "a batch is loaded in 1.00 ms ±2.N %; moving it from a worker takes 3.0 ms | "),
        (Workload(cost=BatchCost(0.012, 0.0, copy_s=0.0005), cores=64, loop=replace(START, receive_s=0.002)),
         [Bottleneck.TRANSFER], 0.6,
         "moving a batch from a worker to the main process takes 2.5 ms | less data in fewer tensors a batch, such as "
         "uint8, saves up to N % of the epoch"),
        (Workload(cost=BatchCost(0.008, 0.0, copy_s=0.008)), [Bottleneck.CPU], 0.87,
         "making samples takes CPU time: 8.0 ms a batch | "),
        (UNEVEN, [Bottleneck.LATENCY, Bottleneck.ORDER], 1.0,
         "loading waits: N % of a batch's 31 ms is waiting for storage or the network | "),
        (SLOW_START, [Bottleneck.STARTUP, Bottleneck.LATENCY], 0.8,
         "starting and ending workers takes N % of the epoch | persistent_workers=true saves up to N % of each later "
         "epoch; faster storage, or a cache, saves up to N % of the epoch"),
        (replace(SLOW_START, loop=replace(START, start_wait_s=30.0), tried=(0, 1, 2)),
         [Bottleneck.LATENCY, Bottleneck.STARTUP], 0.98,
         "loading waits: N % of a batch's 32 ms is waiting for storage or the network | faster storage, or a cache, "),
        (SHORT, [Bottleneck.LATENCY, Bottleneck.STARTUP], 0.98,
         "loading waits: N % of a batch's 32 ms is waiting for storage or the network | faster storage, or a cache, "
         "saves up to N % of the epoch; persistent_workers=true saves up to N % of each later epoch"),
        (replace(WAITING, loop=replace(START, fork_s=0.015)), [Bottleneck.LATENCY, Bottleneck.STARTUP], 0.93,
         "loading waits: N % of a batch's 32 ms is waiting for storage or the network | faster storage, or a cache, "),
        (replace(WAITING, tried=(0, 1, 2, 4), refused=(8, 16)), [Bottleneck.LATENCY, Bottleneck.MEMORY], 0.98,
         "loading waits: N % of a batch's 32 ms is waiting for storage or the network | faster storage, or a cache, "
         "saves up to N % of the epoch; memory for more workers saves up to N % of the epoch"),
        (replace(SHORT, tried=(0,), loop=replace(START, fork_s=0.02), batches=200, refused=(1, 2)),
         [Bottleneck.LATENCY, Bottleneck.MEMORY], 0.98, "loading waits: "),
        (Workload(cost=BatchCost(0.0024, 0.0), loop=replace(START, step_s=0.008, receive_s=0.0016)),
         [Bottleneck.STEP, Bottleneck.TRANSFER], 0.79,
         "the training step takes N % of the time of a batch | a faster training step saves up to N % of the epoch"),
        (replace(COMPUTING, loop=replace(START, step_s=0.008)), [Bottleneck.STEP, Bottleneck.CPU], 0.87,
         "the training step and the CPUs limit together: without one alone the epoch is hardly shorter | "),
        (replace(COMPUTING, loop=replace(START, step_s=0.082), beside_s=0.121, tried=(0, 1)),
         [Bottleneck.STEP, Bottleneck.CPU, Bottleneck.COMPETITION], 0.84,
         "the training step takes N % of the time of a batch | a faster training step saves up to N % of the epoch"),
        # no step
        (Workload(cost=BatchCost(60e-6, 0.0), loop=replace(START, step_s=12e-6), tried=(0,)), [], None,
         "no single cost limits: removing any saves less than a tenth of the epoch | "),
    ],
    ids=lambda value: "+".join(limit.value for limit in value) or "none" if isinstance(value, list) else "",
)  # fmt: skip
def test_the_bottleneck_is_reported_with_what_is_saved_without_it(
    workload: Workload, bottlenecks: list[Bottleneck], saved: float | None, words: str
) -> None:
    found = workload.diagnosis
    assert list(found.bottlenecks) == bottlenecks
    if saved is not None:
        assert next(iter(found.saved.values())) == pytest.approx(saved, abs=0.06)
    advised = advice.of(found)
    text = f"{advised.cause} | {'; '.join(map(str, advised.remedies))}"
    assert re.sub(r"\d+ %", "N %", text).startswith(words)
    assert len(advised.cause.split()) <= 20
    for line in (text, *advice.details(found)):
        assert not re.search(r"\n|\b(None|nan|inf)\b| - of|  ", line), line


def test_a_hypervisor_that_takes_much_is_reported_alone_other_programs_do_not_hide_the_bottleneck() -> (
    None
):
    """Records are free of waiting for a CPU."""
    met, recorded = (
        replace(COMPUTING.trial(n), noise=Noise(other_cpus=1.5)) for n in (0, 2)
    )
    found = diagnose(replace(COMPUTING.result, trials=(met, recorded)), recorded)
    assert found is not None
    assert found.bottlenecks[0] is Bottleneck.CPU
    noisy = replace(recorded, noise=Noise(steal=0.3))
    found = diagnose(replace(COMPUTING.result, trials=(met, noisy)), noisy)
    assert found is not None
    assert found.bottlenecks == (Bottleneck.NOISE,)
    assert list(advice.details(found)) == []
    assert advice.of(found).cause == (
        "hidden by noise: the hypervisor took 30 % of the CPU time"
    )


def test_a_stored_run_is_diagnosed_from_its_costs_and_not_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store_run(tmp_path, replace(COMPUTING, batches=100).result)
    monkeypatch.chdir(folder)
    without = factories.search_result(trial(2, 1.0))
    # it has no folder
    assert summarise_record(without).configurations[0].run.recorded is without
    (found,) = summarise(storage.find(folder)).configurations
    assert found.conclusion.why == "the CPUs are busy: 16 ms a batch"
    (folder / storage.COSTS).unlink()
    (earlier,) = summarise(storage.find(folder)).configurations
    assert earlier.diagnosis is None
    assert earlier.conclusion.why == ""
    assert [line.split(":")[0] for line in earlier.details] == [
        "where the time goes",
        "stopped",
    ]
    assert diagnose(found.run.result, None) is None


def test_records_of_several_configurations_are_not_kept(tmp_path: Path) -> None:
    result = replace(COMPUTING, batches=100).result
    columns = [
        {**result.configuration.columns, "batch_size": size} for size in (32, 64)
    ]
    results = (
        replace(result, configuration=replace(result.configuration, columns=each))
        for each in columns
    )
    first, second = summarise(
        storage.find(store_grid(tmp_path, *results))
    ).configurations
    assert first.conclusion.why.startswith("the CPUs are busy")
    assert first.conclusions.diagnosis is None
    assert not any(trial.records for trial in first.run.result.trials)
    first.run.folder.joinpath(storage.COSTS).unlink()
    assert first.conclusion.why.startswith("the CPUs are busy")  # drawn once
    assert second.conclusions.bottlenecks == (Bottleneck.CPU,)


def test_whole_batches_that_are_faster_are_why_and_what_to_change() -> None:
    cheap = Workload(cost=BatchCost(60e-6, 0.0), tried=(0,))
    facts = replace(FACTS, whole_batches=WholeBatches(samples_s=0.03, whole_s=0.01))
    result = replace(cheap.result, facts=facts)
    found = diagnose(result, best_of(result))
    assert found is not None
    pair = dict.fromkeys((Bottleneck.CPU, Bottleneck.STARTUP), 0.18)
    for diagnosis in (found, replace(found, saved=pair, together=True)):
        advised = advice.of(diagnosis)
        assert advised.cause == (
            "samples are collated one by one; whole batches load 3.0 times as fast"
        )
        assert [*map(str, advised.remedies)] == [
            "indexing whole batches (batch_size=None, a BatchSampler) saves about 67 % of the epoch"
        ]


def test_where_whole_batches_are_faster_pytorchs_collate_is_no_remedy() -> None:
    collate = Stage(name=COLLATE, share=0.8, seconds=1e-4, cpu_share=1.0, saved=0.5)
    facts = replace(FACTS, whole_batches=WholeBatches(samples_s=0.03, whole_s=0.01))
    result, best = COMPUTING.result, best_of(COMPUTING.result)
    assert best
    assert best.measurement
    account = Account(step_s=0.0, making_s=1.0)
    best = replace(best, measurement=replace(best.measurement, account=account))
    texts = []
    for record in (replace(result, facts=facts), result):
        trials = [
            best if trial.settings == best.settings else trial
            for trial in record.trials
        ]
        found = diagnose(replace(record, trials=tuple(trials)), best)
        assert found is not None
        texts.append("; ".join(map(str, advice.of(found, [collate]).remedies)))
    assert texts[0].startswith("indexing whole batches (batch_size=None, a BatchS")
    assert "default_collate" not in texts[0]
    assert texts[1].startswith("a cheaper data.default_collate saves up to 50 %")


def test_costs_that_depend_on_the_position_are_reported() -> None:
    rising = replace(WAITING, waits=(0.1,) * 500 + (1.9,) * 500)
    in_order = replace(rising.result, facts=replace(FACTS, is_shuffled=False))
    found = diagnose(in_order, best_of(in_order))
    assert found is not None
    rise = "a batch in the last third of the epoch costs"
    assert f"{rise} 18 times as much as one in the first: " in "\n".join(
        advice.details(found)
    )
    for none in (WAITING, rising):  # rising is shuffled
        assert rise not in "\n".join(advice.details(none.diagnosis))


def test_settings_that_save_more_than_the_tolerance_are_suggested() -> None:
    rather_even = replace(
        UNEVEN, waits=tuple(factor**0.25 for factor in UNEVEN.waits)
    ).diagnosis
    assert rather_even.bottlenecks == (Bottleneck.LATENCY,)
    suggested = [line.split()[0] for line in advice.details(rather_even)]
    assert {"in_order=False", "prefetch_factor=8"} <= {*suggested}
    assert UNEVEN.diagnosis.suggestions["in_order=False"] == pytest.approx(
        0.41, abs=0.08
    )
    assert COMPUTING.diagnosis.suggestions == {}


def test_what_was_measured_in_vain_and_what_torch_lacks_is_not_suggested() -> None:
    uneven = replace(UNEVEN, batches=300, waits=UNEVEN.waits[:300], tried=(0, 8))
    best, result = uneven.diagnosis.best, uneven.result

    def found(*tried: str, **changes: Any) -> tuple[set[str], bool]:
        values: dict[str, Any] = {"prefetch_factor": 8, "in_order": False}
        trials = [
            replace(
                best,
                settings=replace(best.settings, **{name: values[name]}),
                records=(),
            )
            for name in tried
        ]
        now = diagnose(
            replace(result, trials=(*result.trials, *trials), **changes), best
        )
        assert now is not None
        return {*now.suggestions}, Bottleneck.ORDER in now.saved

    assert found() == ({"in_order=False", "prefetch_factor=8"}, True)
    assert found("prefetch_factor", "in_order") == (set(), False)
    assert found(host=replace(result.host, torch="2.5.1")) == (
        {"prefetch_factor=8"},
        True,
    )


def test_the_upper_bound_is_the_gain_of_an_infinitely_fast_loader() -> None:
    """16 ms of loading by at most two workers, for a training step of 5 ms: 8 ms a
    batch where 5 ms are possible."""
    half = Workload(
        cost=BatchCost(0.0002, 0.0158),
        loop=replace(START, step_s=0.005),
        tried=(0, 1, 2),
    )
    without_step = replace(half, step={"_target_": NO_STEP})
    assert [
        [
            line
            for line in advice.details(each.diagnosis)
            if line.startswith("upper bound")
        ]
        for each in (half, replace(half, tried=(0, 4)), without_step)
    ] == [
        ["upper bound: an infinitely fast loader would speed up training 1.6x"],
        ["upper bound: an infinitely fast loader would not speed up training"],
        [],
    ]


@pytest.mark.parametrize(
    ("tried", "refused", "line"),
    [
        ((0, 1, 2), (), "more workers were not measured"),
        ((0, 1, 2), (8, 16), "8 workers did not fit (it needs 9 GB, 4 GB are free)"),
    ],
)
def test_details_say_what_is_known_of_more_workers(
    tried: tuple[int, ...], refused: tuple[int, ...], line: str
) -> None:
    waiting = replace(WAITING, tried=tried, refused=refused)
    assert waiting.diagnosis.best.num_workers == 2
    assert line in [*advice.details(waiting.diagnosis)]


def test_workers_with_the_other_settings_of_the_best_may_not_fit_either() -> None:
    persistent = loader_settings(16, persistent_workers=True)
    best = replace(WAITING.trial(4), settings=persistent.with_workers(4))
    late = replace(
        failed_trial(16, "it needs 9 GB", TrialState.SKIPPED), settings=persistent
    )
    result = replace(WAITING.result, trials=(*WAITING.result.trials, best, late))
    assert refused_by(result, best) == (late,)
    assert refused_by(result, WAITING.trial(4)) == ()


def test_more_workers_are_suggested_with_what_they_save() -> None:
    waiting = replace(WAITING, tried=(0, 1, 2, 4))
    (configuration,) = summarise_record(waiting.result).configurations
    assert configuration.conclusions.warnings == (
        "the best value is the largest one allowed (num_workers=4); num_workers=16 would save 74 % of the epoch "
        "(set a larger max_workers or candidate)",
    )
    assert (
        replace(waiting, loop=replace(START, step_s=0.009)).diagnosis.more_workers == {}
    )


def test_fork_is_suggested_for_spawned_workers_and_an_epoch_of_unknown_length_has_no_start_up() -> (
    None
):
    by_spawn = loader_settings(multiprocessing_context="spawn")
    spawned = replace(SLOW_START, settings=by_spawn)
    assert advice.of(spawned.diagnosis).cause.endswith(" with spawn; fork is faster")
    assert "fork" not in advice.of(SLOW_START.diagnosis).cause
    trials = tuple(replace(one, batches=None) for one in SHORT.result.trials)
    found = diagnose(replace(SHORT.result, trials=trials), SHORT.trial(4))
    assert found is not None
    assert found.bottlenecks == (Bottleneck.LATENCY,)


def test_if_no_workers_are_best_the_configured_settings_are_those_of_the_workers_that_would_be_started() -> (
    None
):
    slow_start = replace(SHORT, loop=replace(START, fork_s=1.0))
    found = slow_start.diagnosis
    assert (found.best.num_workers, Bottleneck.STARTUP in found.bottlenecks) == (
        0,
        True,
    )
    persistent = replace(
        slow_start, settings=loader_settings(persistent_workers=True)
    ).diagnosis
    assert (
        persistent.best.num_workers,
        Bottleneck.STARTUP in persistent.bottlenecks,
    ) == (0, False)


def test_the_first_bottleneck_is_of_the_largest_part_of_the_account_which_old_files_lack() -> (
    None
):
    """Without the waiting no workers are needed: that saves more than their start,
    which takes most of the epoch."""
    found = SLOW_START.diagnosis
    assert found.bottlenecks == (Bottleneck.STARTUP, Bottleneck.LATENCY)
    assert found.saved[Bottleneck.LATENCY] > found.saved[Bottleneck.STARTUP]
    best = found.best
    assert best.measurement is not None
    without = replace(best, measurement=replace(best.measurement, account=None))
    others = (trial for trial in SLOW_START.result.trials if trial != best)
    old = diagnose(replace(SLOW_START.result, trials=(without, *others)), without)
    assert old is not None
    assert old.bottlenecks == (Bottleneck.LATENCY, Bottleneck.STARTUP)


def test_of_a_single_number_more_workers_are_what_to_change_if_loading_waits() -> None:
    advised = advice.of(replace(WAITING, tried=(2,)).diagnosis)
    assert [re.sub(r"\d+ %", "N %", str(remedy)) for remedy in advised.remedies] == [
        "faster storage, or a cache, saves up to N % of the epoch",
        "num_workers=8 saves N % of the epoch",
    ]
    assert replace(COMPUTING, tried=(2,)).diagnosis.more_workers == {}


def test_an_undecided_search_needs_time_and_knows_nothing_of_the_start_of_workers() -> (
    None
):
    slow = Workload(cost=BatchCost(0.0, 0.032), batches=48, tried=(0,))
    late = failed_trial(2, "no batch within 57.0 s", TrialState.INTERRUPTED)
    result = slow.result
    search = search_rules((0, 1, 2, 4), strategy="adaptive", max_workers=4)
    (measured,) = result.trials
    measured = replace(measured, loop=replace(START, start_wait_s=0.3))
    undecided = replace(
        result,
        trials=(measured, late),
        configuration=replace(result.configuration, search=search),
    )
    (found,) = summarise_record(undecided).configurations
    assert re.sub(r"\d\.\d", "N", found.conclusion.remedies[0]) == (
        "a time limit of 120 s measures 4, which is predicted to be N times as fast"
    )
    assert len(found.conclusion.remedies) == 1
    assert "start of workers" not in "\n".join(found.details)
    stopped = replace(undecided, stop_reason="")
    (found,) = summarise_record(stopped).configurations
    assert found.conclusion.remedies[0].startswith("the same search again measures 4,")
