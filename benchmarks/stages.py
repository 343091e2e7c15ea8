"""Explains datasets with a planted stage, and compares its share and the epoch without
it with bare loops."""

import functools
import os
import statistics
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision.transforms import v2

import nws_sweep
from benchmarks import support
from benchmarks.results import Results, Table
from nws_sweep import units
from nws_sweep.model.stages import COPY
from nws_sweep.report.explanation import Explanation

_BATCH_SIZE, _EPOCH_S = 8, 2.0  # of an epoch without workers and without the stage
_PAIRS = 3  # of bare epochs with the stage and without
_BYTES, _IMAGE = os.urandom(1 << 20), torch.rand(3, 160, 160)
_COLUMNS = (
    "stage", "share", "bare", "workers", "of the epoch", "bare of the epoch", "epoch without it", "measured",
)  # fmt: skip
_ABOUT = """\
Datasets in which one stage of known cost is added to 1 ms of Python code, explained with the default arguments, a row
for each repeat. *Share* is that of a sample's time in the worker, without the copy into shared memory, and *bare* the
same from a loop in one process with the stage and without. *Epoch without it* is the predicted epoch in which the
stage takes no time, and *measured* a bare loop over a DataLoader with the same num_workers and a dataset without the
stage. *Of the epoch* is that time / the time of the epoch with the stage: predicted / measured by the search, and of
bare loops with the stage and without in turn, the median of {rounds} pairs. The machine's speed, which changes
between a search and the loops after it, is not in these ratios.
"""


def spin(count: int) -> int:
    """A loop of Python code without calls."""
    value = 0
    for number in range(count):
        value = (value * 31 + number) % 1_000_003
    return value


def _step(value: int, number: int) -> int:
    return (value * 31 + number) % 1_000_003


def small_calls(count: int) -> int:
    """Many calls of a tiny function."""
    value = 0
    for number in range(count):
        value = _step(value, number)
    return value


def waiting(seconds: float) -> None:
    """Waits."""
    time.sleep(seconds)


def releasing(count: int) -> None:
    """Code of C that releases the GIL."""
    for _ in range(count):
        zlib.crc32(_BYTES)


def holding(count: int) -> int:
    """Code of C that holds the GIL."""
    return sum(sorted(range(count, 0, -1)))


def nested(count: int) -> int:
    """Own code, and a function that it calls."""
    value = 0
    for number in range(count):
        value = (value * 37 + number) % 1_000_003
    return value + spin(count)


def thirty_microseconds() -> int:
    """About 30 us."""
    value = 0
    for number in range(1_000):
        value += number
    return value


def repeated(count: int) -> None:
    """Calls of 30 us."""
    for _ in range(count):
        thirty_microseconds()


def slow_collate(samples: list[Any]) -> Any:
    """Collates, and computes as long as a planted stage."""
    spin(_BATCH_SIZE * 16_000)
    return default_collate(samples)


@dataclass(frozen=True)
class Stage:
    """A planted stage: what a sample calls, and the name that is expected to be
    found."""

    call: Callable[[], object]
    names: Sequence[str]


STAGES: Mapping[str, Stage] = {
    "waiting, 3 ms": Stage(functools.partial(waiting, 0.003), ("waiting", "sleep")),
    "waiting, 30 ms": Stage(functools.partial(waiting, 0.03), ("waiting", "sleep")),
    "Python code": Stage(functools.partial(spin, 40_000), ("spin",)),
    "small calls": Stage(functools.partial(small_calls, 20_000), ("small_calls",)),
    "C, without the GIL": Stage(
        functools.partial(releasing, 8), ("releasing", "crc32")
    ),
    "C, with the GIL": Stage(functools.partial(holding, 60_000), ("holding",)),
    "nested": Stage(functools.partial(nested, 20_000), ("nested",)),
    "30 us, 80 times": Stage(
        functools.partial(repeated, 80), ("thirty_microseconds", "repeated")
    ),
    "torchvision": Stage(
        functools.partial(v2.GaussianBlur(9), _IMAGE), ("GaussianBlur",)
    ),
    "collate": Stage(lambda: None, ("slow_collate", "spin")),
}


def beside() -> int:
    """What each sample does in addition."""
    value = 0
    for number in range(14_000):
        value = (value * 41 + number) % 1_000_003
    return value


class Planted(Dataset[Any]):
    """Samples with a planted stage; without it if there is no name."""

    def __init__(self, name: str, length: int) -> None:
        self.call = STAGES[name].call if name else None
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        beside()
        if self.call is not None:
            self.call()
        return torch.zeros(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One explanation of a case."""

    name: str
    share: float
    bare: float  # the same, of bare loops
    # predicted epoch, its low and high end
    without_s: tuple[float, float, float] | None
    measured_s: float
    left: float | None  # predicted epoch / epoch of the search
    bare_left: float  # the same, of bare loops
    workers: int

    @property
    def is_inside(self) -> bool:
        """Whether the measured epoch is within the predicted interval."""
        if self.without_s is None:
            return False
        _, low_s, high_s = self.without_s
        return low_s <= self.measured_s <= high_s


def run(repeats: int, only: Sequence[str], output: Path, command: str) -> None:
    """Explains the cases ``repeats`` times, and writes the results; ``only`` has their
    names, empty for all."""
    torch.set_num_threads(1)
    findings = []
    for _ in range(repeats):
        for name in only or STAGES:
            findings.append(finding := _explained(name))
            support.print_line(repr(finding))
    results = results_of(findings)
    results.write(output, support.origin(command, repeats, "repeat"))


def _explained(name: str) -> Finding:
    with_s, without_s = _batch_seconds(name)
    length = _BATCH_SIZE * max(24, int(_EPOCH_S / without_s))
    explanation = nws_sweep.explain(
        _loader(name, length, 0), reuse=False, progress=False
    )
    copied = sum(stage.share for stage in explanation.stages if stage.name == COPY)
    planted = _planted(explanation, STAGES[name].names)
    epoch = planted.epoch_without_s if planted else None
    pairs = [
        tuple(
            _epoch_s(stage_name, length, explanation.num_workers)
            for stage_name in (name, "")
        )
        for _ in range(_PAIRS)
    ]
    return Finding(
        name=name,
        share=(planted.share if planted else 0.0) / (1 - copied),
        bare=1 - without_s / with_s,
        without_s=(epoch.value, *epoch.ends) if epoch else None,
        measured_s=statistics.median(without_s for _, without_s in pairs),
        left=epoch.value / explanation.epoch_s
        if epoch and explanation.epoch_s
        else None,
        bare_left=statistics.median(without_s / with_s for with_s, without_s in pairs),
        workers=explanation.num_workers,
    )


def _planted(
    explanation: Explanation, names: Sequence[str]
) -> "nws_sweep.Stage | None":
    return next(
        (
            stage
            for name in names
            for stage in explanation.stages
            if stage.name.endswith(name)
        ),
        None,
    )


def _loader(name: str, length: int, num_workers: int) -> "DataLoader[Any]":
    collate_fn = slow_collate if name == "collate" else default_collate
    return DataLoader(
        Planted(name, length),
        _BATCH_SIZE,
        num_workers=num_workers,
        collate_fn=collate_fn,
    )


def _batch_seconds(name: str) -> tuple[float, float]:
    """Seconds of a batch in this process with the planted stage and without, in turn:
    medians."""
    times_s: dict[str, list[float]] = {name: [], "": []}
    loaders = {
        stage_name: _loader(stage_name, _BATCH_SIZE, 0) for stage_name in times_s
    }
    for _ in range(15):
        for stage_name, stage_times_s in times_s.items():
            began_s = time.perf_counter()
            for _ in loaders[stage_name]:
                pass
            stage_times_s.append(time.perf_counter() - began_s)
    return statistics.median(times_s[name]), statistics.median(times_s[""])


def _epoch_s(name: str, length: int, num_workers: int) -> float:
    """An epoch of a bare loop."""
    began_s = time.perf_counter()
    for _ in _loader(name, length, num_workers):
        pass
    return time.perf_counter() - began_s


def results_of(findings: Sequence[Finding]) -> Results:
    """Planted stages and their estimates."""
    predicted = [finding for finding in findings if finding.without_s]
    share_errors = [abs(finding.share - finding.bare) for finding in findings]
    epoch_errors = [
        abs(finding.without_s[0] / finding.measured_s - 1)
        for finding in predicted
        if finding.without_s
    ]
    ratio_errors = [
        abs(finding.left / finding.bare_left - 1)
        for finding in findings
        if finding.left
    ]
    inside = sum(finding.is_inside for finding in predicted)
    summary = [
        ("share of a sample", *_points(share_errors)),
        ("epoch without the stage / epoch", *_shares(ratio_errors)),
        ("epoch without the stage", *_shares(epoch_errors)),
    ]
    lines = [
        f"{what}: {median} in the median, {most} at most"
        for what, median, most in summary
    ]
    return Results(
        title="Stages of a sample: planted and estimated",
        headline=f"Differences from bare loops: {'; '.join(lines)}. {inside} of {len(predicted)} predicted epochs "
        "are within their 95 % interval.",
        about=_ABOUT.format(rounds=_PAIRS),
        tables=[
            Table("summary", ("figure", "median difference", "largest"), summary),
            Table("stages", _COLUMNS, list(map(_row, findings))),
        ],
    )


def _points(differences: Sequence[float]) -> tuple[str, str]:
    """The median and the largest difference of shares."""
    median, most = statistics.median(differences), max(differences)
    return f"{100 * median:.1f} points", f"{100 * most:.1f} points"


def _shares(errors: Sequence[float]) -> tuple[str, str]:
    return units.share(statistics.median(errors)), units.share(max(errors))


def _row(finding: Finding) -> tuple[str, ...]:
    """Cells under ``_COLUMNS``."""
    return (
        finding.name,
        units.share(finding.share),
        units.share(finding.bare),
        str(finding.workers),
        units.share(finding.left),
        units.share(finding.bare_left),
        units.seconds(finding.without_s[0] if finding.without_s else None),
        units.seconds(finding.measured_s),
    )
