"""What the stages of a sample cost a worker, from the batches whose calls were timed.
Pure."""

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import PurePath

from nws_sweep.model.known import USUAL
from nws_sweep.records import (
    BatchCost,
    BatchRecord,
    Estimate,
    StageKind,
    StageTime,
    Trial,
)

COPY = "copy into shared memory"
_ENOUGH_BATCHES = 8  # whose calls were timed
# of its time; an object with less code outside its inner stages is shown by these
_CONTAINER = 0.1


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of the samples, and the epoch without it.

    Attributes:
        name: As a program writes it: ``torchvision.transforms.v2.Resize``.
        file: Of its code; empty if it has no Python code.
        line: First line of its code; 0 without.
        share: Of a sample's time in the worker, 0 to 1, with everything that it calls.
            The rest belongs to the dataset's own function, which calls the others.
        cpu_share: CPU time of all threads of the worker / the stage's time, at most 1.
            The rest is waiting.
        seconds: Per sample, in the worker.
        calls: Per sample.
        within: The stage that calls it.
        depth: 0 if a dataset or a transform calls it, 1 if such a stage does, and so
            on.
        spread: Standard error of ``share``.
        cpu: Share of the CPU time of making a batch.
        wait: Share of its waiting.
        copy: Share of the CPU time of its transfer.
        saved: Predicted share of the epoch that would be saved if it took no time; None
            if its share is small.
        workers_without: Workers that the epoch would need then; None likewise.
        epoch_without_s: Predicted seconds of this epoch, with the workers in use; None
            likewise, or if the length of an epoch is unknown.
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
    def short_name(self) -> str:
        """The last two parts of the name, such as ``FakeData.__getitem__``."""
        return ".".join(self.name.split(".")[-2:])

    @property
    def place(self) -> str:
        """Names the file and the line, such as ``data.py:40``; empty without a file, as
        in a notebook."""
        return (
            f"{PurePath(self.file).name}:{self.line}"
            if self.file and not self.file.startswith("<")
            else ""
        )

    @property
    def label(self) -> str:
        """Its name in a table, behind the stage that calls it."""
        return f"- {self.name}" if self.depth else self.name

    def taken_from(self, cost: BatchCost) -> BatchCost:
        """Returns the costs of a batch without this stage."""
        return cost.scaled(
            [max(0.0, 1 - share) for share in (self.cpu, self.wait, self.copy)]
        )


@dataclass(frozen=True)
class _Call:
    """The calls of a stage by another one while a batch was made: their code alone,
    without what they call.

    Attributes:
        batch: Its place among the timed batches.
        stage: The stage.
        names: The names of the stage, its caller, and so on up to the first stage.
        seconds: Of the thread that makes the batch, without what timing has cost.
        cpu_s: CPU time of all threads, likewise.
        wait_s: Waiting in which no thread computed.
    """

    batch: int
    stage: StageTime
    names: Sequence[str]
    seconds: float
    cpu_s: float
    wait_s: float


def stage_costs(
    trials: Iterable[Trial], samples: int, num_workers: int
) -> tuple[Stage, ...]:
    """Computes what the stages cost, the most expensive first; empty if no calls were
    timed.

    Args:
        trials: Of one configuration.
        samples: Of a batch.
        num_workers: Batches of trials with about this many workers count; without
            workers no batch is copied.
    """

    def distance(trial: Trial) -> float:
        return abs(math.log2(max(1, trial.num_workers) / max(1, num_workers)))

    timed: list[BatchRecord] = []
    for trial in sorted(trials, key=distance):
        if len(timed) < _ENOUGH_BATCHES:
            timed += _latest(trial)
    calls: list[_Call] = []
    for batch, record in enumerate(timed):
        calls += _calls(batch, record)
    if not num_workers:
        calls = [call for call in calls if call.stage.name != COPY]
    if not _seconds(calls):
        return ()
    stages = _costs(calls, timed[0].stages[0].name, samples * len(timed))
    return tuple(sorted(stages, key=lambda stage: -stage.share))


def _latest(trial: Trial) -> Iterable[BatchRecord]:
    """Selects the latest timed batch of each worker: early batches have more of a
    worker's start."""
    latest: dict[int, BatchRecord] = {}
    for record in trial.records:
        if record.stages and not record.was_stopped:
            latest[record.number % max(1, trial.num_workers)] = record
    return latest.values()


def _calls(batch: int, record: BatchRecord) -> Iterator[_Call]:
    """Yields the transfer of a batch, and its calls without those that a search adds,
    whose names are empty.

    While the thread that makes the batch waits, other threads compute, as in
    ``BatchCost``.
    """
    copy_s = record.cost.copy_s
    yield _Call(batch, StageTime(name=COPY), [COPY], copy_s, copy_s, 0.0)
    for place, stage in enumerate(record.stages):
        names = _names(record.stages, place)
        if not all(names):
            continue
        cpu_s = stage.cpu_s - stage.overhead_s
        all_cpu_s = stage.all_cpu_s - stage.overhead_s
        wait_s = stage.wait_s
        for callee in record.stages:
            if callee.parent == place:
                cpu_s -= callee.cpu_s - callee.overhead_s
                all_cpu_s -= callee.all_cpu_s - callee.overhead_s
                wait_s -= callee.wait_s
        cpu_s = max(0.0, cpu_s)
        wait_s = max(0.0, wait_s)
        threads_s = max(0.0, all_cpu_s - cpu_s)
        yield _Call(
            batch,
            stage,
            names,
            cpu_s + wait_s,
            cpu_s + threads_s,
            max(0.0, wait_s - threads_s),
        )


def _names(stages: Sequence[StageTime], place: int) -> Sequence[str]:
    """Lists the names of a stage, its caller, and so on up to the whole batch."""
    names = []
    while place >= 0:
        names.append(stages[place].name)
        place = stages[place].parent
    return names


def _costs(calls: Sequence[_Call], root: str, samples: int) -> Iterator[Stage]:
    """Yields the cost of each stage with what it calls; of a dataset's own function,
    what its stages leave.

    Args:
        calls: Of all batches.
        root: Name of the first stage.
        samples: Of all batches.
    """
    datasets, passed = _not_shown(calls, root)
    first: dict[Sequence[str], StageTime] = {}
    # the calls of a stage and of what it calls, by its path
    inside = defaultdict[Sequence[str], list[_Call]](list)
    for call in calls:
        path = _path(call, datasets, passed) or (root,)
        if path[-1] == call.stage.name:
            first.setdefault(path, call.stage)
        for length in range(1, len(path) + 1):
            inside[path[:length]].append(call)
    for path, stage in first.items():
        cost = _cost(stage, inside[path], calls, samples)
        within = "" if stage.name in {root, COPY} else (root, *path)[-2]
        yield replace(cost, within=within, depth=len(path) - 1)


def _path(call: _Call, datasets: Set[str], passed: Set[str]) -> Sequence[str]:
    """Lists the names of the stages around a call, the outermost first, and its name,
    each once."""
    path = [name for name in reversed(call.names) if name not in passed]
    if call.stage.name in datasets:
        path.append(call.stage.name)
    return tuple(dict.fromkeys(path))


def _not_shown(calls: Sequence[_Call], root: str) -> tuple[Set[str], Set[str]]:
    """Names the functions of datasets with code beside their stages, and all stages
    that are on no path around others.

    Those are the functions of datasets, and objects that have several stages and hardly
    any code beside them: ``Compose``.
    """
    code_s = defaultdict[str, float](float)  # without what the stage calls
    all_s = defaultdict[str, float](float)  # with it
    kinds: dict[str, StageKind] = {}
    inner = defaultdict[str, set[str]](set)
    for call in calls:
        code_s[call.stage.name] += call.seconds
        kinds[call.stage.name] = call.stage.kind
        for name in set(call.names):
            all_s[name] += call.seconds
        for callee, caller in itertools.pairwise(call.names):
            inner[caller].add(callee)
    small = {name for name in kinds if code_s[name] < _CONTAINER * all_s[name]}
    datasets = {name for name, kind in kinds.items() if kind is StageKind.DATASET} | {
        root
    }
    containers = {
        name
        for name in small
        if kinds[name] is StageKind.OBJECT and len(inner[name]) > 1
    }
    return datasets - small, datasets | containers


def nested(stages: Sequence[Stage]) -> Iterator[Stage]:
    """Yields each stage that a dataset or a transform calls, then what this stage
    calls; nothing that those call."""
    for stage in stages:
        if not stage.depth:
            yield stage
            yield from (
                inner
                for inner in stages
                if inner.depth == 1 and inner.within == stage.name
            )


def _cost(
    stage: StageTime, inside: Sequence[_Call], calls: Sequence[_Call], samples: int
) -> Stage:
    """Adds up the calls of a stage and of what it calls; ``calls``, those of all
    stages, give its share."""
    seconds = _seconds(inside)
    share = seconds / _seconds(calls)
    cpu_s = sum(call.cpu_s for call in inside)
    wait_s = sum(call.wait_s for call in inside)
    making = [call for call in calls if call.stage.name != COPY]
    making_cpu_s = sum(call.cpu_s for call in making)
    making_wait_s = sum(call.wait_s for call in making)
    is_copy = stage.name == COPY
    return Stage(
        name=stage.name,
        file=stage.file,
        line=stage.line,
        calls=sum(call.stage.calls for call in inside if call.stage.name == stage.name)
        / samples,
        seconds=seconds / samples,
        share=share,
        spread=_spread(inside, calls, share),
        cpu_share=min(1.0, cpu_s / seconds) if seconds else 0.0,
        cpu=cpu_s / making_cpu_s if making_cpu_s and not is_copy else 0.0,
        wait=wait_s / making_wait_s if making_wait_s else 0.0,
        copy=float(is_copy),
    )


def _spread(inside: Iterable[_Call], calls: Iterable[_Call], share: float) -> float:
    """Computes the standard error of a share from the shares of the batches; of one or
    two batches, the usual one."""
    by_batch = _by_batch(inside)
    shares = [
        by_batch[batch] / batch_s
        for batch, batch_s in _by_batch(calls).items()
        if batch_s
    ]
    return (
        statistics.stdev(shares) / math.sqrt(len(shares))
        if len(shares) > 2
        else USUAL * share
    )


def _by_batch(calls: Iterable[_Call]) -> Mapping[int, float]:
    seconds = defaultdict[int, float](float)
    for call in calls:
        seconds[call.batch] += call.seconds
    return seconds


def _seconds(calls: Iterable[_Call]) -> float:
    return sum(call.seconds for call in calls)
