import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import COMMAND_TIMEOUT_S, ROOT
from tests.hosts import write_host
from tests.roots import made_up

# One environment, changed step by step.
pytestmark = [
    pytest.mark.extended,
    pytest.mark.slow,
    pytest.mark.xdist_group("packaging"),
]

UV = Path(sys.executable).with_name("uv")


def attempt(
    command: Sequence[str | Path], cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command without the paths of this environment."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    return subprocess.run(
        command,
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )


def run(command: Sequence[str | Path], cwd: Path, **environment: str) -> str:
    """Standard output of a command that must succeed."""
    done = attempt(command, cwd, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files, since building writes into the checkout."""
    copy = tmp_path_factory.mktemp("source") / "nws_sweep"
    ignored = shutil.ignore_patterns(
        ".*", "outputs", "build", "dist", "__pycache__", "*.egg-info", "data", "local"
    )
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Iterator[Path]:
    """The interpreter of an environment with the installed wheel, in the versions of
    this environment."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    python = folder / "bin" / "python"
    frozen = run(
        [UV, "pip", "freeze", "--exclude-editable", "--python", sys.executable],
        checkout,
    )
    constraints = folder.with_name("constraints.txt")
    constraints.write_text(
        "".join(line + "\n" for line in frozen.splitlines() if "==" in line)
    )
    # The source distribution, and a wheel from it.
    run(
        [
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            "--outdir",
            folder.with_name("dist"),
        ],
        checkout,
    )
    (wheel,) = folder.with_name("dist").glob("*.whl")
    run([UV, "venv", "--quiet", "--seed", "--python", sys.executable, folder], checkout)
    run(
        [
            UV,
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            "--constraint",
            constraints,
            wheel,
        ],
        checkout,
    )
    yield python
    shutil.rmtree(folder)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Another Hydra program with its own batch_size and dataset."""
    return write_host(tmp_path / "a folder elsewhere")


@pytest.fixture
def without_plugin(tmp_path: Path) -> str:
    """A PYTHONPATH with which Hydra finds no plugin."""
    return str(made_up(tmp_path / "hidden", {"hydra_plugins/__init__.py": ""}))


def check(
    python: Path,
    host: Path,
    folder: Path,
    is_installed: bool = True,
    **environment: str,
) -> None:
    """Each command finds the configuration in the folder, and a host composes the group
    with an option."""
    assert "axis/batch_size: small, wide" in run(
        [python, "-m", "nws_sweep", "--help"], folder
    )
    if is_installed:
        assert "axis/batch_size: small, wide" in run(
            [python.with_name("nws-sweep"), "--help"], folder
        )
    chosen = [
        "+nws_sweep=base",
        "nws_sweep.strategy=exhaustive",
        "nws_sweep.patience=5",
    ]
    output = run([python, "train.py", *chosen], host, **environment)
    for line in ("batch_size: 32\n", "  strategy: exhaustive\n", "  patience: 5\n"):
        assert line in output


# In this order: the wheel is removed by the last one.


def test_a_wheel_runs_from_any_folder_and_in_hosts(python: Path, host: Path) -> None:
    assert "site-packages" in run(
        [python, "-c", "import nws_sweep; print(nws_sweep.__file__)"], host
    )
    check(python, host, host)


def test_a_wheel_searches_a_project_which_uses_the_result(
    python: Path, tmp_path: Path
) -> None:
    own_folders = {
        "NWS_SWEEP_CACHE_DIR": str(tmp_path),
        "NWS_SWEEP_LOCK_FILE": str(tmp_path / "lock"),
    }
    folder = tmp_path / "plain"
    shutil.copytree(ROOT / "tests" / "projects" / "plain", folder)
    options = [
        "hydra.callbacks.nws_sweep.num_workers=[2]",
        "+hydra.callbacks.nws_sweep.measure=quick",
    ]
    run(
        [python, "train.py", "+nws_sweep=search", *options, "hydra.run.dir=run"],
        folder,
        **own_folders,
    )
    assert (folder / "run" / "nws_sweep" / "report.html").is_file()
    answer = folder / "conf" / "best" / "mine.yaml"
    answer.parent.mkdir()
    best = ["best", "run/nws_sweep", "--format", "yaml"]
    answer.write_text(run([python, "-m", "nws_sweep", *best], folder, **own_folders))
    assert (
        run([python, "train.py", "+best@_global_=mine"], folder, **own_folders)
        == "batches 31 workers 2\n"
    )


@pytest.mark.parametrize("arguments", ["--cfg job", "-m batch_size=1,2", "dataset=c"])
def test_the_plugin_changes_no_output_of_others(
    python: Path, host: Path, without_plugin: str, arguments: str
) -> None:
    def plain(output: str) -> str:
        """Without times of log lines and the line of nws_sweep in the search path."""
        return re.sub(
            r"\[[\d-]+ [\d:,]+\]|\tprovider=nws_sweep, path=nws-sweep://nws_sweep.conf\n",
            "",
            output,
        )

    before = attempt(
        [python, "train.py", *arguments.split()], host, PYTHONPATH=without_plugin
    )
    after = attempt([python, "train.py", *arguments.split()], host)
    assert before.stdout or before.stderr
    assert before.returncode == after.returncode
    assert (plain(before.stdout), plain(before.stderr)) == (
        plain(after.stdout),
        plain(after.stderr),
    )


def test_an_uninstalled_checkout_runs_from_its_folder_and_in_hosts(
    python: Path, checkout: Path, host: Path
) -> None:
    run([UV, "pip", "uninstall", "--quiet", "--python", python, "nws-sweep"], checkout)
    check(python, host, checkout, is_installed=False, PYTHONPATH=str(checkout))
