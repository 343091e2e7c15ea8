from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import filelock
import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import DataLoader

from nws_sweep.analysis.summary import summarise
from nws_sweep.errors import ConfigurationError
from nws_sweep.report import snippets
from nws_sweep.results import TrialState, storage
from nws_sweep.sweep import auto, resuming
from nws_sweep.sweep.auto import ProgramSweep, default_candidates, num_workers_key, project_facts
from nws_sweep.system import host, host_lock
from tests.conftest import COMMAND_TIMEOUT_S, ROOT
from tests.factories import search_result, store_run, trial
from tests.hosts import write_training_host

KEY = "loader.num_workers"


def test_default_candidates_double_up_to_twice_the_cpus() -> None:
    assert (default_candidates(1), default_candidates(6)) == ((0, 1, 2), (0, 1, 2, 4, 6, 8, 12))


MAPPING = {"data.num_workers": {"train": 4, "val": 2}, "data.num_workers.train": 4, "data.num_workers.val": 2}
TWO = {"a.num_workers": 4, "b.num_workers": 4}
NAME = "hydra.callbacks.nws_sweep"


@pytest.mark.parametrize(
    ("config", "swept", "wanted", "key"),
    [
        ({"args.dataloader_num_workers": 4}, [], None, "args.dataloader_num_workers"),
        ({"num_workers": 4, "data.num_workers": "${num_workers}"}, [], None, "num_workers"),
        (TWO, ["lr", "b.num_workers"], None, "b.num_workers"),
        ({"lr": 0.5}, ["loader.jobs"], "loader.jobs", "loader.jobs"),
        (MAPPING, [], None, "data.num_workers.train"),
        (MAPPING, [], "data.num_workers", "data.num_workers.train"),
        (MAPPING, [], "data.num_workers.val", "data.num_workers.val"),
    ],
)
def test_the_key_of_num_workers_is_found_by_its_name_or_named_by_the_user(
    config: dict[str, Any], swept: list[str], wanted: str | None, key: str
) -> None:
    assert num_workers_key(config, swept, wanted) == key


@pytest.mark.parametrize(
    ("config", "swept", "wanted", "line"),
    [
        ({"lr": 0.5}, [], None, f"the configuration has no key named .*: {NAME}.key=NAME"),
        (TWO, [], None, f"several keys of num_workers: a.num_workers, b.num_workers; .*: {NAME}.key=a.num_workers"),
        ({"a.num_workers": 4}, [], "x.y", f"^{NAME}.key=x.y: .* no such key; keys of num_workers: a.num_workers"),
        ({"num_workers": {"fit": 4, "val": 2}}, [], None, "^num_workers: holds a mapping of .*key=num_workers.fit"),
        (MAPPING, ["data.num_workers"], None, f"^data.num_workers: holds .*: {NAME}.key=data.num_workers.train"),
        ({"num_workers": [4, 2]}, [], None, f"^num_workers: holds a list, .*: {NAME}.key=num_workers.NAME"),
    ],
)
def test_an_ambiguous_key_is_rejected_in_one_line(
    config: dict[str, Any], swept: list[str], wanted: str | None, line: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{line}$"):
        num_workers_key(config, swept, wanted)


@pytest.mark.parametrize(
    ("key", "config", "swept", "keys"),
    [
        ("data.num_workers.train", {"data.batch_size": {"train": 8}, "data.batch_size.train": 8}, [],
            {"batch_size": "data.batch_size.train"}),
        ("num_workers", {"lr": 0.5}, ["lr", "bs.batch_size"], {"batch_size": "bs.batch_size"}),
        ("loader.jobs", {"loader.pin_memory": False}, [], {"pin_memory": "loader.pin_memory"}),
        ("a.dataloader_num_workers", {"a.dataloader_pin_memory": True}, [], {"pin_memory": "a.dataloader_pin_memory"}),
    ],
)  # fmt: skip
def test_settings_are_found_beside_the_key_or_on_an_axis(
    key: str, config: dict[str, Any], swept: list[str], keys: dict[str, str]
) -> None:
    assert project_facts(key, config, swept).keys == {**keys, "num_workers": key}


Composed = Callable[..., DictConfig]


@pytest.fixture
def multirun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Composed]:
    """Composes the argument of ``on_multirun_start``."""
    for name in ("RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NWS_SWEEP_LOCK_FILE", str(tmp_path / "lock"))
    with initialize_config_dir(version_base="1.3", config_dir=str(write_training_host(tmp_path) / "conf")):
        given = [f"hydra.sweep.dir={tmp_path}/sweep", "+nws_sweep=auto"]
        yield lambda *overrides: compose("config", overrides=[*given, *overrides], return_hydra_config=True)
    GlobalHydra.instance().clear()
    atexit.unregister(auto._report_at_exit)


def changeable(config: DictConfig) -> DictConfig:
    OmegaConf.set_readonly(config.hydra, False)
    return config


def started(config: DictConfig) -> ProgramSweep:
    callback = ProgramSweep(**{key: config.hydra.callbacks.nws_sweep[key] for key in ("key", "candidates")})
    callback.on_multirun_start(config)
    return callback


def task(config: DictConfig) -> list[str]:
    return list(config.hydra.overrides.task)


def test_the_axis_is_added_to_the_command_line(multirun: Composed) -> None:
    config = multirun("loader.batch_size=8")
    started(config)
    values = ",".join(map(str, default_candidates(host.usable_cpus())))
    assert task(config) == ["+nws_sweep=auto", "loader.batch_size=8", f"{KEY}={values}"]
    config = multirun(f"{NAME}.num_workers=[4,0]", f"{NAME}.key={KEY}", "+val.num_workers=1")
    started(config)
    assert task(config)[-1] == f"{KEY}=0,4"


@pytest.mark.parametrize(
    ("override", "candidates"),
    [
        (f"{KEY}=3,1", (1, 3)),
        (f"++{KEY}=range(0,3)", (0, 1, 2)),
        (f"{KEY}=interval(0,8)", ()),
        (None, (0, 8)),  # an axis in the program's files
    ],
)
def test_an_axis_of_the_command_line_is_kept(
    multirun: Composed, override: str | None, candidates: tuple[int, ...]
) -> None:
    config = changeable(multirun())
    if override:
        config.hydra.overrides.task.append(override)
    else:
        config.hydra.sweeper.params = {KEY: "0,8"}
    before = task(config)
    assert started(config)._candidates == candidates
    assert task(config) == before


def test_only_the_first_rank_writes_results(multirun: Composed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    config = multirun()
    callback = started(config)
    assert task(config)[-1].startswith(f"{KEY}=")
    assert callback._folder is None
    callback.on_job_start(config)
    assert callback._job is None
    callback.on_multirun_end(config)


def test_a_used_sweep_folder_and_a_wrong_command_line_end_the_program_with_one_line(
    multirun: Composed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "_GRACE_S", 0.0)
    first = started(multirun())
    where = "^nws_sweep: .*sweep/nws_sweep_results: "
    with pytest.raises(SystemExit, match=f"{where}another program is measuring into this folder"):
        started(multirun())
    del first
    store_run(Path(multirun().hydra.sweep.dir) / storage.PROGRAM_GRID, search_result(trial(0, 8.0)))
    with pytest.raises(SystemExit, match=f"{where}holds results of an earlier sweep"):
        started(multirun())
    with pytest.raises(SystemExit, match=f"^nws_sweep: {NAME}.key=x: the configuration has no such key"):
        started(multirun(f"{NAME}.key=x"))
    for candidates in ("[]", "[0,0]", "[-1]", "[1.5]", "['2']", "[true]", "4"):
        with pytest.raises(SystemExit, match=f"^nws_sweep: {NAME}.candidates=.*: allowed is"):
            started(multirun(f"{NAME}.candidates={candidates}"))
    with pytest.raises(SystemExit, match=r"^nws_sweep: \+nws_sweep=auto runs the program several times, .*-m"):
        ProgramSweep().on_run_start(multirun())


def job(
    multirun: Composed, callback: ProgramSweep, number: int, loader: DataLoader[Any] | None = None, **returned: Any
) -> None:
    """Runs a job that iterates a loader once, with a pickled callback as in a launcher's process."""
    override = f"{KEY}={number}"
    config = changeable(multirun("loader.batch_size=2", override))
    config.hydra.job.num = number
    sent = pickle.loads(pickle.dumps(callback))
    sent.on_job_start(config, task_function=None)
    if loader is not None:
        assert len(list(loader)) == len(loader)
    status = returned.pop("status", JobStatus.COMPLETED)
    result = JobReturn(overrides=["+nws_sweep=auto", "loader.batch_size=2", override], status=status, **returned)
    sent.on_job_end(config, job_return=result)


def sixteen() -> DataLoader[Any]:
    return DataLoader(list(range(16)), batch_size=2)  # type: ignore[arg-type]


def test_each_job_writes_its_trial_and_the_result_so_far(multirun: Composed, tmp_path: Path) -> None:
    callback = started(multirun("loader.batch_size=2", f"{NAME}.num_workers=[0,1,2,3]"))
    job(multirun, callback, 0, sixteen())
    folder = tmp_path / "sweep" / storage.PROGRAM_GRID / "loader.batch_size=2"
    (first,) = storage.find(folder).runs
    assert [trial.state for trial in first.result.trials] == [TrialState.OK]
    assert not first.result.complete
    job(multirun, callback, 1)
    job(multirun, callback, 2, sixteen())
    job(multirun, callback, 3, status=JobStatus.FAILED, _return_value=RuntimeError("out of\nluck"))
    result = storage.find(folder).runs[0].result
    assert [(trial.num_workers, trial.reason) for trial in result.trials] == [
        (0, ""),
        (1, "the program took no batch of any DataLoader"),
        (2, "set loader.num_workers=2, ran with num_workers=0: the value does not reach the DataLoader"),
        (3, "RuntimeError: out of luck"),
    ]
    assert result.complete
    assert dict(result.configuration.columns) == {"dataset": "list", "loader.batch_size": 2}
    assert (result.facts.samples, result.facts.type) == (16, "builtins.list") if result.facts else None
    assert sorted(path.name for path in (folder / "jobs").iterdir()) == ["0.json", "1.json", "2.json", "3.json"]


def test_a_job_holds_the_lock_of_the_machine_and_waits_for_others(
    multirun: Composed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = os.environ["NWS_SWEEP_LOCK_FILE"]
    config = changeable(multirun(f"{KEY}=0"))
    config.hydra.job.num = 0
    callback = started(config)
    with host_lock.held(lock, "another run"):
        waiting = threading.Thread(target=callback.on_job_start, args=(config,))
        waiting.start()
        while not (line := capsys.readouterr().err) and waiting.is_alive():
            waiting.join(0.05)
    waiting.join()
    assert line.startswith(f"nws_sweep: waiting for process {os.getpid()}")
    with pytest.raises(filelock.Timeout):
        filelock.FileLock(lock, timeout=0).acquire()
    assert os.environ["NWS_SWEEP_LOCK_FILE"] == ""  # a search inside the program does not wait
    with host_lock.held("", "a search of the program's own"):
        pass
    callback.on_job_end(config, job_return=JobReturn(overrides=[f"{KEY}=0"], status=JobStatus.COMPLETED))
    with host_lock.held(os.environ["NWS_SWEEP_LOCK_FILE"], "the next"):
        assert os.environ["NWS_SWEEP_LOCK_FILE"] == lock
    (run,) = storage.read_program_runs(tmp_path / "sweep" / storage.PROGRAM_GRID / "default")
    assert run.noise is not None


def test_after_two_equal_failures_the_other_runs_are_skipped_unless_keep_going_is_true(multirun: Composed) -> None:
    callback = started(multirun(f"{NAME}.num_workers=[0,1,2]"))
    for number in (0, 1):
        job(multirun, callback, number, status=JobStatus.FAILED, _return_value=RuntimeError("no luck"))
    with pytest.raises(SystemExit) as stopped:
        job(multirun, callback, 2)
    assert str(stopped.value) == (
        "nws_sweep: num_workers=0 and num_workers=1 failed for the same reason (RuntimeError: no luck); the other runs "
        f"are skipped; {NAME}.keep_going=true includes them"
    )
    callback._keep_going = True
    job(multirun, callback, 2)


@pytest.mark.slow
def test_a_program_that_fails_with_one_value_is_swept_and_reported(tmp_path: Path, environment: dict[str, str]) -> None:
    write_training_host(tmp_path)
    auto = ("-m", "+nws_sweep=auto", "hydra.sweep.dir=sweep", f"{NAME}.num_workers=[0,1,2]")
    done = subprocess.run(
        [sys.executable, "train.py", *auto, "fails_with=1", "loader.dataset.length=48"], cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "out of luck" in done.stderr
    assert done.stdout.count("seen 47") == 4
    assert done.stdout.count("Best settings") == 1
    assert "failed: dataset=Sleeping num_workers=1: failed: RuntimeError: out of luck" in done.stdout
    summary = summarise(storage.find(tmp_path / "sweep" / storage.PROGRAM_GRID))
    (found,) = summary.configurations
    assert found.best is not None
    assert (found.label, found.best.num_workers in (0, 2)) == ("dataset=Sleeping", True)
    assert f"++{KEY}={found.best.num_workers}" in snippets.render(summary, "overrides").text
    assert (tmp_path / "sweep" / storage.PROGRAM_GRID / "report.md").is_file()
    written = yaml.safe_load((tmp_path / "sweep" / "2" / ".hydra" / "config.yaml").read_text())
    assert written["loader"]["num_workers"] == 2
