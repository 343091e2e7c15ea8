"""The search methods that are compared, and timed runs of them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks import bare, child, support, sweep_search
from benchmarks.catalogue import Workload
from benchmarks.epoch_times import PREFETCH_FACTOR
from benchmarks.journal import Outcome
from benchmarks.peers import NEED_MUCH_OF_AN_EPOCH, NEED_WHOLE_EPOCHS, PEERS, Task
from nws_sweep.analysis.summary import best_of
from nws_sweep.config import schema
from nws_sweep.errors import one_line
from nws_sweep.results import SearchRecord, SearchRules, Trial, TrialState
from nws_sweep.system import host

ADAPTIVE, PLAIN, LIMITED, EXHAUSTIVE = "adaptive", "plain", "adaptive_32", "exhaustive"
# The default candidates of the version that runs: before 0.2 they had a limit.
_DEFAULT = tuple(range(host.most_workers() + 1)) if hasattr(host, "most_workers") else schema.WITHOUT_LIMIT

_REFERENCE = host.usable_cpus()  # measured for comparison, as with default arguments


def _limit(workers: int) -> dict[str, Any]:
    """The user's limit, in the versions whose rules have one."""
    return {"max_workers": workers} if "max_workers" in {each.name for each in fields(SearchRules)} else {}


_OWN: Mapping[str, SearchRules] = {
    ADAPTIVE: SearchRules(strategy=ADAPTIVE, candidates=_DEFAULT, reference=_REFERENCE),
    PLAIN: SearchRules(strategy=ADAPTIVE, candidates=_DEFAULT, reference=_REFERENCE, settings=None),
    LIMITED: SearchRules(strategy=ADAPTIVE, candidates=tuple(range(33)), reference=_REFERENCE, **_limit(32)),
    EXHAUSTIVE: SearchRules(strategy=EXHAUSTIVE, candidates=tuple(range(17)), reference=_REFERENCE),
}
# Rules of thumb, functions of the usable CPUs and the GPUs.
HEURISTICS: Mapping[str, tuple[str, Callable[[int, int], int]]] = {
    "zero": ("num_workers=0", lambda cpus, gpus: 0),
    "cpus": ("the CPU count", lambda cpus, gpus: cpus),
    "lightning": ("max(1, CPU count - 1), which Lightning advises", lambda cpus, gpus: max(1, cpus - 1)),
    "cpus_to_8": ("min(CPU count, 8)", lambda cpus, gpus: min(cpus, 8)),
    "four_per_gpu": ("4 x max(1, GPUs)", lambda cpus, gpus: 4 * max(1, gpus)),
}
OTHER = " of "  # between the name of a method and that of another version, see ``against``
METHODS = (*_OWN, *PEERS, *HEURISTICS)
_CRASHES = (TrialState.FAILED, TrialState.TIMEOUT, TrialState.OUT_OF_MEMORY, TrialState.INTERRUPTED)
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
    repeat: int  # from 1; also the seed
    log_path: Path  # output of trial processes is appended to this file


def about(method: str) -> str:
    """One line about a method."""
    if OTHER in method:
        own, _, version = method.partition(OTHER)
        return f"nws_sweep at {version}: {own}."
    if method in HEURISTICS:
        return f"{HEURISTICS[method][0]}; no cost"
    if method in PEERS:
        missing = " Run in the first repeat only." if method in NEED_WHOLE_EPOCHS else ""
        missing += " Not run on workloads with long epochs." if method in NEED_MUCH_OF_AN_EPOCH else ""
        return one_line(PEERS[method].__doc__, limit=1000) + missing
    rules = _OWN[method]
    limit = "with default arguments" if rules.candidates == _DEFAULT else f"max_workers={rules.candidates[-1]}"
    limit += ", which search prefetch_factor, too" if method == PLAIN else ""
    return f"nws_sweep, strategy {rules.strategy}, {limit}."


def takes_too_long(method: str, workload: Workload, repeat: int) -> bool:
    """Whether the method is not run on the workload in this repeat."""
    return (workload.long and method in NEED_MUCH_OF_AN_EPOCH) or (repeat > 1 and method in NEED_WHOLE_EPOCHS)


def run_method(method_run: MethodRun, machine: Machine, print_line: Callable[[str], None]) -> Outcome:
    """Runs a method; its exceptions are part of the outcome. ``print_line`` receives lines about its progress."""
    is_free, before = method_run.method in HEURISTICS, support.descendants()
    began = time.perf_counter()
    with support.counting_processes() as counts:
        try:
            answer = _answer(method_run, machine, print_line)
        except Exception as error:  # counted as a crash
            answer = {"pick": None, "crashes": (one_line(f"{type(error).__name__}: {error}"),)}
    return Outcome(
        workload=method_run.workload.name,
        method=method_run.method,
        repeat=method_run.repeat,
        cost_s=0.0 if is_free else time.perf_counter() - began,
        most_processes=0 if is_free else max(counts) - min(counts),
        left_behind=support.kill_leftovers(before),
        **answer,
    )


def _answer(method_run: MethodRun, machine: Machine, print_line: Callable[[str], None]) -> dict[str, Any]:
    if method_run.method in HEURISTICS:
        return {"pick": HEURISTICS[method_run.method][1](machine.cpus, machine.gpus)}
    if method_run.method in PEERS:
        workload = method_run.workload
        task = Task(cpus=machine.cpus, batches=workload.batches, batch_size=workload.batch_size)
        pick, probes = child.call(bare.run_peer, (method_run.method, bare.Recipe(workload=workload), task), _TIMEOUT_S)
        return {"pick": pick, "tried": tuple(workers for workers, _, _ in probes), "detail": {"probes": probes}}
    configuration = sweep_search.configuration_of(method_run.workload, _OWN[method_run.method], method_run.repeat)
    return answer_of(sweep_search.find(configuration, method_run.log_path, print_line))


def answer_of(result: SearchRecord) -> dict[str, Any]:
    """Attributes of the outcome of a search by nws_sweep."""
    best, found = best_of(result), result.verdict
    return {
        "pick": best.num_workers if best else None,
        "prefetch_factor": best.settings.prefetched if best else PREFETCH_FACTOR,
        "tied": tuple(settings.num_workers for settings in found.tied) if found else (),
        "tried": tuple(trial.num_workers for trial in result.trials),
        "crashes": tuple(_trial_line(trial) for trial in result.trials if trial.state in _CRASHES),
        "detail": {
            "stop_reason": result.stop_reason,
            "objective_s": [[trial.num_workers, trial.objective_s] for trial in result.trials],
            "not_ok": [_trial_line(trial) for trial in result.trials if trial.state is not TrialState.OK],
            "verdict": asdict(found) if found else None,
        },
    }


def _trial_line(trial: Trial) -> str:
    return f"num_workers={trial.num_workers}: {trial.state.value}: {trial.reason}"
