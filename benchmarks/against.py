"""Adaptive searches by another version of nws_sweep, each in a Python process that imports that version.

The other version must have the functions that ``sweep_search`` and ``methods`` call.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import msgspec

from benchmarks import child, methods, support
from benchmarks.catalogue import SEARCH_WORKLOADS, chosen
from benchmarks.journal import Outcome

_PROGRAM = "import sys; from benchmarks.against import main; main(*sys.argv[1:])"


def methods_of(checkout: Path, own: Sequence[str]) -> tuple[str, ...]:
    """The adaptive ones of these methods, with the folder's name; ValueError if the folder has no nws_sweep."""
    if not (checkout / "nws_sweep" / "__init__.py").is_file():
        raise ValueError(f"--against {checkout}: must be a folder with nws_sweep/__init__.py")
    adaptive = [name for name in (methods.ADAPTIVE, methods.LIMITED) if name in own]
    return tuple(f"{name}{methods.OTHER}{checkout.resolve().name}" for name in adaptive)


def run_method(checkout: Path, method_run: methods.MethodRun) -> Outcome:
    """Runs the adaptive search of the version in ``checkout``; RuntimeError if its process fails."""
    own = method_run.method.partition(methods.OTHER)[0]
    given = (str(method_run.log_path.absolute()), own, method_run.workload.name, str(method_run.repeat))
    environment = {**os.environ, "PYTHONPATH": str(checkout.absolute())}
    with tempfile.TemporaryDirectory() as folder:
        # The working folder comes first in sys.path, so it has these benchmarks and no nws_sweep.
        (Path(folder) / "benchmarks").symlink_to(Path(__file__).parent.absolute())
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *given],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"the search by {checkout} exited with status {done.returncode}")
    return replace(msgspec.convert(json.loads(done.stdout), Outcome), method=method_run.method)


def main(log_path: str, method: str, workload: str, repeat: str) -> None:
    """Prints the outcome of a search with the imported version."""
    support.start_fork_server()
    child.call(os.nice, 0)  # returns when the fork server has imported its modules
    method_run = methods.MethodRun(
        method=method,
        workload=chosen(SEARCH_WORKLOADS, (workload,))[0],
        repeat=int(repeat),
        log_path=Path(log_path),
    )
    outcome = methods.run_method(method_run, methods.Machine(cpus=0, gpus=0), support.print_line)
    print(json.dumps(asdict(outcome)))
