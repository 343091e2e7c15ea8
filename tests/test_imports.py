"""Start-up is fast because heavy packages are imported at their first use; a wheel
contains every package."""

import os
import re
from pathlib import Path
from types import ModuleType

import pytest

import nws_sweep
from tests.conftest import ROOT, run_python

HEAVY = {"torch", "torchvision", "matplotlib", "pandas", "rich", "PIL"}


def imported(folder: Path, *arguments: str) -> set[str]:
    """Top-level packages that a command line imports, with an empty temporary
    folder."""
    environment = os.environ | {"TMPDIR": str(folder)}
    done = run_python(
        ROOT, environment, "-X", "importtime", "-m", "nws_sweep", *arguments
    )
    lines = [
        line for line in done.stderr.splitlines() if line.startswith("import time:")
    ]
    assert lines
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.mark.parametrize(
    ("arguments", "left_out"),
    [
        ("--help", HEAVY),
        ("batch_size=0", HEAVY),
        ("best --help", HEAVY),
        ("report /nowhere", {"torch", "torchvision"}),
    ],
)
def test_heavy_packages_are_imported_when_they_are_needed(
    tmp_path: Path, arguments: str, left_out: set[str]
) -> None:
    assert not imported(tmp_path, *arguments.split()) & left_out


def test_trial_processes_import_no_hydra_unless_a_recipe_needs_it() -> None:
    done = run_python(
        ROOT,
        os.environ,
        "-c",
        "import nws_sweep.trials.child, sys; print('hydra' in sys.modules)",
    )
    assert done.stdout.strip() == "False"


def test_the_plugin_imports_only_light_modules() -> None:
    program = (
        "import sys, hydra.main, hydra.core.plugins, hydra.core.config_search_path; before = set(sys.modules); "
        "import hydra_plugins.nws_sweep_plugin; print(*sorted(set(sys.modules) - before))"
    )
    done = run_python(ROOT, os.environ, "-c", program)
    ours = [
        "hydra_plugins", "hydra_plugins.nws_sweep_plugin", "nws_sweep", "nws_sweep.config",
        "nws_sweep.config.embedding", "nws_sweep.config.hydra_versions", "nws_sweep.errors",
    ]  # fmt: skip
    assert done.stdout.split() == ours


UNSAFE = re.compile(
    r"pickle\.loads?\b|marshal\.loads?\b|yaml\.(?:load|unsafe_load|full_load)\(|\bshelve\b|\b(?:eval|exec)\("
)


def test_files_of_results_are_never_executed() -> None:
    """Only objects that a program passes to its own trial processes are unpickled
    (pickling.py).

    The program of ``nws-sweep autotune train.py`` is executed (script.py).
    """
    found = {
        path.name
        for path in (ROOT / "nws_sweep").rglob("*.py")
        if UNSAFE.search(path.read_text("utf-8"))
    }
    assert found == {"pickling.py", "script.py"}


def test_a_wheel_contains_every_package() -> None:
    (listed,) = re.findall(
        r"^packages = \[(.*?)^\]",
        (ROOT / "pyproject.toml").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    folders = {
        path.parent.relative_to(ROOT)
        for top in ("nws_sweep", "hydra_plugins")
        for path in (ROOT / top).rglob("*.py")
    }
    names = {".".join(folder.parts) for folder in folders} | {
        "nws_sweep.conf",
        "hydra_plugins",
    }
    assert set(re.findall(r'"([\w.]+)"', listed)) == names


def test_the_package_lists_its_interface_without_submodules() -> None:
    assert dir(nws_sweep) == sorted(nws_sweep.__all__)
    for name in dir(nws_sweep):
        assert not isinstance(getattr(nws_sweep, name), ModuleType)
