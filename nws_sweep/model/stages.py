"""What the stages of a sample cost a worker, from the batches whose calls were timed. Pure."""

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from nws_sweep.model.known import USUAL
from nws_sweep.records import BatchCost, BatchRecord, Estimate, StageKind, StageTime, Trial

COPY = "copy into shared memory"
_ENOUGH_BATCHES = 8  # whose calls were timed
_CONTAINER = 0.1  # of its time; an object with less code outside its inner stages is shown by these


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of the samples, and the epoch without it.

    Attributes:
        name: As a program writes it: ``torchvision.transforms.v2.Resize``.
        file: Of its code; empty if it has no Python code.
        line: First line of its code; 0 without.
        share: Of a sample's time in the worker, 0 to 1, with everything that it calls. The rest belongs to
            the dataset's own function, which calls the others.
        cpu_share: CPU time of all threads of the worker / the stage's time, at most 1. The rest is waiting.
        seconds: Per sample, in the worker.
        calls: Per sample.
        within: The stage that calls it.
        depth: 0 if a dataset or a transform calls it, 1 if such a stage does, and so on.
        spread: Standard error of ``share``.
        cpu: Share of the CPU time of making a batch.
        wait: Share of its waiting.
        copy: Share of the CPU time of its transfer.
        saved: Predicted share of the epoch that would be saved if it took no time; None if its share is small.
        workers_without: Workers that the epoch would need then; None likewise.
        epoch_without_s: Predicted seconds of this epoch, with the workers in use; None likewise, or if the length of an
            epoch is unknown.
    """

    name: str
    file: str = ""
    line: int = 0
    share: float = 0.0
    cpu_share: float = 0.0
    seconds: float = 0.0
    calls: float = 0.0
    within: str = ""
    depth: int = 0
    spread: float = 0.0
    cpu: float = 0.0
    wait: float = 0.0
    copy: float = 0.0
    saved: float | None = None
    workers_without: int | None = None
    epoch_without_s: Estimate | None = None

    @property
    def place(self) -> str:
        """The name of the file and the line, such as ``data.py:40``; empty without a file, as in a notebook."""
        return f"{PurePath(self.file).name}:{self.line}" if self.file and not self.file.startswith("<") else ""

    @property
    def label(self) -> str:
        """Its name in a table, behind the stage that calls it."""
        return f"- {self.name}" if self.depth else self.name

    def taken_from(self, cost: BatchCost) -> BatchCost:
        """A batch without this stage."""
        return cost.scaled([max(0.0, 1 - share) for share in (self.cpu, self.wait, self.copy)])


@dataclass(frozen=True)
class _Call:
    """The calls of a stage by another one while a batch was made: their own code, without what they call.

    Attributes:
        batch: Its place among the timed batches.
        stage: The stage.
        line: The stage, its caller, and so on up to the first stage.
        seconds: Of the thread that makes the batch, without what timing has cost.
        cpu_s: CPU time of all threads, likewise.
        wait_s: Waiting in which no thread computed.
    """

    batch: int
    stage: StageTime
    line: Sequence[StageTime]
    seconds: float
    cpu_s: float
    wait_s: float


def stage_costs(trials: Iterable[Trial], samples: int, num_workers: int) -> tuple[Stage, ...]:
    """The stages, the most expensive first; empty if no calls were timed.

    Args:
        trials: Of one configuration.
        samples: Of a batch.
        num_workers: Batches of trials with about this many workers count.
    """
    timed: list[BatchRecord] = []
    for trial in sorted(trials, key=lambda trial: abs(math.log2(max(1, trial.num_workers) / max(1, num_workers)))):
        if len(timed) < _ENOUGH_BATCHES:
            timed += _latest(trial)
    calls = [call for place, record in enumerate(timed) for call in _calls(place, record)]
    if not _seconds(calls):
        return ()
    stages = _costs(calls, timed[0].stages[0].name, samples * len(timed))
    return tuple(sorted(stages, key=lambda stage: -stage.share))


def _latest(trial: Trial) -> Iterator[BatchRecord]:
    """The latest timed batch of each worker: early ones have more of a worker's start."""
    timed = (record for record in trial.records if record.stages and not record.was_stopped)
    yield from {record.number % max(1, trial.num_workers): record for record in timed}.values()


def _calls(batch: int, record: BatchRecord) -> Iterator[_Call]:
    """The transfer of a batch, and its calls without those that a search adds, whose names are empty.

    While the thread that makes the batch waits, other threads compute, as in ``BatchCost``.
    """
    copy, copy_s = StageTime(name=COPY), record.cost.copy_s
    yield _Call(batch, copy, [copy], copy_s, copy_s, 0.0)
    for place, stage in enumerate(record.stages):
        line = [*_line_of(record.stages, place)]
        if not all(caller.name for caller in line):
            continue
        cpu_s, wait_s, all_cpu_s = _times(stage)
        for callee in record.stages:
            if callee.parent == place:
                inner_cpu_s, inner_wait_s, inner_all_cpu_s = _times(callee)
                cpu_s, wait_s, all_cpu_s = cpu_s - inner_cpu_s, wait_s - inner_wait_s, all_cpu_s - inner_all_cpu_s
        cpu_s, wait_s = max(0.0, cpu_s), max(0.0, wait_s)
        threads_s = max(0.0, all_cpu_s - cpu_s)
        yield _Call(batch, stage, line, cpu_s + wait_s, cpu_s + threads_s, max(0.0, wait_s - threads_s))


def _times(stage: StageTime) -> tuple[float, float, float]:
    """CPU time, waiting, and the CPU time of all threads, without what timing has cost; with what the stage calls."""
    return stage.cpu_s - stage.overhead_s, stage.wait_s, stage.all_cpu_s - stage.overhead_s


def _line_of(stages: Sequence[StageTime], place: int) -> Iterator[StageTime]:
    """The stage, its caller, and so on up to the whole batch."""
    while place >= 0:
        yield stages[place]
        place = stages[place].parent


def _costs(calls: Sequence[_Call], root: str, samples: int) -> Iterator[Stage]:
    """The cost of each stage with what it calls; of a dataset's own function, what its stages leave.

    Args:
        calls: Of all batches.
        root: Name of the first stage.
        samples: Of all batches.
    """
    first, inside = dict[Sequence[str], StageTime](), defaultdict[Sequence[str], list[_Call]](list)
    path_of = _paths(calls, root)
    for call in calls:
        path = path_of(call)
        if path[-1] == call.stage.name:
            first.setdefault(path, call.stage)
        for length in range(1, len(path) + 1):
            inside[path[:length]].append(call)
    for path, stage in first.items():
        cost = _cost(stage, inside[path], calls, samples)
        within = "" if stage.name in {root, COPY} else (root, *path)[-2]
        yield replace(cost, within=within, depth=len(path) - 1)


def _paths(calls: Sequence[_Call], root: str) -> Callable[[_Call], Sequence[str]]:
    """What gives the names of the stages around a call, the outermost first, and its own.

    A dataset's own functions are not among them, and objects that have several stages and hardly any code beside them:
    ``Compose``.
    """
    code_s, all_s = defaultdict[str, float](float), defaultdict[str, float](float)  # without and with what it calls
    kinds, inner = dict[str, StageKind](), defaultdict[str, set[str]](set)
    for call in calls:
        names = [stage.name for stage in call.line]
        code_s[call.stage.name] += call.seconds
        kinds[call.stage.name] = call.stage.kind
        for name in {*names}:
            all_s[name] += call.seconds
        for callee, caller in itertools.pairwise(names):
            inner[caller].add(callee)
    small = {name for name in kinds if code_s[name] < _CONTAINER * all_s[name]}
    datasets = {root, *(name for name, kind in kinds.items() if kind is StageKind.DATASET)}
    passed = datasets | {name for name in small if kinds[name] is StageKind.OBJECT and len(inner[name]) > 1}

    def path_of(call: _Call) -> Sequence[str]:
        path = [stage.name for stage in reversed(call.line) if stage.name not in passed]
        if call.stage.name in datasets - small:
            path.append(call.stage.name)
        return tuple(dict.fromkeys(path)) or (root,)

    return path_of


def nested(stages: Sequence[Stage]) -> Iterator[Stage]:
    """Each stage that a dataset or a transform calls, followed by what it calls itself; none that these call."""
    for stage in stages:
        if not stage.depth:
            yield stage
            yield from (inner for inner in stages if inner.depth == 1 and inner.within == stage.name)


def _cost(stage: StageTime, inside: Sequence[_Call], calls: Sequence[_Call], samples: int) -> Stage:
    """Adds up the calls of a stage and of what it calls; ``calls``, those of all stages, give its share."""
    seconds, cpu_s, is_copy = _seconds(inside), sum(call.cpu_s for call in inside), stage.name == COPY
    by_batch, all_by_batch = _by_batch(inside), _by_batch(calls)
    shares = [by_batch[batch] / batch_s for batch, batch_s in all_by_batch.items() if batch_s]
    share = seconds / _seconds(calls)
    making = [call for call in calls if call.stage.name != COPY]
    making_cpu_s, making_wait_s = sum(call.cpu_s for call in making), sum(call.wait_s for call in making)
    return Stage(
        name=stage.name,
        file=stage.file,
        line=stage.line,
        calls=sum(call.stage.calls for call in inside if call.stage.name == stage.name) / samples,
        seconds=seconds / samples,
        share=share,
        spread=statistics.stdev(shares) / math.sqrt(len(shares)) if len(shares) > 2 else USUAL * share,
        cpu_share=min(1.0, cpu_s / seconds) if seconds else 0.0,
        cpu=cpu_s / making_cpu_s if making_cpu_s and not is_copy else 0.0,
        wait=sum(call.wait_s for call in inside) / making_wait_s if making_wait_s else 0.0,
        copy=float(is_copy),
    )


def _by_batch(calls: Iterable[_Call]) -> Mapping[int, float]:
    seconds = defaultdict[int, float](float)
    for call in calls:
        seconds[call.batch] += call.seconds
    return seconds


def _seconds(calls: Iterable[_Call]) -> float:
    return sum(call.seconds for call in calls)
