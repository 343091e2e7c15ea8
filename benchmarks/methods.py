"""The methods that are compared, each played on this machine against the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import bare, child, leftovers, ours
from benchmarks.catalogue import PREFETCH_FACTOR, Workload
from benchmarks.heuristics import ABOUT, HEURISTICS
from benchmarks.outcomes import Outcome
from benchmarks.peers import NEED_WHOLE_EPOCHS, PEERS, Task
from benchmarks.script import Script, play
from nws_sweep.analysis import recommend
from nws_sweep.errors import one_line
from nws_sweep.records import SearchRecord, SearchRules, Trial, TrialState

ADAPTIVE, EXHAUSTIVE = "adaptive", "exhaustive"
_OURS: Mapping[str, SearchRules] = {
    ADAPTIVE: SearchRules(strategy=ADAPTIVE, candidates=tuple(range(33)), maximum_patience=3, reference=None),
    EXHAUSTIVE: SearchRules(strategy=EXHAUSTIVE, candidates=tuple(range(17)), reference=None),
}
METHODS = (*_OURS, *PEERS, *HEURISTICS)
_CRASHES = (TrialState.FAILED, TrialState.TIMEOUT, TrialState.OUT_OF_MEMORY)
_PATIENCE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What rules of thumb are about.

    Attributes:
        cpus: CPUs that this process may use.
        gpus: GPUs.
    """

    cpus: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Which method is played on what.

    Attributes:
        method: A name out of ``METHODS``.
        workload: What is loaded.
        repeat: From 1; it is the seed too.
        log_path: File that what arms print is appended to.
    """

    method: str
    workload: Workload
    repeat: int
    log_path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a method came to; the attributes are those of ``Outcome``."""

    pick: int | None
    fastest: int | None = None
    tied: tuple[int, ...] = ()
    tried: tuple[int, ...] = ()
    crashes: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)


def about(method: str) -> str:
    """One line what a method does."""
    if method in ABOUT:
        return f"{ABOUT[method]}; costs nothing"
    if method in PEERS:
        return one_line(PEERS[method].__doc__, limit=1000)
    rules = _OURS[method]
    return f"nws_sweep's, strategy {rules.strategy}, candidates {rules.candidates[0]} to {rules.candidates[-1]}."


def is_projected(method: str, workload: Workload) -> bool:
    """Whether the method is not played because it would take too long."""
    return workload.long and method in NEED_WHOLE_EPOCHS


def task_of(workload: Workload, cpus: int) -> Task:
    """What a peer is told."""
    return Task(cpus=cpus, batches=workload.batches, batch_size=workload.batch_size)


def recipe_of(workload: Workload, workers: int = 0, least_s: float = 0.0) -> bare.Recipe:
    """What a bare loop is told."""
    return bare.Recipe(
        dataset=workload.dataset,
        consumer=workload.consumer,
        batch_size=workload.batch_size,
        num_workers=workers,
        prefetch_factor=PREFETCH_FACTOR,
        least_s=least_s,
    )


def played(turn: Turn, machine: Machine, say: Callable[[str], None]) -> Outcome:
    """Plays a method; what goes wrong in it is a part of the outcome.

    Args:
        turn: Which, and on what.
        machine: What it is played on.
        say: Called with lines about its progress.
    """
    before = leftovers.family()
    began = time.perf_counter()
    try:
        answer = _answer(turn, machine, say)
    except Exception as error:  # anything: that is what is counted
        answer = Answer(pick=None, crashes=(one_line(f"{type(error).__name__}: {error}"),))
    cost_s = 0.0 if turn.method in HEURISTICS else time.perf_counter() - began
    return Outcome(
        workload=turn.workload.name,
        method=turn.method,
        repeat=turn.repeat,
        pick=answer.pick,
        fastest=answer.fastest,
        cost_s=cost_s,
        tied=answer.tied,
        tried=answer.tried,
        crashes=answer.crashes,
        left_behind=leftovers.ended(before),
        detail=answer.detail,
    )


def _answer(turn: Turn, machine: Machine, say: Callable[[str], None]) -> Answer:
    if turn.method in HEURISTICS:
        return Answer(pick=HEURISTICS[turn.method](machine.cpus, machine.gpus))
    if turn.method in PEERS:
        return _of_peer(turn, machine)
    return answer_of(ours.find(turn.workload, _OURS[turn.method], turn.repeat, turn.log_path, say))


def _of_peer(turn: Turn, machine: Machine) -> Answer:
    script = Script(peer=turn.method, recipe=recipe_of(turn.workload), task=task_of(turn.workload, machine.cpus))
    pick, probes = child.call(play, script, _PATIENCE_S)
    return Answer(
        pick=pick,
        tried=tuple(probe.workers for probe in probes),
        detail={"probes": [[probe.workers, probe.batches, probe.elapsed_s] for probe in probes]},
    )


def answer_of(result: SearchRecord) -> Answer:
    """What a search by nws_sweep says."""
    return Answer(
        pick=_pick(result),
        fastest=result.verdict.fastest.num_workers if result.verdict else None,
        tied=tuple(settings.num_workers for settings in result.verdict.tied) if result.verdict else (),
        tried=tuple(trial.num_workers for trial in result.trials),
        crashes=tuple(_told(trial) for trial in result.trials if trial.state in _CRASHES),
        detail={
            "stop_reason": result.stop_reason,
            "objective_s": [[trial.num_workers, trial.objective_s] for trial in result.trials],
            "not_ok": [_told(trial) for trial in result.trials if trial.state is not TrialState.OK],
            "cost": asdict(result.cost) if result.cost else None,
            "verdict": asdict(result.verdict) if result.verdict else None,
        },
    )


def _pick(result: SearchRecord) -> int | None:
    if result.verdict is not None:
        return result.verdict.recommended.num_workers
    best, _ = recommend(result.trials, result.configuration.search.tolerance)
    return best.num_workers if best else None


def _told(trial: Trial) -> str:
    return f"num_workers={trial.num_workers}: {trial.state.value}: {trial.reason}"
