"""Adaptive searches by another version of nws_sweep, each in a Python process that imports that version.

The other version must have the functions that ``sweep_search`` and ``methods`` call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import msgspec

import nws_sweep
from benchmarks import methods, support, sweep_search
from benchmarks.catalogue import SEARCH_WORKLOADS
from benchmarks.journal import Outcome

_PROGRAM = "import sys; from benchmarks.against import main; main(*sys.argv[1:])"


def method_of(checkout: Path) -> str:
    """The method's name, with that of the folder; ValueError if the folder has no nws_sweep."""
    if not (checkout / "nws_sweep" / "__init__.py").is_file():
        raise ValueError(f"--against {checkout}: allowed is a folder with nws_sweep/__init__.py")
    return f"{methods.OTHER}{checkout.resolve().name}"


def run_method(checkout: Path, method_run: methods.MethodRun) -> Outcome:
    """Runs the adaptive search of the version in ``checkout``; RuntimeError if its process fails."""
    paths = (str(checkout.absolute()), str(method_run.log_path.absolute()))
    command = [sys.executable, "-c", _PROGRAM, *paths, method_run.workload.name, str(method_run.repeat)]
    with tempfile.TemporaryDirectory() as folder:
        # The working folder comes first in sys.path, so it has these benchmarks and no nws_sweep.
        (Path(folder) / "benchmarks").symlink_to(Path(__file__).parent.absolute())
        environment = {**os.environ, "PYTHONPATH": paths[0]}
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the search by {checkout} exited with status {done.returncode}")
    return replace(msgspec.convert(json.loads(done.stdout), Outcome), method=method_run.method)


def main(checkout: str, log_path: str, workload: str, repeat: str) -> None:
    """Prints the outcome of a search with the imported version."""
    found = Path(nws_sweep.__file__).parent.parent
    if found != Path(checkout):
        raise ImportError(f"nws_sweep was imported from {found} instead of {checkout}")
    support.start_fork_server()
    sweep_search.warm_up(Path(log_path))
    method_run = methods.MethodRun(
        method=methods.ADAPTIVE,
        workload=next(one for one in SEARCH_WORKLOADS if one.name == workload),
        repeat=int(repeat),
        log_path=Path(log_path),
    )
    outcome = methods.run_method(method_run, methods.Machine(cpus=0, gpus=0), support.print_line)
    print(json.dumps(asdict(outcome)))
