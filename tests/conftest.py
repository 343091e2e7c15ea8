import contextlib
import gc
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra

from nws_sweep.config import hydra_versions, schema, search_options
from nws_sweep.records import MeasureRules, SearchRecord, storage
from nws_sweep.report.figures import Illustration
from nws_sweep.report.search_result import SearchResult
from nws_sweep.system import processes, temporary
from nws_sweep.system.fork_server import ForkedProcess
from tests import factories, one_process
from tests.one_process import SharedProcess
from tests.simulated import check_limits

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from nws_sweep.api.request import Request
    from nws_sweep.dataloading.inputs import LoaderInput

# the tests are of machines without an accelerator, or simulate one
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# The tests start many processes, each of which would compile torch's modules again
# without cached bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

ROOT = Path(__file__).resolve().parent.parent
# A sweep imports torch and torchvision, seconds each; far above what any of these
# commands takes on two busy cores.
COMMAND_TIMEOUT_S = 240

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_configure(config: pytest.Config) -> None:
    """Under ``nohup`` or as a job in the background, signals are ignored; tests and
    their programs need them."""
    if getattr(config.option, "numprocesses", None):
        return  # not where the tests run
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_collection_finish() -> None:
    """What is imported by now lives as long as the process: garbage collections need
    not look at it."""
    gc.collect()
    gc.freeze()


def lacking(what: str, script: str) -> None:
    """Fails where everything has to be tested, and skips elsewhere."""
    reason = f"{what} is missing; {script} installs it"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def becomes(
    condition: Callable[[], Any], within_s: float = 20.0, step_s: float = 0.01
) -> bool:
    """Whether the condition becomes true within this time, by default far more than a
    signal takes."""
    deadline = time.monotonic() + within_s
    while not (true := condition()) and time.monotonic() < deadline:
        time.sleep(step_s)
    return bool(true)


def rounds(few: int) -> int:
    """How often a test that draws at random does its work; scripts/soak asks for many
    times as much."""
    return few * int(os.environ.get("NWS_SWEEP_TEST_TIMES", "1"))


@pytest.fixture(scope="session")
def photos_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests, so that photos are made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def environment(tmp_path: Path, photos_cache: Path) -> dict[str, str]:
    """The environment of a user whose folders are the test's own."""
    own = {
        "NWS_SWEEP_CACHE_DIR": str(photos_cache),
        "NWS_SWEEP_LOCK_FILE": str(tmp_path / "lock"),
        "COLUMNS": "200",
    }
    return _plain_environment() | own


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder and those of nws_sweep are the test's own."""
    monkeypatch.setenv("NWS_SWEEP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NWS_SWEEP_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def possible_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row of any file that a test writes beats a physical limit."""
    save = storage.save

    def save_possible(folder: Path, result: SearchRecord) -> None:
        for trial in result.trials:
            check_limits(trial, math.inf)
        save(folder, result)

    monkeypatch.setattr(storage, "save", save_possible)


@pytest.fixture
def short_searches(
    own_folders: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few candidates and short measurements, with folders of the test's own."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(schema, "WITHOUT_LIMIT", (0, 1, 2))
    monkeypatch.setattr(
        search_options,
        "measure_rules",
        lambda _: MeasureRules(window_s=0.02, trial_limit_s=1.0),
    )


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are empty files: to draw them takes longer than anything else that most
    tests do."""
    monkeypatch.setattr(Illustration, "save", one_process.undrawn)


@pytest.fixture
def forked_workers() -> Iterator[None]:
    """Workers are forked, as before Python 3.14: what follows from that, and what must
    not wait for their start."""
    usual = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("fork", force=True)
    yield
    multiprocessing.set_start_method(usual, force=True)


@pytest.fixture
def composing() -> Iterator[ConfigLoader]:
    """Hydra composes configurations of conf/."""
    schema.register()
    with initialize_config_dir(config_dir=str(ROOT / "conf"), **hydra_versions.BASE):
        yield GlobalHydra.instance().config_loader()
    GlobalHydra.instance().clear()


def _plain_environment() -> dict[str, str]:
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("NWS_SWEEP", "HYDRA", "PYTEST"))
    }


def run_python(
    folder: Path, environment: Mapping[str, str], *words: str | Path
) -> "subprocess.CompletedProcess[str]":
    """Runs Python with the words of a command line."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False,
    )  # fmt: skip


@pytest.fixture
def nws(tmp_path: Path, environment: dict[str, str]) -> Command:
    """Runs ``python -m nws_sweep`` with the given arguments in the test's own
    folder."""
    own = environment | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    return partial(run_python, tmp_path, own, "-m", "nws_sweep")


@pytest.fixture(scope="session")
def shared_process() -> Iterator[SharedProcess]:
    """One process for many commands that need none of their own."""
    child = SharedProcess(_plain_environment() | {"PYTHONPATH": str(ROOT)})
    yield child
    child.close()


@pytest.fixture
def shared_nws(
    tmp_path: Path, environment: dict[str, str], shared_process: SharedProcess
) -> Command:
    """The same in the shared process, which has imported torch already; pictures are
    empty files."""

    def run(
        *arguments: str | Path, cwd: Path = tmp_path
    ) -> subprocess.CompletedProcess[str]:
        return shared_process.run(
            [str(argument) for argument in arguments], cwd, environment
        )

    return run


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> "list[DataLoader[Any]]":
    """The loaders that hooks have searched; nothing is measured."""
    from nws_sweep import api

    found: list[DataLoader[Any]] = []

    def search(loader: "DataLoader[Any]", **options: Any) -> SearchResult:
        found.append(loader)
        return SearchResult(
            factories.search_result(factories.trial(0, 8.0), factories.trial(2, 4.0))
        )

    monkeypatch.setattr(api, "search", search)
    return found


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of ``tune`` answers at once: the more workers the faster."""
    from nws_sweep.api import tuning
    from nws_sweep.api.loader_search import LoaderSearch

    def answer(make: "Callable[[], LoaderInput]", request: "Request") -> SearchResult:
        chosen = LoaderSearch(make(), request).configuration
        settings = [
            chosen.loader.with_workers(n) for n in request.options.search.candidates
        ]
        trials = (
            factories.trial(one.num_workers, 8.0 / (1 + one.num_workers), settings=one)
            for one in settings
        )
        return SearchResult(factories.search_result(*trials, configuration=chosen))

    monkeypatch.setattr(tuning, "search_for_all_ranks", answer)


@pytest.fixture
def no_leftovers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails if the test leaves a child of a trial process or a shared-memory segment
    behind.

    The children of a trial process are listed before it is killed: orphans have another
    parent afterwards.
    """
    family: list[psutil.Process] = []
    kill_family = processes.kill_family

    def noted(child: ForkedProcess | BaseProcess) -> list[int]:
        with contextlib.suppress(psutil.NoSuchProcess):  # dead already
            process = psutil.Process(child.pid)
            family.extend([process, *process.children(recursive=True)])
        return kill_family(child)

    monkeypatch.setattr(processes, "kill_family", noted)
    before = orphaned_segments()  # of others, killed ones say
    yield
    left = [child for child in family if processes.is_alive(child)]
    for child in left:
        child.kill()
    assert not left
    # of the programs of other tests, which may just be ending, nothing stays
    deadline = time.monotonic() + 10
    while orphaned_segments() - before:
        # as the next start does it for a program that was killed
        temporary.remove_stale()
        assert time.monotonic() < deadline, orphaned_segments()
        time.sleep(0.05)


def orphaned_segments() -> set[Path]:
    """Segments of processes that are gone; torch names them torch_<pid>_... Other tests
    may run beside this one."""
    # those of test_temporary end otherwise
    segments = Path("/dev/shm").glob("torch_[0-9]*_[0-9]*")
    return {
        path
        for path in segments
        if not psutil.pid_exists(int(path.name.split("_")[1])) and path.exists()
    }
