"""Programs of others as they are published: their packages, in processes of their own.

``benchmarks.peers`` has methods of others rewritten with their faults mended; these are
not mended.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bare import Recipe, made
from benchmarks.epoch_times import PREFETCH_FACTOR

_ROOT = Path(__file__).parent.parent
FOLDER = _ROOT / ".venv" / "rivals"
# without what they need of torch, numpy, matplotlib, rich and psutil, which is there
_PACKAGES = (
    "loadtune==0.3.0",
    "dataloader-param-helper==0.1.1",
    "py-cpuinfo",
    "traceml-ai==0.5.0",
    "msgspec",
    "nvidia-ml-py",
)
_STEPS = 100  # of a measurement of loadtune, its default


def install() -> Path:
    """Installs the packages into a folder of the environment, once; returns the
    folder."""
    if not (FOLDER / "loadtune").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*command, "--target", str(FOLDER), *_PACKAGES], check=True)
    return FOLDER


def run(script: tuple[str, Recipe]) -> dict[str, Any]:
    """Runs a program of others on the dataset of a recipe; attributes of an
    ``Outcome``.

    Called by ``child.call`` in a fresh process.
    """
    name, recipe = script
    sys.path.append(str(FOLDER))
    return RIVALS[name](recipe)


def loadtune(recipe: Recipe) -> dict[str, Any]:
    """loadtune 0.3.0: `tune` in this process, 100 steps for each of at most 6 trials;
    its shuffled loader."""
    from loadtune import Workload, tune
    from torch import nn, optim, zeros

    dataset, training_step = made(recipe)

    def train_step(model: Any, optimizer: Any, batch: Any, device: Any) -> Any:
        training_step(batch)
        return zeros(())

    workload = Workload(
        name=recipe.workload.name,
        make_dataset=lambda: dataset,
        make_model=lambda: nn.Linear(1, 1),
        train_step=train_step,
        make_optimizer=lambda model: optim.SGD(model.parameters(), lr=0.1),
        default_batch_size=recipe.workload.batch_size,
    )
    result = tune(workload, steps=_STEPS, fast=True, verbose=False)
    best = result.best
    if best is None or best.throughput <= result.baseline.throughput:
        return {"pick": 0, "tried": (0, *(t.knobs.num_workers for t in result.trials))}
    return {
        "pick": best.knobs.num_workers,
        "prefetch_factor": best.knobs.prefetch_factor or PREFETCH_FACTOR,
        "persistent": best.knobs.persistent_workers,
        "tried": (0, *(trial.knobs.num_workers for trial in result.trials)),
        "detail": {"label": best.knobs.label(), "diagnosis": result.diagnosis},
    }


def param_helper(recipe: Recipe) -> dict[str, Any]:
    """dataloader-param-helper 0.1.1: `find_optimal_params` on the CPU."""
    import torch
    from dataloader_param_helper import find_optimal_params

    dataset, _ = made(recipe)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # it writes a file into the working folder
        found = find_optimal_params(
            dataset, torch.device("cpu"), recipe.workload.batch_size
        )
    return {
        "pick": int(found["num_workers"]),
        "prefetch_factor": int(found["prefetch_factor"]),
    }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What TraceML says of a program: its verdict in a word or two, such as
    INPUT-BOUND, and the reason with what to do next."""

    verdict: str
    advice: str


def traceml(program: str, limit_s: float) -> Diagnosis:
    """TraceML 0.5.0 on a program of ``benchmarks.programs``: `traceml run`, its steps
    marked."""
    script = _ROOT / "benchmarks" / "programs" / f"{program}.py"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "traceml_ai.launcher.cli", "run", str(script)]
        subprocess.run(
            [*command, "--args", "--traced"], cwd=folder, check=True,
            env=os.environ | {"PYTHONPATH": f"{_ROOT}{os.pathsep}{FOLDER}"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit_s,
        )  # fmt: skip
        (summary,) = Path(folder).glob("logs/*/final_summary.json")
        diagnosis = json.loads(summary.read_text("utf-8"))["primary_diagnosis"]
    advice = f"{diagnosis['summary']} {diagnosis['action']}"
    return Diagnosis(verdict=diagnosis["status"], advice=advice)


RIVALS: Mapping[str, Callable[[Recipe], dict[str, Any]]] = {
    "loadtune": loadtune,
    "param_helper": param_helper,
}
