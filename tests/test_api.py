"""``nws_sweep.search`` and ``nws_sweep.tune``."""

import contextlib
import doctest
import inspect
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Lock
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler

import nws_sweep
from nws_sweep import api, units
from nws_sweep.api import loader_search, searching
from nws_sweep.dataloading.inputs import DATALOADER_DEFAULTS, loader_input_of
from nws_sweep.errors import (
    ConfigurationError,
    NwsSweepError,
    OutOfTime,
    UnpicklableError,
)
from nws_sweep.model import epoch_length
from nws_sweep.records import (
    BatchCost,
    LoaderSettings,
    MeasureRules,
    Noise,
    SearchRecord,
    TrialState,
    Verdict,
)
from nws_sweep.report import progress
from nws_sweep.report.search_result import SearchResult
from nws_sweep.system import host_lock, processes
from tests import user_datasets
from tests.dataloading.test_generators import Draws
from tests.factories import (
    configuration,
    failed_trial,
    recorded_trial,
    search_result,
    search_rules,
    trial,
)

pytestmark = pytest.mark.usefixtures("own_folders")
QUICK = MeasureRules(window_s=0.05, trial_limit_s=1.0)


def slow(length: int = 200, seconds: float = 0.002) -> Dataset[torch.Tensor]:
    dataset: Dataset[torch.Tensor] = user_datasets.Slow(length, seconds=seconds)
    return dataset


def held() -> Any:
    """A dataset that cannot be pickled."""
    return type("Held", (list,), {})([Lock()])


def fails() -> Any:
    raise KeyError("no data")


def test_what_cannot_be_pickled_ends_a_search_before_it_waits_for_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextlib.contextmanager
    def waiting(
        path: str, on_wait: Callable[[str], None], warn: object
    ) -> Iterator[None]:
        on_wait("waiting")
        pytest.fail("it waits")
        yield

    monkeypatch.setattr(host_lock, "held", waiting)
    with pytest.raises(UnpicklableError, match="pass a function that makes it"):
        small(held())


def test_a_signal_that_the_program_takes_ends_a_search_that_waits_for_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[int] = []

    @contextlib.contextmanager
    def waiting(*_: object) -> Iterator[None]:
        os.kill(os.getpid(), signal.SIGTERM)
        yield

    monkeypatch.setattr(host_lock, "held", waiting)
    before = signal.signal(signal.SIGTERM, lambda number, _: taken.append(number))
    try:
        tuned: Any = nws_sweep.tune(
            DataLoader(slow()),
            reuse=False,
            progress=False,
            num_workers=[0],
            time_limit_s=1.0,
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (taken, tuned.tuning.reason) == (
        [signal.SIGTERM],
        "SIGTERM ended the search",
    )


def small(dataset: Any, **keywords: Any) -> nws_sweep.SearchResult:
    return nws_sweep.search(
        dataset,
        **{"num_workers": [0, 2], "measure": QUICK, "progress": False, **keywords},
    )


@pytest.mark.parametrize("reuse", [True, False])
def test_a_search_goes_on_with_what_was_measured_before_ctrl_c(reuse: bool) -> None:
    lines: list[str] = []

    def interrupt(line: str) -> None:
        if line == "measured num_workers=0":
            raise KeyboardInterrupt

    apart: dict[str, Any] = {
        "strategy": "exhaustive",
        "measure": replace(QUICK, interleave=1),
    }
    with pytest.raises(KeyboardInterrupt):
        small(slow(), progress=interrupt, reuse=reuse, **apart)
    result = small(slow(), progress=lines.append, **apart)
    assert ("; num_workers=0 measured on" in lines[0]) is reuse
    assert ("measured num_workers=0" in lines) is not reuse
    assert (
        result.status,
        result.reused,
        [row.num_workers for row in result.trials],
    ) == ("measured", False, [0, 2])
    assert small(slow(), **apart).reused


@pytest.mark.usefixtures("no_leftovers")
def test_a_search_recommends_workers_and_does_not_change_the_program(
    capfd: pytest.CaptureFixture[str],
) -> None:
    states = torch.get_rng_state(), random.getstate()
    lines: list[str] = []
    dataset = slow(length=600, seconds=0.01)
    result = small(
        dataset,
        batch_size=10,
        shuffle=True,
        settings=["prefetch_factor"],
        progress=lines.append,
    )
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    assert result.num_workers == 2
    assert result.loader_kwargs["num_workers"] == 2
    assert set(result.loader_kwargs) <= {"num_workers", "prefetch_factor"}
    assert (
        len(
            DataLoader(
                slow(),
                batch_size=10,
                shuffle=True,
                pin_memory=True,
                **result.loader_kwargs,
            )
        )
        == 20
    )
    assert [one.num_workers for one in result.trials] == [0, 2]
    assert result.stop_reason
    assert result.cost_s > 0
    assert lines[0] == "measuring Slow: at most 60 s"
    assert lines[-1] == result.conclusion.answer
    assert lines[-1].startswith("num_workers=2   ")
    again = small(dataset, batch_size=10, shuffle=True, settings=["prefetch_factor"])
    assert again.reused
    assert again.measured_at == result.measured_at
    assert capfd.readouterr().err == ""
    tuned = nws_sweep.tune(
        DataLoader(dataset, batch_size=10, shuffle=True),
        num_workers=[0, 2],
        measure=QUICK,
        settings=["prefetch_factor"],
    )
    assert tuned.num_workers == 2
    when = f"measured on {units.moment(result.measured_at)}"
    assert again.conclusion.cost == f"none: {when}"
    first, second, *reasons = capfd.readouterr().err.splitlines()
    assert first == f"nws_sweep: Slow: {result.conclusion.answer}"
    assert second == f"nws_sweep: Slow: {when}; reuse=False measures again"
    assert reasons == [f"nws_sweep: {line}" for line in again.conclusion.lines[1:]]


class Named(DataLoader[torch.Tensor]):
    name = ""


def double(samples: list[Any]) -> list[Any]:
    return [2 * sample for sample in samples]


def test_a_tuned_loader_differs_only_in_its_workers() -> None:
    sampler = WeightedRandomSampler(
        [1.0] * 200, 200, generator=torch.Generator().manual_seed(1)
    )
    loader = Named(
        slow(seconds=0.004),
        batch_size=10,
        sampler=sampler,
        collate_fn=double,
        drop_last=True,
    )
    loader.name = "mine"
    expected = list(sampler)
    sampler.generator.manual_seed(1)
    tuned = nws_sweep.tune(loader, num_workers=[0, 2], measure=QUICK, progress=False)
    assert type(tuned) is Named
    assert (tuned.name, tuned.num_workers, loader.num_workers) == ("mine", 2, 0)
    tuning = cast(Any, tuned).tuning
    assert (tuning.before.num_workers, tuning.after.num_workers, tuning.is_decided) == (
        0,
        2,
        True,
    )
    assert tuning.gain > 1
    assert tuning.reason
    assert [sample for batch in tuned for sample in batch] == [
        2 * index for index in expected
    ]


def test_another_program_does_not_get_the_answer_of_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, again = (
        loader_input_of(slow(), DATALOADER_DEFAULTS).fingerprint for _ in range(2)
    )
    monkeypatch.setattr(processes, "main_path", lambda: "/another/train.py")
    assert first == again != loader_input_of(slow(), DATALOADER_DEFAULTS).fingerprint


@pytest.mark.usefixtures("answered")
def test_workers_of_a_tuned_loader_do_not_draw_the_same_numbers() -> None:
    lines: list[str] = []
    loader: DataLoader[Any] = DataLoader(Draws(np.random.RandomState(0)), batch_size=2)
    tuned = nws_sweep.tune(loader, num_workers=[2], progress=lines.append)
    assert tuned.num_workers == 2
    assert (
        len({number for _ in range(2) for batch in tuned for number in batch.tolist()})
        == 48
    )
    assert (
        lines[-1]
        == "workers seed the random number generators of the dataset (transform[0].inner.R)"
    )


@pytest.mark.usefixtures("answered")
def test_quiet_leaves_what_tune_says_beside_its_answer_to_the_log(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "nws_sweep.report.progress")
    monkeypatch.setenv("NWS_SWEEP_LOG", "quiet")
    loader: DataLoader[Any] = DataLoader(Draws(np.random.RandomState(0)), batch_size=2)
    nws_sweep.tune(loader, num_workers=[0, 2])
    assert "workers seed the random number generators" in caplog.text
    assert capsys.readouterr().err == ""


class Reopened(Dataset[int]):
    """Its file is opened again where it is unpickled, but not in a forked worker."""

    def __init__(self) -> None:
        self.file = open(__file__, "rb")  # noqa: SIM115, PTH123

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index

    def __reduce__(self) -> Any:
        return Reopened, ()


@pytest.mark.usefixtures("answered")
def test_tune_starts_no_workers_that_would_share_a_file() -> None:
    lines: list[str] = []
    loader: DataLoader[int] = DataLoader(Reopened(), batch_size=2)
    tuned = nws_sweep.tune(loader, num_workers=[2], progress=lines.append)
    assert tuned.num_workers == 0
    shared = f"forked workers would share dataset.file (BufferedReader of {__file__})"
    assert (
        lines[-1]
        == f"{shared}: open or make it in __getitem__ at first use: the DataLoader is not changed"
    )
    assert cast(Any, tuned).tuning.reason.startswith(shared)
    cast(Any, loader.dataset).file.close()


def test_an_epoch_that_grows_with_the_workers_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = nws_sweep.SearchResult(
        search_result(trial(0, 8.0), trial(2, 4.0, warnings=(epoch_length.LONGER,)))
    )
    monkeypatch.setattr(searching, "_result", lambda *_: found)
    with pytest.warns(
        UserWarning, match="nws_sweep: the length of an epoch depends on num_workers"
    ):
        assert nws_sweep.search(slow()) is found


def test_an_undecided_search_changes_nothing_and_is_where_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts: list[tuple[int, ...]] = []

    def measured(here: Any, start: SearchRecord) -> SearchRecord:
        """The limit ends the first search after the candidate without workers, the
        second by its rule."""
        here._reporter.note(loader_search.announcement(here._input, start))
        starts.append(start.measured_numbers)
        is_first, four = len(starts) == 1, start.configuration.loader.with_workers(4)
        trials = [
            trial(0, 8.0, settings=four.with_workers(0), noise=Noise(other_cpus=1.7))
        ]
        if not is_first:
            trials.append(trial(4, 2.0, settings=four, noise=Noise(other_cpus=1.7)))
        found = Verdict(
            recommended=trials[-1].settings, fastest=four, provisional=is_first
        )
        return replace(
            start,
            trials=tuple(trials),
            verdict=found,
            stop_reason="the time limit of 60 s was spent",
            cost_s=60.0,
        )

    monkeypatch.setattr(loader_search.LoaderSearch, "_measure", measured)
    loader, lines = DataLoader(slow(), num_workers=2), list[str]()
    with pytest.warns(
        UserWarning,
        match="nws_sweep: undecided   only num_workers=0 was measured: the time limit of 60 s was",
    ) as warned:
        tuned: Any = nws_sweep.tune(loader, progress=lines.append)
    assert warned[0].filename == __file__  # the line of the user
    assert (tuned.num_workers, tuned.tuning.is_provisional) == (2, True)
    assert tuned.tuning.reason.startswith(
        "undecided   only num_workers=0 was measured: the time limit of 60 s was spent"
    )
    result = nws_sweep.search(loader, progress=lines.append)
    assert (result.status, result.num_workers, result.reused) == ("measured", 4, False)
    assert str(result).splitlines()[0].startswith("num_workers=4   ")
    assert str(result).splitlines()[1].startswith("note   other programs used 1.7 of ")
    assert str(result).count("other programs") == 1
    assert starts == [(), (0,)]
    assert "; num_workers=0 measured on 20" in lines[-1]
    assert nws_sweep.search(loader, progress=False).reused


def test_a_training_step_and_a_loader_returned_by_a_function_are_measured() -> None:
    counted: list[int] = []

    def step(batch: Any) -> None:
        counted.append(1)
        time.sleep(0.005)

    (only,) = small(
        lambda: DataLoader(slow(100, 0.0), batch_size=10),
        training_step=step,
        num_workers=[0],
    ).trials
    assert only.settings.batch_size == 10
    assert only.measurement is not None
    assert (only.measurement.step_s or 0.0) >= 0.005
    assert not counted


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"strategy": "random"}, "strategy='random': must be adaptive or"),
        (
            {"num_workers": 4},
            "num_workers=4: must be None or a list of different integers",
        ),
        ({"ranks": True}, "ranks=True: must be an integer from 1 to 4096"),
        (
            {"num_workers": np.array([0, -1])},
            r"num_workers=array\(\[ 0, -1\]\): must be None or a list of different",
        ),
        (
            {"measure": MeasureRules(interleave=0)},
            r"measure=MeasureRules\(interleave=0\): must be an integer of at least 1",
        ),
        (
            {"training_step": -1.0},
            "training_step=-1.0: must be None, seconds of at least 0, or a function",
        ),
        (
            {"batch_size": (4, 8)},
            r"batch_size=\(4, 8\): a search takes one value; nws_sweep.sweep\(\) takes several",
        ),
        ({"reuse": "perhaps"}, "reuse='perhaps': must be never or fresh or always"),
    ],
)
def test_a_wrong_argument_is_rejected_before_anything_is_measured(
    keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        nws_sweep.search(TensorDataset(torch.arange(4)), progress=False, **keywords)


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda: nws_sweep.search(3), "dataset of type int has no __getitem__"),
        (
            lambda: nws_sweep.search(iter([1])),
            "dataset of type list_iterator has no __getitem__ and no __len__; expected",
        ),
        # A DataLoader in another object, which is iterable too, as webdataset's
        # WebLoader.
        (
            lambda: nws_sweep.search(
                SimpleNamespace(pipeline=[DataLoader(slow())], __iter__=None),
                batch_size=4,
            ),
            "batch_size=4: a DataLoader has its own batch_size",
        ),
        (
            lambda: nws_sweep.tune(cast(Any, slow())),
            r"tune\(Slow\): must be a DataLoader",
        ),
        (
            lambda: nws_sweep.tune(DataLoader(held())),
            r"lock.*pass a function that makes it, such as lambda: DataLoader\(",
        ),
        (
            lambda: nws_sweep.search(fails, progress=False),
            r"fails\(\), which makes the dataset: KeyError: 'no data'",
        ),
        (
            lambda: nws_sweep.search(slow, sampler=[1]),
            "a sampler needs the dataset itself",
        ),
    ],
)
def test_an_invalid_dataset_is_rejected(ask: Any, line: str) -> None:
    with pytest.raises(NwsSweepError, match=line):
        ask()


def test_the_keywords_of_dataloader_have_its_names_and_defaults() -> None:
    own = inspect.signature(DataLoader).parameters
    ours = inspect.signature(nws_sweep.search).parameters
    for name, default in DATALOADER_DEFAULTS.items():
        assert ours[name].default == default
        assert own[name].default in (default, None)
    positional = [name for name in own if name in ours and name != "num_workers"]
    assert list(ours)[:10] == positional[:10]


@pytest.mark.extended
def test_the_examples_run() -> None:
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for function in (api.search, api.tune, api.sweep, api.explain):
        (example,) = finder.find(function)
        assert example.examples
        runner.run(example)
    assert runner.failures == 0


def test_a_result_renders_as_a_table_a_frame_and_a_figure() -> None:
    result = SearchResult(
        search_result(trial(0, 4.0), trial(2, 2.0), failed_trial(4, "<script>"))
    )
    lines = str(result).splitlines()
    answer = "num_workers=2   1.2 to 3.3 times as fast as 0"
    assert lines[:3] == [answer, "cost   8.0 s, 4.0 epochs", ""]
    rows = [line.split()[1] for line in lines if line.startswith("| ")]
    assert rows == ["num_workers", "0", "2"]
    assert lines[-1] == "failed dataset=photos num_workers=4: failed: <script>"
    details = result.details.splitlines()
    assert details[0] == "stopped: all 4 candidates were measured"
    assert len([line for line in details if line.startswith("|")]) == 5
    assert result.to_frame()["num_workers"].tolist() == [0, 2, 4]
    figure = result.plot()
    assert figure.axes
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    page = result._repr_html_()
    assert page.startswith(f"<pre>{answer}\n")
    assert "<script>" not in page


def test_the_chosen_keywords_are_those_of_dataloader() -> None:
    rules = search_rules(settings=("prefetch_factor",))
    best = trial(
        2, 2.0, settings=LoaderSettings(batch_size=64, num_workers=2, prefetch_factor=4)
    )
    chosen = SearchResult(
        search_result(trial(0, 4.0), best, configuration=configuration(search=rules))
    )
    assert chosen.loader_kwargs == {"num_workers": 2, "prefetch_factor": 4}
    loader = LoaderSettings(
        batch_size=64, prefetch_factor=4, persistent_workers=True, timeout=30.0
    )
    alone = SearchResult(
        search_result(trial(0, 4.0), configuration=configuration(loader=loader))
    )
    # by DataLoader, without workers
    rejected = {"prefetch_factor": None, "persistent_workers": False, "timeout": 0.0}
    assert alone.loader_kwargs == alone.best_params == {"num_workers": 0, **rejected}


def test_a_result_predicts_other_settings() -> None:
    recorded = recorded_trial(4, BatchCost(cpu_s=0.0, wait_s=0.08))
    predicted = SearchResult(search_result(recorded)).predict(
        num_workers=8, cpus=16, training_step=0.0
    )
    assert predicted.batch_s.value == pytest.approx(0.01, rel=0.1)
    with pytest.raises(
        ConfigurationError,
        match="no costs of batches were recorded, so nothing can be predicted",
    ):
        SearchResult(search_result(trial(2, 2.0))).predict()


def test_a_search_whose_only_candidates_others_ended_is_out_of_time() -> None:
    killed = failed_trial(0, "no batch within 57.0 s", TrialState.INTERRUPTED)
    with pytest.raises(
        OutOfTime, match=r"^nothing was measured: no batch within 57.0 s$"
    ):
        SearchResult(search_result(killed))
    skipped = failed_trial(0, "it needs 9.00 GB of memory", TrialState.SKIPPED)
    with pytest.raises(
        NwsSweepError,
        match=r"nothing could be measured: .* skipped: it needs 9.00 GB of memory",
    ):
        SearchResult(search_result(skipped))


def test_a_search_without_a_measured_candidate_raises() -> None:
    with pytest.raises(
        NwsSweepError,
        match="nothing could be measured: dataset=photos num_workers=0: failed: it broke",
    ):
        SearchResult(search_result(failed_trial(0)))


def test_an_interrupted_search_names_the_best_so_far() -> None:
    lines: list[str] = []
    progress.ProgressReporter(lines.append).interrupted(
        search_result(trial(0, 8.0), trial(2, 4.0), stop_reason="")
    )
    (line,) = lines
    assert line.startswith(
        "interrupted: num_workers=2 so far   1.2 to 3.3 times as fast as 0; not certain: the"
    )


def test_progress_is_written_to_the_requested_destination(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines: list[str] = []
    for destination in (lines.append, True, False, None):
        progress.printer_for(destination)("a line")
    assert lines == ["a line"]
    # from True; without a terminal None prints nothing
    assert capsys.readouterr().err == "nws_sweep: a line\n"


def test_tune_without_time_returns_the_loader_as_it_was_with_a_line() -> None:
    lines: list[str] = []
    for given in (
        DataLoader(slow(), num_workers=1),
        lambda: DataLoader(slow(), num_workers=1),
    ):
        tuned = nws_sweep.tune(
            given, time_limit_s=1e-3, reuse="never", progress=lines.append
        )
        assert (type(tuned), tuned.num_workers) == (DataLoader, 1)
        assert lines[-1] == (
            "nothing was measured: the time limit of 0.001 s was spent; set a larger one: "
            "the DataLoader is not changed"
        )
    with pytest.raises(
        NwsSweepError,
        match=r"^nothing was measured: the time limit of 0.001 s was spent; set a larger ",
    ):
        nws_sweep.search(slow(), time_limit_s=1e-3, reuse="never", progress=False)


@pytest.mark.usefixtures("no_leftovers")
def test_an_explanation_names_what_makes_a_sample_dear() -> None:
    loader = DataLoader(slow(400), batch_size=8)
    found = nws_sweep.explain(loader, num_workers=[1, 2], measure=QUICK, progress=False)
    dearest = found.stages[0]
    # since Python 3.12
    assert (
        dearest.name.startswith("tests.user_datasets.") or dearest.name == "time.sleep"
    )
    assert dearest.share > 0.8
    assert dearest.cpu_share < 0.5
    assert found.sample_s > 0.002
    assert sum(stage.share for stage in found.stages) == pytest.approx(1.0, abs=0.1)
    assert str(found).startswith(f"a cheaper {dearest.short_name} ")
    searched = nws_sweep.search(
        loader, num_workers=[1, 2], measure=QUICK, progress=False
    )
    assert searched.reused  # the stored answer has the stages too
    assert [stage.name for stage in nws_sweep.explain(searched).stages] == [
        stage.name for stage in found.stages
    ]
