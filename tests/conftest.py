from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent
# A sweep imports torch and torchvision, seconds each; far above what any of these commands takes on two busy cores.
COMMAND_TIMEOUT_S = 240

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def photos_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests, so that photos are made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def environment(tmp_path: Path, photos_cache: Path) -> dict[str, str]:
    """The environment of a user whose folders are the test's own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NWS_SWEEP", "HYDRA", "PYTEST"))}
    return kept | {"NWS_SWEEP_CACHE_DIR": str(photos_cache), "COLUMNS": "200"}


@pytest.fixture
def nws(tmp_path: Path, environment: dict[str, str]) -> Command:
    """Runs ``python -m nws_sweep`` with the given arguments in the test's own folder."""
    environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{tmp_path}"

    def run(*arguments: str | Path, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "nws_sweep", *map(str, arguments)],
            cwd=cwd, env=environment, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def no_leftovers() -> Iterator[None]:
    """Fails if the test leaves a process of an arm or a shared-memory segment behind."""
    yield
    left = [process for process in psutil.Process().children(recursive=True) if _is_arm(process)]
    assert not left
    assert not _orphaned_segments()


def _orphaned_segments() -> list[Path]:
    """Segments of processes that are gone; torch names them torch_<pid>_... Other tests may run beside this one."""
    segments = [path for path in Path("/dev/shm").glob("torch_*") if path.name.split("_")[1].isdigit()]
    return [path for path in segments if not psutil.pid_exists(int(path.name.split("_")[1])) and path.exists()]


def _is_arm(process: psutil.Process) -> bool:
    """Every process below this one but the fork server and the resource tracker, which live as long as pytest does."""
    try:
        command = " ".join(process.cmdline())
        served = process.parent()
        return "resource_tracker" not in command and served is not None and served.pid != os.getpid()
    except psutil.NoSuchProcess:
        return False
