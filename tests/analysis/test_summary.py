import math
from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.analysis.summary import ConfigurationSummary, best_of
from nws_sweep.records import (
    ONLINE_STRATEGY,
    Noise,
    PythonObjects,
    SearchRecord,
    Trial,
    TrialState,
    Verdict,
)
from nws_sweep.system import processes
from tests.factories import (
    FACTS,
    configuration,
    endless_trial,
    estimate,
    failed_trial,
    loader_settings,
    measurement,
    search_result,
    search_rules,
    summary_of_grid,
    summary_of_run,
    trial,
)


def only(*trials: Trial, **changes: Any) -> ConfigurationSummary:
    (found,) = summary_of_run(search_result(*trials, **changes)).configurations
    return found


def test_whole_epochs_decide_where_their_length_is_known_else_batches_and_never_a_trial_that_failed() -> (
    None
):
    failed = (
        failed_trial(0),
        failed_trial(1, state=TrialState.TIMEOUT),
        trial(2, 1.0, state=TrialState.MISMEASURED),
    )
    slow_start = trial(
        4,
        8.0,
        measurement=measurement(8.0, startup_s=7.0, batch_s=measurement(0.5).batch_s),
    )
    assert best_of(search_result(*failed, trial(0, 4.0), slow_start)) == trial(0, 4.0)
    assert best_of(
        search_result(endless_trial(0, 0.5), endless_trial(4, 0.25))
    ) == endless_trial(4, 0.25)
    assert best_of(search_result(*failed)) is None


@pytest.mark.parametrize(
    ("reference", "trials", "gains"),
    [
        (8, [trial(0, 8.0), trial(2, 2.0), trial(8, 3.0)], [4.0, 1.5]),
        (8, [failed_trial(0), trial(2, 2.0)], [None, None]),
        (None, [trial(0, 8.0), trial(2, 2.0)], [4.0, None]),
    ],
)
def test_gains_are_ratios_to_the_best(
    reference: int | None, trials: list[Trial], gains: list[float | None]
) -> None:
    found = only(
        *trials,
        configuration=configuration(
            search=search_rules((0, 2, 8), reference=reference)
        ),
    )
    both = (found.gain_over(0), found.gain_over(found.configuration.search.reference))
    assert [gain and gain.value for gain in both] == gains
    for gain in filter(None, both):  # both intervals are of 0.75 to 1.5
        assert gain.half_width == pytest.approx(math.sqrt(2) * math.log(2) / 2)


def test_only_the_columns_that_differ_and_the_dataset_tell_configurations_apart() -> (
    None
):
    found = summary_of_grid(
        search_result(trial(0, 1.0), columns={"pin_memory": True}),
        search_result(
            trial(0, 1.0), columns={"pin_memory": False, "training_step.ms": 5}
        ),
    )
    assert found.varying == ("dataset", "pin_memory", "training_step.ms")
    assert (
        found.configurations[1].label
        == "dataset=photos pin_memory=false training_step.ms=5"
    )


def test_the_verdict_decides_and_other_settings_do_not_mix_with_the_numbers_of_workers() -> (
    None
):
    better = trial(2, 9.0, settings=loader_settings(2, prefetch_factor=4))
    found = Verdict(recommended=better.settings, fastest=loader_settings(2))
    summary = only(trial(0, 16.0), trial(2, 8.0), trial(4, 7.0), better, verdict=found)
    assert summary.best == better
    assert summary.changed_settings == "prefetch_factor=4"
    assert [t.measurement.epoch_s for t in summary.worker_trials if t.measurement] == [
        16.0,
        8.0,
        7.0,
    ]
    gain = summary.gain_over(0)
    assert gain is not None
    assert gain.value == 16.0 / 9.0


@pytest.mark.parametrize(
    ("changes", "samples"),
    [({}, 1100), ({"drop_last": True}, 1024), ({"batch_size": None}, 1536)],
)
def test_the_last_batch_of_an_epoch_counts_with_its_own_samples(
    changes: dict[str, Any], samples: int
) -> None:
    """Of 1100 samples three batches of 512, or two."""
    settings, count = (
        loader_settings(2, **{"batch_size": 512, **changes}),
        2 if "drop_last" in changes else 3,
    )
    found = measurement(1.1, batch_s=estimate(0.4), samples_per_s=512 / 0.4)
    measured = trial(2, 1.1, settings=settings, measurement=found, batches=count)
    one = only(measured, facts=replace(FACTS, samples=1100))
    assert one.best_rate == pytest.approx(samples / 1.1)


STORE = PythonObjects(
    attribute="samples", type="list of tuple", count=1_281_167, bytes=200_000_000
)
HOLDING = replace(FACTS, handles=("dataset.file (FileIO of data.bin)",))
DRAWING = replace(FACTS, generators=("transform.R",))
CLOCK = ("the clock was set back",)


def noisy(**noise: Any) -> SearchRecord:
    return search_result(trial(0, 8.0), trial(1, 9.0, noise=Noise(**noise)))


def verdict(*tied: int, **changes: Any) -> Verdict:
    two = loader_settings(2)
    return Verdict(
        recommended=two,
        fastest=two,
        tied=tuple(loader_settings(n) for n in tied),
        **changes,
    )


@pytest.mark.parametrize(
    ("result", "warnings"),
    [
        (search_result(trial(4, 2.0), configuration=configuration(search=search_rules((4,)))), []),
        # What is open stands in the first line, and the most serious warning in the note.
        (search_result(trial(0, 8.0), trial(1, 9.0, finished=False), stop_reason=""), []),
        (search_result(trial(2, 8.0), verdict=verdict(8, provisional=True, seconds_to_decide=40.0)), []),
        (search_result(trial(0, 8.0), failed_trial(2, "killed", TrialState.INTERRUPTED)), []),
        (search_result(error="no such folder: /data", stop_reason=""), []),
        (search_result(trial(2, 8.0), trial(4, 8.0), verdict=verdict(8, 4, seconds_to_decide=40.0)), []),
        (search_result(
             trial(0, 8.0), trial(2, 4.0), failed_trial(4, "all differ", TrialState.WRONG_SAMPLES), facts=HOLDING
         ),
         ["num_workers=4 is excluded: all differ"]),
        (search_result(trial(0, 4.0), trial(2, 2.0), facts=replace(DRAWING, handles=HOLDING.handles)),
         ["each worker draws the same random numbers in each epoch (transform.R): seed the generator"]),
        (  # each warning of a trial once; not what num_workers=0 has no use for
            search_result(trial(0, 2.0, notes=("-",), warnings=CLOCK), trial(1, 3.0, warnings=(*CLOCK, "a full disk"))),
            [*CLOCK, "a full disk"],
        ),
        (search_result(trial(0, 2.0), trial(8, 1.0), trial(2, 1.5), facts=replace(FACTS, objects=(STORE,))),
         ["the dataset keeps 1,281,167 Python objects in samples (list of tuple, about 200 MB): reading them copies "
          "them into each forked worker, up to 1.60 GB with 8"]),
        (noisy(other_cpus=2.0, throttled=0.5), ["num_workers=1 was throttled by its CPU quota 50 % of the time"]),
        (noisy(other_cpus=0.1, steal=0.01, throttled=0.01), []),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("forked_workers")
def test_warnings_of_a_search_begin(result: SearchRecord, warnings: list[str]) -> None:
    found = summary_of_run(result).configurations[0].conclusions.warnings
    assert [
        line[: len(start)] for line, start in zip(found, warnings, strict=True)
    ] == warnings


@pytest.mark.parametrize(
    ("result", "note"),
    [
        (search_result(trial(0, 8.0), trial(2, 4.0)), ""),
        (search_result(failed_trial(0)), ""),
        (search_result(trial(0, 4.0), trial(2, 8.0), facts=HOLDING), ""),
        (search_result(trial(0, 8.0), trial(2, 4.0, noise=Noise(other_cpus=2.0)), facts=HOLDING),
         "forked workers share dataset.file (FileIO of data.bin): open"),
        (search_result(trial(0, 8.0), trial(2, 4.0), facts=DRAWING),
         "each worker draws the same random numbers in each epoch (transform.R): seed the generator"),
        (search_result(trial(0, 8.0), failed_trial(1, "no pickle"), failed_trial(2, "no room")),
         "every num_workers above 0 failed: no pickle"),
        (noisy(other_cpus=2.0, steal=0.3), "other programs used 0.1 to 2.0 of 8 CPUs: measure again without them"),
        (noisy(steal=0.12), "the hypervisor took 12 % of the CPU time while num_workers=1 was measured"),
        (noisy(throttled=0.5), "num_workers=1 was throttled by its CPU quota 50 % of the time"),
    ],
)  # fmt: skip
def test_what_takes_the_answer_back_most_is_its_note(
    result: SearchRecord, note: str
) -> None:
    found = summary_of_run(result).configurations[0].conclusion.note
    assert found[: len(note) or None] == note


def test_workers_that_persist_by_choice_of_the_search_are_noted() -> None:
    persistent = trial(2, 1.0, settings=loader_settings(2, persistent_workers=True))
    busy = replace(persistent, noise=Noise(other_cpus=2.0))
    stale = "persistent workers do not see what your program changes in the dataset between epochs"
    assert only(persistent).conclusion.note == stale
    load, also = only(busy).conclusion.note.split("; ")
    assert (load[:18], also) == ("other programs use", stale)
    of_program = configuration(loader=loader_settings(persistent_workers=True))
    assert only(persistent, configuration=of_program).conclusion.note == ""


def test_workers_that_are_not_forked_copy_no_objects_of_the_dataset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "start_method", lambda: "forkserver")
    assert (
        only(
            trial(2, 1.0), trial(4, 2.0), facts=replace(FACTS, objects=(STORE,))
        ).conclusions.warnings
        == ()
    )


def pinned(accelerator: str | None) -> SearchRecord:
    setting = configuration(loader=loader_settings(pin_memory=True))
    return search_result(
        trial(0, 1.0),
        configuration=setting,
        facts=replace(FACTS, accelerator=accelerator),
    )


def unpinned(step: str, strategy: str = "adaptive") -> SearchRecord:
    rules = search_rules(strategy=strategy)
    setting = configuration(training_step={"_target_": step}, search=rules)
    return search_result(
        trial(0, 1.0), configuration=setting, facts=replace(FACTS, accelerator="cuda")
    )


@pytest.mark.parametrize(
    ("results", "warnings"),
    [
        ((pinned(None), pinned(None)), ("pin_memory=true has no effect here: there is no accelerator",)),
        ((pinned("cuda"), unpinned("my.Step")), ()),
        ((unpinned("my.Step"), unpinned("my.Step")), ("pin_memory=true was not tried",)),
        ((unpinned("my.Step"), unpinned("nws_sweep.dataloading.training_steps.Sleep")), ()),
        ((unpinned("my.Step"), unpinned("my.Step", strategy=ONLINE_STRATEGY)), ()),
    ],
)  # fmt: skip
def test_warnings_of_all_configurations_are_given_once(
    results: tuple[SearchRecord, ...], warnings: tuple[str, ...]
) -> None:
    found = summary_of_grid(
        *results, unreadable=("a/result.json: cannot be read (gone)",)
    )
    expected = (*warnings, "a/result.json: cannot be read (gone)")
    assert all(
        line.startswith(start)
        for line, start in zip(found.warnings, expected, strict=True)
    )
    assert [each.conclusions.warnings for each in found.configurations] == [(), ()]
