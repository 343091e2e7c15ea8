"""The search methods that are compared, and timed runs of them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import bare, child, program, rivals, support
from benchmarks.catalogue import Workload
from benchmarks.epoch_times import PREFETCH_FACTOR
from benchmarks.journal import QUIET, Outcome
from benchmarks.peers import NEED_MUCH_OF_AN_EPOCH, NEED_WHOLE_EPOCHS, PEERS, Task
from nws_sweep.errors import one_line

ADAPTIVE, PLAIN, LIMITED, EXHAUSTIVE = "adaptive", "plain", "adaptive_32", "exhaustive"
# Arguments of nws_sweep.search.
_OWN: Mapping[str, Mapping[str, Any]] = {
    PLAIN: {},
    ADAPTIVE: {"prefetch_factor": PREFETCH_FACTOR},
    LIMITED: {"prefetch_factor": PREFETCH_FACTOR, "max_workers": 32},
    EXHAUSTIVE: {
        "prefetch_factor": PREFETCH_FACTOR,
        "max_workers": 16,
        "strategy": EXHAUSTIVE,
    },
}
# Rules of thumb, functions of the usable CPUs and the GPUs.
HEURISTICS: Mapping[str, tuple[str, Callable[[int, int], int]]] = {
    "zero": ("num_workers=0", lambda cpus, gpus: 0),
    "cpus": ("the CPU count", lambda cpus, gpus: cpus),
    "lightning": (
        "max(1, CPU count - 1), which Lightning advises",
        lambda cpus, gpus: max(1, cpus - 1),
    ),
    "cpus_to_8": ("min(CPU count, 8)", lambda cpus, gpus: min(cpus, 8)),
    "four_per_gpu": ("4 x max(1, GPUs)", lambda cpus, gpus: 4 * max(1, gpus)),
}
OTHER = " of "  # between the name of a method and that of another version
METHODS = (*_OWN, *PEERS, *rivals.RIVALS, *HEURISTICS)
_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The processors that rules of thumb need."""

    cpus: int  # usable by this process
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRun:
    """One run of a method."""

    method: str  # of ``METHODS``, or that of another version
    workload: Workload
    repeat: int  # from 1
    log_path: Path  # output of searches is appended to this file
    checkout: Path | None = None  # of another version
    beside: str = QUIET  # the neighbour, which the caller runs


def of_another_version(checkout: Path, methods: Sequence[str]) -> tuple[str, ...]:
    """The methods with default candidates, by the other version; ValueError if the
    folder has no nws_sweep."""
    if not (checkout / "nws_sweep" / "__init__.py").is_file():
        raise ValueError(
            f"--against {checkout}: must be a folder with nws_sweep/__init__.py"
        )
    compared = [name for name in (PLAIN, ADAPTIVE, LIMITED) if name in methods]
    return tuple(f"{name}{OTHER}{checkout.resolve().name}" for name in compared)


def about(method: str) -> str:
    """One line about a method."""
    if OTHER in method:
        own, _, version = method.partition(OTHER)
        return f"nws_sweep at {version}: {own}."
    if method in HEURISTICS:
        return f"{HEURISTICS[method][0]}; no cost"
    if method in rivals.RIVALS:
        return one_line(rivals.RIVALS[method].__doc__, limit=1000)
    if method in PEERS:
        missing = (
            " Run in the first repeat only." if method in NEED_WHOLE_EPOCHS else ""
        )
        missing += (
            " Not run on workloads with long epochs."
            if method in NEED_MUCH_OF_AN_EPOCH
            else ""
        )
        return one_line(PEERS[method].__doc__, limit=1000) + missing
    keywords = ", ".join(f"{name}={value!r}" for name, value in _OWN[method].items())
    searched = "default arguments, which search prefetch_factor and persistent_workers"
    return f"`nws_sweep.search` with {keywords or searched}."


def takes_too_long(method: str, workload: Workload, repeat: int) -> bool:
    """Whether the method is not run on the workload in this repeat."""
    return (workload.long and method in NEED_MUCH_OF_AN_EPOCH) or (
        repeat > 1 and method in NEED_WHOLE_EPOCHS
    )


def run_method(method_run: MethodRun, machine: Machine) -> Outcome:
    """Runs a method; its exceptions are part of the outcome."""
    is_free, before = method_run.method in HEURISTICS, support.descendants()
    began = time.perf_counter()
    with support.counting_processes() as counts:
        try:
            answer = _answer(method_run, machine)
        except Exception as error:  # counted as a crash
            answer = {
                "pick": None,
                "crashes": (one_line(f"{type(error).__name__}: {error}"),),
            }
    cost_s = 0.0 if is_free else time.perf_counter() - began
    return Outcome(
        workload=method_run.workload.name,
        method=method_run.method,
        repeat=method_run.repeat,
        most_processes=0 if is_free else max(counts) - min(counts),
        left_behind=support.kill_leftovers(before),
        beside=method_run.beside,
        **{"cost_s": cost_s, **answer},
    )


def _answer(method_run: MethodRun, machine: Machine) -> dict[str, Any]:
    workload, method = method_run.workload, method_run.method.partition(OTHER)[0]
    if method in HEURISTICS:
        return {"pick": HEURISTICS[method][1](machine.cpus, machine.gpus)}
    if method in _OWN:
        checkout = (
            {} if method_run.checkout is None else {"checkout": method_run.checkout}
        )
        return program.search(
            workload.name, _OWN[method], method_run.log_path, **checkout
        )
    recipe = bare.Recipe(workload=workload)
    if method in rivals.RIVALS:
        rivals.install()
        return child.call(rivals.run, (method, recipe), _TIMEOUT_S)
    task = Task(
        cpus=machine.cpus, batches=workload.batches, batch_size=workload.batch_size
    )
    pick, probes = child.call(bare.run_peer, (method, recipe, task), _TIMEOUT_S)
    return {
        "pick": pick,
        "tried": tuple(workers for workers, _, _ in probes),
        "detail": {"probes": probes},
    }
