"""Calls as someone types them who knows torch, optuna and pandas, but not this
project."""

import doctest
import os
import re
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import nws_sweep
from nws_sweep import cli
from nws_sweep.api import searching
from nws_sweep.config import python_notation
from nws_sweep.dataloading.inputs import DATALOADER_DEFAULTS, loader_input_of
from nws_sweep.errors import ConfigurationError
from nws_sweep.online import autotune
from nws_sweep.records import MeasureRules, storage
from nws_sweep.system import accelerator
from tests import user_datasets
from tests.factories import search_result, trial

pytestmark = pytest.mark.usefixtures("own_folders", "undrawn")
RESULT = nws_sweep.SearchResult(search_result(trial(0, 8.0)))
DATASET: Dataset[torch.Tensor] = user_datasets.Slow(120, seconds=0.005)


def test_names_of_dataloader_and_presets_are_accepted_and_a_result_is_a_folder_of_the_command_line_and_plain_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(reuse: bool) -> nws_sweep.SearchResult:
        return nws_sweep.search(
            DATASET, batch_size=10, in_order=False, num_workers=[0, 2], settings="prefetch_factor", measure="quick",
            reuse=reuse, progress=False,
        )  # fmt: skip

    result = ask(False)
    assert not result.record.configuration.loader.in_order
    assert result.record.configuration.measure == MeasureRules(
        precision=0.1, trial_limit_s=5.0
    )
    assert [result.reused, ask(True).reused] == [False, True]
    with pytest.raises(
        ConfigurationError,
        match="measure='fast': must be default, epoch, quick, rigorous, or Mea",
    ):
        nws_sweep.search(DATASET, measure="fast")
    assert result.best_params == result.loader_kwargs
    values = result.to_dict()
    assert (values["batch_size"], values["num_workers"]) == (10, result.num_workers)
    assert values["batch_s"] > 0
    assert all(
        value is None or isinstance(value, (bool, int, float, str))
        for value in values.values()
    )
    page = result.report(storage.new_folder("runs", "_mine"))
    assert "<html" in page.read_text("utf-8")
    assert cli.run(["best", "--format", "kwargs"]) == 0
    written = capsys.readouterr()
    assert f"num_workers={result.num_workers}" in written.out
    assert written.err.startswith(f"nws_sweep: {page.parent.relative_to(tmp_path)}\n")
    assert cli.run(["predict", str(result.save("elsewhere")), "--cpus", "8"]) == 0


def test_without_a_run_the_newest_one_is_missed_in_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["best"]) == 2
    assert (
        capsys.readouterr().err
        == "nws_sweep: outputs: no run or grid of nws_sweep; name its folder\n"
    )


def test_a_grid_in_python_has_the_folder_of_a_grid(tmp_path: Path) -> None:
    lines: list[str] = []
    grid = nws_sweep.sweep(
        DATASET, batch_size=[10, 20], drop_last=(True,), pin_memory=[False, True], num_workers=[0, 1], settings=[],
        measure=MeasureRules(window_s=0.02, trial_limit_s=0.5), progress=lines.append,
    )  # fmt: skip
    assert grid.folder.parent == tmp_path / "outputs" / "sweeps"
    names = {path.name for path in grid.folder.iterdir()}
    assert {
        "batch_size=10,drop_last=true,pin_memory=true",
        "report.html",
        "results.csv",
        "best.yaml",
    } < names
    assert len(list(grid.folder.glob("*=*/batch_times.png"))) == 4
    assert [one.record.configuration.loader.batch_size for one in grid.results] == [
        10,
        10,
        20,
        20,
    ]
    assert grid.to_frame()["batch_size"].tolist() == [10, 10, 20, 20]
    # without an accelerator pin_memory does nothing
    assert sum(line.startswith("measuring ") for line in lines) == 2
    assert grid.best_params["batch_size"] in (10, 20)
    assert len(DataLoader(DATASET, drop_last=True, **grid.loader_kwargs)) in (6, 12)
    assert str(grid).startswith("| batch_size | pin_memory    | num_workers ")
    assert str(grid.best).startswith("batch_size=")
    assert "| batch_size | " in str(grid)
    assert "search 4 of 4: batch_size=20,drop_last=true,pin_memory=true" in lines


def test_a_grid_is_checked_before_anything_is_measured_and_keeps_failures(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigurationError, match="prefetch_factor=0: must be"):
        nws_sweep.sweep(DATASET, prefetch_factor=[2, 0])
    with pytest.raises(TypeError, match="batch_siz"):
        nws_sweep.sweep(DATASET, batch_siz=[2, 4])
    broken: Any = user_datasets.Raises(64)
    keywords: dict[str, Any] = {
        "batch_size": [8],
        "num_workers": [0],
        "measure": "epoch",
        "progress": False,
    }
    for dataset, limit_s, reason in (
        (broken, None, "bad sample 40"),
        (DATASET, 1e-3, "the time limit of 0.001 s was spent"),
    ):
        grid = nws_sweep.sweep(
            dataset, folder=tmp_path / reason, time_limit_s=limit_s, **keywords
        )
        assert grid.results == ()
        assert reason in grid.failures[0]
        with pytest.raises(
            nws_sweep.NwsSweepError,
            match=f"no combination could be measured: .*{reason}",
        ):
            _ = grid.best


def test_points_of_a_grid_have_different_names_and_a_folder_of_their_own(
    tmp_path: Path,
) -> None:
    rules = [MeasureRules(mode="epoch"), MeasureRules(mode="epoch", epochs=2)]
    dataset = user_datasets.Plain()
    grid = nws_sweep.sweep(
        dataset,
        folder=tmp_path,
        batch_size=60,
        num_workers=[0],
        measure=rules,
        progress=False,
    )
    assert grid.to_frame()["measure"].tolist() == ["MeasureRules", "MeasureRules-2"]
    with pytest.raises(
        ConfigurationError,
        match=r"holds other results \(measure=MeasureRules\); choose another one",
    ):
        nws_sweep.sweep(
            dataset, folder=tmp_path, batch_size=[60], num_workers=[0], progress=False
        )


class Module:
    """What Lightning's LightningDataModule has."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        # as of an earlier training
        self.kept = [DataLoader(DATASET), DataLoader(DATASET)]

    def prepare_data(self) -> None:
        self.steps = [*self.steps, "prepared"]

    def setup(self, stage: str) -> None:
        self.steps = [*self.steps, stage]
        self.dataset = DATASET

    def train_dataloader(self) -> DataLoader[torch.Tensor]:
        return DataLoader(self.dataset, batch_size=10, shuffle=True)


def test_the_loader_of_a_data_module_is_searched() -> None:
    loader_input = loader_input_of(module := Module(), DATALOADER_DEFAULTS)
    assert (loader_input.name, loader_input.settings.batch_size) == ("Slow", 10)
    assert module.steps == []


@pytest.mark.usefixtures("answered")
def test_a_data_module_is_tuned() -> None:
    module = Module()
    tuned = nws_sweep.tune(module, num_workers=[0, 2], progress=False)
    assert (type(tuned), tuned.steps, module.steps) == (Module, [], [])
    assert (
        cast(Any, tuned).tuning.before.num_workers,
        cast(Any, tuned).tuning.after.num_workers,
    ) == (0, 2)
    tuned.prepare_data()
    tuned.setup("fit")
    made = cast(Any, tuned.train_dataloader())
    assert made.num_workers == made.tuning.after.num_workers == 2
    assert len(made) == 12


def test_a_watched_loader_says_what_the_training_waits_for() -> None:
    lines: list[str] = []
    watched = nws_sweep.watch(
        DataLoader(DATASET, batch_size=4, shuffle=True), progress=lines.append
    )
    assert [
        sorted(int(sample) for batch in watched for sample in batch) for _ in range(2)
    ] == [list(range(120))] * 2
    (line,) = lines
    first, *rows = line.split("\n  ")
    limit = "the loader limits training: "
    assert first.startswith(limit)
    assert re.search(r"   \(Slow, test_calls\.py:\d+\)$", first)
    assert any(re.match(r"next +num_workers=\d+ saves ", row) for row in rows)
    assert str(cast(Any, watched).tuning).splitlines()[1:] == rows
    assert watched.num_workers == 0


def test_a_program_that_ends_before_the_decision_gets_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    made = nws_sweep.autotune(
        DataLoader(DATASET, batch_size=4), reuse=False, progress=lines.append
    )
    next(iter(made))
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        autotune._end_recent()
    assert lines == []
    autotune._end_recent()
    (line,) = lines
    first, _, cost = line.partition("\n")
    ended = "not certain: training ended before more was timed"
    assert first.startswith(f"num_workers=0   {ended}   (Slow, test_calls.py:")
    assert cost == "  cost   tuned during 1 batch of training"
    assert cast(Any, made).tuning.is_provisional


@pytest.mark.usefixtures("answered")
def test_a_loader_that_tunes_itself_is_tuned_or_watched_as_it_was() -> None:
    plain = DataLoader(DATASET, batch_size=10)
    tuned = nws_sweep.tune(
        nws_sweep.autotune(plain), num_workers=[0, 2], progress=False
    )
    assert (
        type(tuned),
        tuned.num_workers,
        cast(Any, tuned).tuning.after.num_workers,
    ) == (DataLoader, 2, 2)
    watched = nws_sweep.watch(plain)
    assert [
        cast(Any, made)._options.watches
        for made in (watched, nws_sweep.autotune(watched))
    ] == [True, False]
    assert nws_sweep.watch(watched) is watched


def test_beside_an_accelerator_the_share_of_waiting_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a device that has no events
    monkeypatch.setattr(accelerator, "in_use", lambda: "meta")
    lines: list[str] = []
    assert (
        len(
            list(
                nws_sweep.watch(
                    DataLoader(DATASET, batch_size=4), progress=lines.append
                )
            )
        )
        == 30
    )
    first, why = lines[0].splitlines()
    assert first.startswith(
        "what limits training is unknown: so is the time of waiting"
    )
    assert why.startswith(
        "  why    the step may still run on meta when the next batch is"
    )
    assert re.search(r"; an epoch took [\d.]+ (ms|s) with num_workers=0$", why)


def test_an_error_has_a_single_frame_in_this_package() -> None:
    with pytest.raises(ConfigurationError) as failed:
        nws_sweep.search(DATASET, max_workers=-1)
    files = [Path(str(entry.path)).name for entry in failed.traceback]
    assert files == ["test_calls.py", "python_notation.py"]


def test_messages_name_settings_as_python_does() -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(python_notation.in_python)
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize(
    ("function", "keyword", "meant"),
    [
        ("search", "budget", "did you mean time_limit_s?"),
        ("search", "verbose", "did you mean progress?"),
        ("search", "batchsize", "did you mean batch_size?"),
        ("search", "workers", "did you mean num_workers?"),
        ("search", "xyzzy", "it has dataset, batch_size, "),
        ("tune", "time_limit", "did you mean time_limit_s?"),
        ("autotune", "verbose", "did you mean progress?"),
        ("watch", "verbose", "did you mean progress?"),
        ("sweep", "batch_sizes", "did you mean batch_size?"),
        ("explain", "n_jobs", "did you mean num_workers?"),
    ],
)
def test_an_argument_that_does_not_exist_is_an_error_with_what_was_meant(
    function: str, keyword: str, meant: str
) -> None:
    with pytest.raises(TypeError) as raised:
        getattr(nws_sweep, function)(DataLoader(DATASET), **{keyword: 1})
    error = f"{function}() has no argument {keyword}; {meant}"
    assert str(raised.value).startswith(error)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("find_num_workers", "did you mean search?"),
        ("benchmark", "did you mean search?"),
        ("xyzzy", "it has search, explain, "),
    ],
)
def test_a_name_that_the_package_lacks_is_an_error_with_what_was_meant(
    name: str, meant: str
) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(nws_sweep, name)
    error = f"module nws_sweep has no attribute {name}; {meant}"
    assert str(raised.value).startswith(error)
    assert raised.value.name == name  # else Python would add a suggestion
    assert not hasattr(nws_sweep, f"_{name}")


@pytest.mark.parametrize(
    ("dataset", "keywords", "line"),
    [
        ("/data/photos", {}, "'/data/photos': a path is not a dataset; a folder is ImageFolder(path, transform)"),
        (Path("photos"), {}, "'photos': a path is not a dataset"),
        (user_datasets.Slow, {}, "Slow: missing a required argument: 'length'; pass a dataset, as Slow(...)"),
        (DataLoader(DATASET), {"timeout": 30}, "sets it, and time_limit_s limits the search"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_an_error_with_what_to_type(
    dataset: Any, keywords: dict[str, Any], line: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        nws_sweep.search(dataset, **keywords)
    assert line in str(raised.value)


def test_the_timeout_of_a_dataloader_is_told_from_the_limit_of_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "_result", lambda *_: RESULT)
    note = "timeout=30 is DataLoader's, for a batch; time_limit_s limits the search"
    for limit_s, lines in ((None, [note]), (60, [])):
        printed: list[str] = []
        nws_sweep.search(
            DATASET, timeout=30, time_limit_s=limit_s, progress=printed.append
        )
        assert printed == lines
