"""``+nws_sweep=search`` in another Hydra program."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra.core import utils
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import HydraContext
from torch.utils.data import DataLoader

from nws_sweep import api
from nws_sweep.config import hydra_versions
from nws_sweep.errors import NwsSweepError
from nws_sweep.hydra_app import program
from nws_sweep.hydra_app.program import SearchCallback
from nws_sweep.results import storage
from tests.hosts import run_host, write_host, write_training_host
from tests.user_datasets import Plain, validation_and_training

Job = Callable[..., JobReturn]


@pytest.fixture
def job(tmp_path: Path, searched: list[DataLoader[Any]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """Hydra runs a job with the callback, as in a program; nothing is reported."""
    monkeypatch.setattr(program, "report", lambda folder, prints: None)
    with initialize_config_dir(config_dir=str(write_host(tmp_path) / "conf"), job_name="train", **hydra_versions.BASE):
        config = compose("config", overrides=[f"hydra.run.dir={tmp_path}/run"], return_hydra_config=True)

        def run(program: Callable[[], Any], **options: Any) -> JobReturn:
            callbacks = Callbacks()
            callbacks.callbacks.append(SearchCallback(**options))
            context = HydraContext(config_loader=GlobalHydra.instance().config_loader(), callbacks=callbacks)
            return utils.run_job(lambda _: program(), config, "hydra.run.dir", None, context, configure_logging=False)

        yield run
    GlobalHydra.instance().clear()
    assert "Exception" not in vars(utils)


def test_the_job_ends_at_the_first_batch_of_training(job: Job, searched: list[DataLoader[Any]], tmp_path: Path) -> None:
    validation, training = validation_and_training()

    def program() -> str:
        list(validation)
        list(training)
        return "not reached"

    done = job(program)
    assert (done.status, done.return_value) == (JobStatus.COMPLETED, None)
    assert searched == [training]
    assert storage.load(tmp_path / "run" / "nws_sweep").result.trials[1].num_workers == 2


@pytest.mark.filterwarnings("ignore")  # of Lightning
def test_lightning_is_left_in_its_training_after_the_sanity_check(job: Job, searched: list[DataLoader[Any]]) -> None:
    """Lightning cleans up at any exception, which fails if its loader could not be iterated."""
    import lightning

    class Mean(lightning.LightningModule):
        automatic_optimization = False

        def training_step(self, batch: torch.Tensor) -> None:
            pytest.fail("a batch was given")

        def validation_step(self, batch: torch.Tensor) -> None:
            pass

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=0.5)

    validation, training = DataLoader(Plain(8)), DataLoader(Plain(8), shuffle=True)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    assert job(lambda: trainer.fit(Mean(), training, validation)).status is JobStatus.COMPLETED
    assert searched == [training]
    assert trainer.state.status == "interrupted"


def swallows() -> str:
    _, training = validation_and_training()
    with contextlib.suppress(BaseException):
        list(training)
    return "after the search"


def replaces() -> None:
    try:
        list(validation_and_training()[1])
    except BaseException as error:
        raise RuntimeError("of a framework") from error


@pytest.mark.parametrize("program", [swallows, replaces])
def test_a_program_may_catch_the_end(job: Job, searched: list[DataLoader[Any]], program: Callable[[], Any]) -> None:
    assert job(program).status is JobStatus.COMPLETED
    assert len(searched) == 1


def test_a_program_without_a_training_is_told_its_option(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert job(lambda: list(validation_and_training()[0])).status is JobStatus.COMPLETED
    assert caplog.messages[0].endswith("; hydra.callbacks.nws_sweep.loader=1 searches it")
    assert caplog.messages[1].startswith("train ended without iterating over the DataLoader to search")


def test_a_failed_search_is_a_line(job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
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
def test_a_program_is_searched_and_its_multirun_reported(tmp_path: Path, environment: dict[str, str]) -> None:
    folder, option = write_training_host(tmp_path), "hydra.callbacks.nws_sweep.num_workers=[0,1]"
    alone = run_host(folder, environment, "+nws_sweep=search", option, "hydra.run.dir=run")
    assert alone.returncode == 0, alone.stderr
    lines = [line for line in alone.stdout.splitlines() if not line.startswith(("[", "wrote"))]
    assert lines[-2:] == ["left", "after main"]
    assert "seen" not in alone.stdout
    assert "caught" not in alone.stdout
    names = {path.name for path in (folder / "run" / "nws_sweep").iterdir()}
    assert {"timings.csv", "result.json", "best.yaml", "report.html", "time_vs_num_workers.png"} < names
    grid = ("-m", "loader.batch_size=4,8", "hydra.sweep.dir=sweep")
    many = run_host(folder, environment, *grid, "+nws_sweep=search", option)
    assert many.returncode == 0, many.stderr
    assert many.stdout.count("Best settings") == 1
    found = folder / "sweep" / "nws_sweep"
    assert (found / "loader.batch_size=8" / "report.html").is_file()
    assert "loader:\n  batch_size: 8\n  num_workers: " in (found / "best" / "batch_size-8.yaml").read_text("utf-8")
