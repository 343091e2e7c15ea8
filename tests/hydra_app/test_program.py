"""``+nws_sweep=autotune``, ``search`` and ``watch`` in another Hydra program."""

import atexit
import contextlib
import functools
import logging
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra.core import utils
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import HydraContext
from omegaconf import OmegaConf
from torch.utils.data import DataLoader

from nws_sweep import api
from nws_sweep.analysis.summary import summarise
from nws_sweep.config import hydra_versions
from nws_sweep.errors import NwsSweepError
from nws_sweep.hydra_app import composing, program
from nws_sweep.hydra_app.program import AutotuneCallback, SearchCallback, WatchCallback
from nws_sweep.records import ProjectFacts, storage
from nws_sweep.records.ranges import ONLINE_STRATEGY
from nws_sweep.report import formats
from tests.factories import FACTS, search_result, trial
from tests.hosts import run_host, write_host, write_training_host
from tests.user_datasets import Plain, validation_and_training

Job = Callable[..., JobReturn]
OTHER = "hydra.callbacks.nws_sweep.loader=2"  # the first one is that of the validation


def test_overrides_are_columns_unless_they_set_one_and_the_keys_of_the_settings_are_known() -> (
    None
):
    config = OmegaConf.create(
        {
            "data": {"batch_size": 64, "num_workers": 0},
            "lr": 0.5,
            "model": {"depth": 2},
            "other": {"batch_size": 7},
        }
    )
    measured = search_result(
        trial(2, 8.0), columns={"dataset": "Photos", "batch_size": 64}, facts=FACTS
    )
    overrides = ["data.batch_size=64", "other.batch_size=7", "++lr=0.5", "model=small"]
    record = program.of_program(measured, config, overrides)
    own = {"other.batch_size": 7, "lr": 0.5, "model": "small"}
    assert record.configuration.columns == {**measured.configuration.columns, **own}
    unclear = {"batch_size": ("data.batch_size", "other.batch_size")}
    project = ProjectFacts(keys={"num_workers": "data.num_workers"}, unclear=unclear)
    assert record.facts == replace(FACTS, project=project)
    assert program.of_program(replace(measured, facts=None), config, []).facts is None


@pytest.mark.parametrize("loader", [None, 2])
def test_the_keys_of_training_are_those_of_a_loader_that_was_not_chosen(
    tmp_path: Path, loader: int | None
) -> None:
    callback = SearchCallback(loader=loader)
    splits = {"num_workers": {"train": 4, "val": 2}}
    hydra = {"overrides": {"task": []}, "runtime": {"output_dir": str(tmp_path)}}
    callback._config = OmegaConf.create({"hydra": hydra, "data": splits})
    folder = callback.save(search_result(trial(2, 8.0)))
    assert folder is not None
    (found,) = summarise(storage.find(folder)).configurations
    assert found.project is not None
    assert found.project.keys == (
        {"num_workers": "data.num_workers.train"} if loader is None else {}
    )
    assert set(found.project.unclear) == (set() if loader is None else {"num_workers"})


def test_launchers_can_pickle_the_callbacks() -> None:
    for callback in (AutotuneCallback(), SearchCallback(loader=2), WatchCallback()):
        assert vars(pickle.loads(pickle.dumps(callback))) == vars(callback)


@pytest.mark.parametrize("rank", ["RANK", "LOCAL_RANK", "SLURM_PROCID"])
def test_an_axis_with_the_name_of_one_of_ours_names_a_folder_and_only_the_first_rank_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str
) -> None:
    callback = AutotuneCallback()
    callback._grid = tmp_path
    hydra = {
        "overrides": {"task": ["reuse=a", "+nws_sweep=autotune"]},
        "runtime": {"output_dir": ""},
    }
    callback._config = OmegaConf.create({"hydra": hydra})
    monkeypatch.setenv(rank, "1")
    callback.keep(search_result(trial(2, 8.0)))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.delenv(rank)
    assert callback.save(search_result(trial(2, 8.0))) == tmp_path / "reuse=a"


@pytest.fixture
def job(
    tmp_path: Path, searched: list[DataLoader[Any]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Job]:
    """Hydra runs a job with the callback, as in a program; nothing is reported."""
    monkeypatch.setattr(program, "report", lambda folder, prints: None)
    with initialize_config_dir(
        config_dir=str(write_host(tmp_path) / "conf"),
        job_name="train",
        **hydra_versions.BASE,
    ):
        config = compose(
            "config",
            overrides=[f"hydra.run.dir={tmp_path}/run"],
            return_hydra_config=True,
        )

        def run(
            program: Callable[[], Any],
            kind: type[Callback] = SearchCallback,
            **options: Any,
        ) -> JobReturn:
            callbacks = Callbacks()
            callbacks.callbacks.append(kind(**options))
            context = HydraContext(
                config_loader=GlobalHydra.instance().config_loader(),
                callbacks=callbacks,
            )
            return utils.run_job(
                lambda _: program(),
                config,
                "hydra.run.dir",
                None,
                context,
                configure_logging=False,
            )

        yield run
    assert "Exception" not in vars(utils)


def swallows() -> None:
    _, training = validation_and_training()
    for _ in range(2):
        with contextlib.suppress(BaseException):
            list(training)


def replaces() -> None:
    try:
        list(validation_and_training()[1])
    except BaseException as error:
        raise RuntimeError("of a framework") from error


@pytest.mark.parametrize(
    "program", [lambda: list(validation_and_training()[1]), swallows, replaces]
)
def test_the_job_ends_at_the_first_batch_of_training_or_when_the_program_has_caught_the_end(
    job: Job,
    searched: list[DataLoader[Any]],
    tmp_path: Path,
    program: Callable[[], Any],
) -> None:
    done = job(program)
    assert (done.status, done.return_value) == (JobStatus.COMPLETED, None)
    assert len(searched) == 1
    assert (
        storage.load(tmp_path / "run" / "nws_sweep").result.trials[1].num_workers == 2
    )


def test_a_program_without_a_training_is_told_its_option(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    done = job(lambda: list(validation_and_training()[0]))
    assert done.status is JobStatus.FAILED
    with pytest.raises(SystemExit, match="1"):
        _ = done.return_value
    assert caplog.messages[0].endswith(
        "; hydra.callbacks.nws_sweep.loader=1 searches it"
    )
    assert caplog.messages[1].startswith(
        "train ended without iterating over the DataLoader to search"
    )


def test_a_program_that_ends_without_an_error_of_hydra_ends_its_hook_once(
    job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Hydra calls on_job_end after an Exception, but not after KeyboardInterrupt or
    ``sys.exit``."""
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(
        atexit,
        "register",
        lambda call, *values: at_exit.append(functools.partial(call, *values)),
    )
    caplog.set_level(logging.INFO)
    with pytest.raises(SystemExit, match="3"):
        job(lambda: sys.exit(3), AutotuneCallback)
    job(lambda: None, AutotuneCallback)
    for end in at_exit:
        end()
    assert [line.partition(": ")[0] for line in caplog.messages] == [
        "train ended without iterating over a torch DataLoader in this process"
    ] * 2


def test_the_answer_of_autotune_has_the_keys_of_the_program(
    job: Job, tmp_path: Path
) -> None:
    """And leaves out the batch size, which the program has set itself."""
    training = DataLoader(Plain(64), batch_size=8, shuffle=True)
    assert (
        job(lambda: list(training), AutotuneCallback, reuse="never").status
        is JobStatus.COMPLETED
    )
    found = summarise(storage.find(tmp_path / "run" / "nws_sweep")).configurations[0]
    assert found.project == ProjectFacts(keys={"batch_size": "batch_size"})
    assert (formats.best_settings(found) or {}).keys() == {"num_workers"}


def test_a_program_that_composes_its_configuration_itself_is_told_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(
        atexit,
        "register",
        lambda call, *values: at_exit.append(functools.partial(call, *values)),
    )
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "train.py",
            "+nws_sweep=search",
            "hydra.callbacks.nws_sweep.patience=2",
            "lr=1",
        ],
    )
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    for name, value in (("_composed", set()), ("_is_called", False)):
        monkeypatch.setattr(composing, name, value)
    with initialize_config_dir(
        config_dir=str(write_host(tmp_path) / "conf"), **hydra_versions.BASE
    ):
        for option in ("search", "search", "base"):
            compose("config", overrides=[f"+nws_sweep={option}"])
    (end,) = at_exit
    end()
    line = capsys.readouterr().err
    assert line.startswith("nws_sweep: +nws_sweep=search had no effect: ")
    assert line.endswith("; start it by `nws-sweep search train.py lr=1`\n")
    composing.note_callback()  # of a program that composes within @hydra.main
    end()
    assert capsys.readouterr().err == ""


def test_a_failed_search_is_a_line(
    job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def search(*_: Any, **__: Any) -> None:
        raise NwsSweepError("no candidate\ncould be measured")

    monkeypatch.setattr(api, "search", search)
    done = job(swallows)
    assert done.status is JobStatus.FAILED
    with pytest.raises(SystemExit, match="1"):
        _ = done.return_value
    assert caplog.messages == ["the search failed: no candidate could be measured"]


def test_a_wrong_option_ends_the_program_before_it_begins(job: Job) -> None:
    with pytest.raises(SystemExit, match=r"^nws_sweep: loader=0: must be"):
        job(lambda: pytest.fail("the program has begun"), loader=0)


@pytest.mark.extended
def test_a_program_is_searched_and_its_multirun_reported(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    folder, option = (
        write_training_host(tmp_path),
        "hydra.callbacks.nws_sweep.num_workers=[0,1]",
    )
    alone = run_host(
        folder, environment, "+nws_sweep=search", option, "hydra.run.dir=run"
    )
    assert alone.returncode == 0, alone.stderr
    lines = [
        line
        for line in alone.stdout.splitlines()
        if not line.startswith(("[", "wrote"))
    ]
    assert lines[-2:] == ["left", "after main"]
    assert "seen" not in alone.stdout
    assert "caught" not in alone.stdout
    names = {path.name for path in (folder / "run" / "nws_sweep").iterdir()}
    assert {
        "timings.csv",
        "result.json",
        "best.yaml",
        "report.html",
        "time_vs_num_workers.png",
    } < names
    grid = ("-m", "loader.batch_size=4,8", "hydra.sweep.dir=sweep")
    many = run_host(folder, environment, *grid, "+nws_sweep=search", option)
    assert many.returncode == 0, many.stderr
    assert many.stdout.count("vs 0 workers") == 1
    found = folder / "sweep" / "nws_sweep"
    assert (found / "loader.batch_size=8" / "report.html").is_file()
    best = (found / "loader.batch_size=8" / "best.yaml").read_text("utf-8")
    assert "loader:\n  batch_size: 8\n  num_workers: " in best


@pytest.mark.extended
def test_an_unchanged_training_gets_workers_while_it_runs(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    folder = write_training_host(tmp_path)
    plain = run_host(folder, environment, "hydra.run.dir=run")
    tuned = run_host(
        folder,
        environment,
        "+nws_sweep=autotune",
        "loader.dataset.length=2000",
        "hydra.run.dir=run",
        OTHER,
    )
    assert (plain.returncode, tuned.returncode) == (0, 0), tuned.stderr
    printed = [line for line in tuned.stdout.splitlines() if "[nws_sweep." not in line]
    assert printed == plain.stdout.replace("119", "1999").splitlines()
    record = storage.load(folder / "run" / "nws_sweep").result
    assert record.configuration.search.strategy == ONLINE_STRATEGY
    assert record.verdict is not None
    # on a busy machine the change may be undone
    assert any(trial.num_workers for trial in record.trials)
    assert "num_workers: " in (folder / "run" / "nws_sweep" / storage.BEST).read_text(
        "utf-8"
    )
    assert "num_workers=" in (folder / "run" / "train.log").read_text("utf-8")


@pytest.mark.extended
def test_a_multirun_ends_with_a_report_though_a_job_has_failed(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """After a failed job Hydra 1.3 does not call the callback of the multirun's end."""
    folder = write_training_host(tmp_path)
    overrides = (
        "+nws_sweep=autotune",
        "loader.dataset.length=400",
        "loader.batch_size=4,8,16",
        "fails_with=8",
    )
    done = run_host(
        folder,
        environment,
        "-m",
        *overrides,
        "hydra.sweep.dir=sweep",
        "hydra.job.chdir=true",
    )
    assert done.returncode == 1
    assert done.stdout.count("vs 0 workers") == 1
    grid = folder / "sweep" / "nws_sweep"
    summary = summarise(storage.find(grid))
    assert [
        one.configuration.columns["batch_size"] for one in summary.configurations
    ] == [4, 16]
    names = {path.name for path in grid.iterdir()}
    assert {
        "fails_with=8,loader.batch_size=4,loader.dataset.length=400",
        "report.html",
        "best.yaml",
    } < names


@pytest.mark.extended
def test_a_training_is_watched(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = write_training_host(tmp_path)
    watched = run_host(folder, environment, "+nws_sweep=watch", "hydra.run.dir=run")
    assert watched.returncode == 0, watched.stderr
    assert "the loader limits training: " in (folder / "run" / "train.log").read_text(
        "utf-8"
    )
    assert not (folder / "run" / "nws_sweep").exists()
