"""What the stages of a sample cost a worker, from the batches whose calls were timed. Pure."""

import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from nws_sweep.results import BatchCost, BatchRecord, StageTime, Trial

COPY = "copy into shared memory"
_ENOUGH_BATCHES = 8  # whose calls were timed
_CONTAINER = 0.1  # of its time; a stage with less code outside its inner stages is shown by these
_SPREAD_OF_FEW = 0.1  # relative standard deviation, until three batches are known


@dataclass(frozen=True, kw_only=True)
class StageCost:
    """What one stage costs.

    Attributes:
        name: As a program writes it. Of the first stage, which makes the batch, it stands for the rest.
        file: Of the code; empty if it has no Python frame.
        line: First line of the code.
        share: Of a sample's time in the worker, from 0 to 1.
        cpu_share: CPU time of all threads of the worker, as a share of the stage's time.
        seconds: Per sample, of the worker.
        calls: Per sample.
        within: The stage that calls it.
        spread: Standard error of ``share``.
        cpu: Share of the CPU time of making a batch.
        wait: Share of its waiting.
        copy: Share of the CPU time of its transfer.
    """

    name: str
    file: str = ""
    line: int = 0
    share: float = 0.0
    cpu_share: float = 0.0
    seconds: float = 0.0
    calls: float = 0.0
    within: str = ""
    spread: float = 0.0
    cpu: float = 0.0
    wait: float = 0.0
    copy: float = 0.0

    def taken_from(self, cost: BatchCost) -> BatchCost:
        """A batch without this stage."""
        return cost.scaled([max(0.0, 1 - share) for share in (self.cpu, self.wait, self.copy)])


@dataclass(frozen=True)
class _Part:
    """What a stage takes of one batch, s: CPU time, waiting, and CPU time of all threads."""

    cpu_s: float = 0.0
    wait_s: float = 0.0
    all_cpu_s: float = 0.0

    def __add__(self, other: "_Part") -> "_Part":
        return _Part(self.cpu_s + other.cpu_s, self.wait_s + other.wait_s, self.all_cpu_s + other.all_cpu_s)

    @property
    def seconds(self) -> float:
        return self.cpu_s + self.wait_s


@dataclass(frozen=True)
class _Batch:
    """One batch by its stages: with what they call, and their own code alone."""

    whole: Mapping[str, _Part]
    own: Mapping[str, _Part]
    calls: Mapping[str, int]
    copy_s: float

    @property
    def made(self) -> _Part:
        return sum(self.own.values(), _Part())

    @property
    def seconds(self) -> float:
        return self.made.seconds + self.copy_s


def stage_costs(trials: Iterable[Trial], samples: int, num_workers: int) -> tuple[StageCost, ...]:
    """The stages, the most expensive first; empty if no calls were timed.

    Args:
        trials: Of one configuration.
        samples: Of a batch.
        num_workers: Batches of trials with about this many workers count.
    """
    near = sorted(trials, key=lambda trial: abs(math.log2(max(1, trial.num_workers) / max(1, num_workers))))
    timed: list[BatchRecord] = []
    for trial in near:
        if len(timed) < _ENOUGH_BATCHES:
            timed += _latest(trial)
    if not timed:
        return ()
    batches = [_batch(one) for one in timed]
    root, known = timed[0].stages[0].name, _callers(timed)
    containers = {name for name in known if name != root and _is_container(name, batches)}
    batches = [_without_containers(batch, root, containers) for batch in batches]
    costs = [
        replace(_cost(stage, batches, samples, is_rest=name == root), within=_caller(name, known, containers))
        for name, (stage, _) in known.items()
        if name not in containers
    ]
    return tuple(sorted([*costs, _copy(batches, samples)], key=lambda one: -one.share))


def _latest(trial: Trial) -> Iterator[BatchRecord]:
    """The latest timed batch of each worker: early ones have more of a worker's start."""
    timed = (one for one in trial.records if one.stages and not one.was_stopped)
    yield from {one.number % max(1, trial.num_workers): one for one in timed}.values()


def _batch(record: BatchRecord) -> _Batch:
    stages = record.stages
    own = _own_parts(stages)
    whole: dict[str, _Part] = {}
    alone: dict[str, _Part] = {}
    calls: dict[str, int] = {}
    for place, (stage, part) in enumerate(zip(stages, own, strict=True)):
        alone[stage.name] = alone.get(stage.name, _Part()) + part
        calls[stage.name] = calls.get(stage.name, 0) + stage.calls
        for name in {one.name for one in _line_of(stages, place)}:
            whole[name] = whole.get(name, _Part()) + part
    return _Batch(whole, alone, calls, record.cost.copy_s)


def _part(stage: StageTime) -> _Part:
    """A stage with what it calls, without what timing has cost."""
    return _Part(stage.cpu_s - stage.overhead_s, stage.wait_s, stage.all_cpu_s - stage.overhead_s)


def _own_parts(stages: Sequence[StageTime]) -> list[_Part]:
    """The parts of the stages without those of the stages that they call; none of what a search adds."""
    parts = [_part(one) for one in stages]
    left = [[part.cpu_s, part.wait_s, part.all_cpu_s] for part in parts]
    for stage, part in zip(stages, parts, strict=True):
        if stage.parent >= 0:
            caller = left[stage.parent]
            left[stage.parent] = [one - other for one, other in zip(caller, astuple(part), strict=True)]
    added = [any(not one.name for one in _line_of(stages, place)) for place in range(len(stages))]
    return [
        _Part() if is_added else _Part(*(max(0.0, value) for value in values))
        for values, is_added in zip(left, added, strict=True)
    ]


def _line_of(stages: Sequence[StageTime], place: int) -> Iterator[StageTime]:
    """The stage, its caller, and so on up to the whole batch."""
    while place >= 0:
        yield stages[place]
        place = stages[place].parent


def _callers(timed: Sequence[BatchRecord]) -> dict[str, tuple[StageTime, str]]:
    """Each stage by its name, with the name of its first caller."""
    found: dict[str, tuple[StageTime, str]] = {}
    for record in timed:
        for place, stage in enumerate(record.stages):
            line = [one.name for one in _line_of(record.stages, place)]
            if all(line):
                found.setdefault(stage.name, (stage, next((one for one in line if one != stage.name), "")))
    return found


def _caller(name: str, known: Mapping[str, tuple[StageTime, str]], containers: Collection[str]) -> str:
    """The nearest stage around this one that is shown."""
    name = known[name][1]
    while name in containers:
        name = known[name][1]
    return name


def _without_containers(batch: _Batch, root: str, containers: Collection[str]) -> _Batch:
    """The code of containers counts for the stage that makes the batch."""
    rest = sum((batch.own.get(name, _Part()) for name in (root, *containers)), _Part())
    own = {name: part for name, part in batch.own.items() if name not in containers}
    return replace(batch, own={**own, root: rest})


def _cost(stage: StageTime, batches: Sequence[_Batch], samples: int, *, is_rest: bool) -> StageCost:
    """``is_rest`` for the stage that makes the batch: what the others leave of it."""
    parts = [(batch.own if is_rest else batch.whole).get(stage.name, _Part()) for batch in batches]
    found, made = sum(parts, _Part()), sum((batch.made for batch in batches), _Part())
    shares = [part.seconds / batch.seconds for part, batch in zip(parts, batches, strict=True)]
    share = found.seconds / sum(batch.seconds for batch in batches)
    count = len(batches) * samples
    return StageCost(
        name=stage.name,
        file=stage.file,
        line=stage.line,
        calls=sum(batch.calls.get(stage.name, 0) for batch in batches) / count,
        seconds=found.seconds / count,
        share=share,
        spread=statistics.stdev(shares) / math.sqrt(len(shares)) if len(shares) > 2 else _SPREAD_OF_FEW * share,
        cpu_share=min(1.0, found.all_cpu_s / found.seconds) if found.seconds else 0.0,
        cpu=found.cpu_s / made.cpu_s if made.cpu_s else 0.0,
        wait=found.wait_s / made.wait_s if made.wait_s else 0.0,
    )


def _copy(batches: Sequence[_Batch], samples: int) -> StageCost:
    """The transfer of batches to the main process."""
    copied_s, seconds = sum(batch.copy_s for batch in batches), sum(batch.seconds for batch in batches)
    return StageCost(
        name=COPY, calls=1 / samples, seconds=copied_s / len(batches) / samples, share=copied_s / seconds,
        cpu_share=1.0, copy=1.0,
    )  # fmt: skip


def _is_container(name: str, batches: Sequence[_Batch]) -> bool:
    whole_s, own_s = (
        sum(found.get(name, _Part()).seconds for found in parts)
        for parts in ([batch.whole for batch in batches], [batch.own for batch in batches])
    )
    return own_s < _CONTAINER * whole_s
