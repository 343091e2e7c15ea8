"""Searches, watches and tunes training on a CUDA device, and compares each with epochs
of bare loops."""

import functools
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

import nws_sweep
from benchmarks import support
from benchmarks.catalogue import CACHE
from benchmarks.results import Results, Table
from benchmarks.workloads import Jpeg, Latency
from nws_sweep import units
from nws_sweep.report.search_result import SearchResult

_CYCLES = 200_000_000  # of the device, to find out how many it does in a second
_COLUMNS = (
    "training", "recommended", "slower", "measured", "search", "waits: said", "waits: is", "pinned",
    "autotune: first epoch", "autotune: second epoch", "repeats",
)  # fmt: skip
_ABOUT = """\
Training on an accelerator with the default arguments: steps are queued, and no step waits for the device, as in most
training loops. The device of the first two training runs is kept busy for a known time (`torch.cuda._sleep`); the
others train torchvision's ResNet-18, the last one on batches of 38 MB. A bare loop iterates over a DataLoader, calls
the step and waits for the device at the end of the epoch.

- Search: *slower* is the epoch of the recommended settings / the shortest epoch, both of bare loops with three to five
  numbers of workers; *measured* is the epoch as the search has it / that of a bare loop.
- Watch: the share of its time for which the device *waits*, as said, and as it is (`-`: not known): 1 - its busy time /
  the time from the first quarter of the epoch to its end, which contains the end of the workers and the analysis.
- Page-locked memory: the epoch of a bare loop with `pin_memory=True` / without, at the recommended settings.
- Autotune: the first and the second epoch of a loader with `pin_memory=True` / that of a bare loop with it, at the
  recommended settings. Loaders that are watched or tuned begin with {starts} workers, in this order."""


class Busy:
    """Copies a batch to the device, and queues this many seconds of work."""

    cycles_per_s = 0.0

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, batch: Any) -> None:
        Busy.cycles_per_s = Busy.cycles_per_s or _cycles_per_s()
        _ = batch.to("cuda", non_blocking=True)
        torch.cuda._sleep(int(self.seconds * Busy.cycles_per_s))


def _cycles_per_s() -> float:
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(_CYCLES)
    began.record()
    torch.cuda._sleep(_CYCLES)
    ended.record()
    ended.synchronize()
    return float(_CYCLES / (began.elapsed_time(ended) * 1e-3))


class Train:
    """A training step of ResNet-18, on images and labels."""

    model: Any = None

    def __call__(self, batch: Any) -> None:
        if self.model is None:  # in each process that is measured
            import torchvision

            self.model = torchvision.models.resnet18().cuda()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        images, labels = (part.to("cuda", non_blocking=True) for part in batch)
        loss = torch.nn.functional.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class Images(Dataset[Any]):
    """Float32 images of 3 x 224 x 224 in memory, with labels."""

    def __init__(self, samples: int) -> None:
        self._images, self._samples = torch.randn(256, 3, 224, 224), samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._images[index % len(self._images)], index % 1000


@dataclass(frozen=True, kw_only=True)
class Training:
    """What is trained."""

    dataset: Callable[[int], Any]  # of this many samples
    step: Callable[[], Callable[[Any], None]]
    batch_size: int
    batches: int
    numbers: tuple[int, ...]  # num_workers of bare loops
    start: int  # num_workers that ``watch`` sees, and that ``autotune`` begins with
    step_s: float | None = None  # work of a step, if it is known


CASES: Mapping[str, Training] = {
    "5 ms a step, 2.5 ms of waiting to load a batch": Training(
        dataset=functools.partial(Latency, mean_s=0.0025 / 8), step=functools.partial(Busy, 0.005), step_s=0.005,
        batch_size=8, batches=600, numbers=(0, 1, 16), start=16,
    ),
    "5 ms a step, 20 ms of waiting to load a batch": Training(
        dataset=functools.partial(Latency, mean_s=0.020 / 8), step=functools.partial(Busy, 0.005), step_s=0.005,
        batch_size=8, batches=600, numbers=(2, 4, 5, 8), start=2,
    ),
    "ResNet-18, JPEG files, batch 64": Training(
        dataset=functools.partial(Jpeg, root=CACHE), step=Train, batch_size=64, batches=60, numbers=(8, 12, 16),
        start=8,
    ),
    "ResNet-18, tensors in memory, batch 64": Training(
        dataset=Images, step=Train, batch_size=64, batches=100, numbers=(1, 2, 4, 8), start=8,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One repeat of a training; epochs in s."""

    name: str
    picked: str
    slower: float
    measured: float
    search_s: float
    # share of waiting, as watch has it; None where the truth is not known
    said: float | None
    waits: float | None
    pinned: float
    tuned_first: float  # first epoch with page-locked memory / that of a bare loop
    tuned: float  # second epoch, likewise


def run(repeats: int, only: Sequence[str], output: Path, command: str) -> None:
    """Measures the cases ``repeats`` times, and writes the results after each; ``only``
    has their names, empty for all."""
    if not torch.cuda.is_available():
        raise ValueError("there is no CUDA device")
    findings: list[Finding] = []
    for number, name in itertools.product(range(1, repeats + 1), only or CASES):
        findings.append(finding := _measure(name, number))
        support.print_line(repr(finding))
        origin = support.origin(command, number, "repeat")
        device = torch.cuda.get_device_name()
        results_of(findings).write(output, f"{origin} Device: {device}.")


def _measure(name: str, seed: int) -> Finding:
    training = CASES[name]
    dataset, step = (
        training.dataset(training.batches * training.batch_size),
        training.step(),
    )
    open_loader = functools.partial(
        DataLoader, dataset, training.batch_size, shuffle=True
    )
    result = nws_sweep.search(
        dataset, batch_size=training.batch_size, shuffle=True, training_step=training.step(), reuse="never",
        progress=False,
    )  # fmt: skip
    best, settings = result.settings, result.loader_kwargs
    _epoch_s(itertools.islice(open_loader(), 3), step)  # the first steps take longer
    numbers = sorted({*training.numbers, best.num_workers})
    random.Random(seed).shuffle(numbers)
    bare_s = {
        n: _epoch_s(
            open_loader(**(settings if n == best.num_workers else {"num_workers": n})),
            step,
        )
        for n in numbers
    }
    shortest_s, best_s = min(bare_s.values()), bare_s[best.num_workers]
    pinned_s = _epoch_s(open_loader(**settings, pin_memory=True), step)
    said, waits = _watched(training, open_loader(num_workers=training.start), step)
    first_s, second_s = _tuned_s(
        open_loader(num_workers=training.start, pin_memory=True), step
    )
    return Finding(
        name=name, picked=f"{best.num_workers} x {best.prefetched}" if best.num_workers else "0",
        slower=best_s / shortest_s, measured=_price_s(result) / best_s, search_s=result.cost_s, said=said, waits=waits,
        pinned=pinned_s / best_s, tuned_first=first_s / pinned_s, tuned=second_s / pinned_s,
    )  # fmt: skip


def _price_s(result: SearchResult) -> float:
    return (
        next(
            trial.objective_s
            for trial in result.trials
            if trial.settings == result.settings
        )
        or 0.0
    )


def _epoch_s(loader: Iterable[Any], step: Callable[[Any], None]) -> float:
    began_s = time.perf_counter()
    for batch in loader:
        step(batch)
    torch.cuda.synchronize()
    return time.perf_counter() - began_s


def _watched(
    training: Training, loader: "DataLoader[Any]", step: Callable[[Any], None]
) -> tuple[Any, Any]:
    """The share of the time for which the device waits, as said and as it is; None
    where the truth is not known."""
    if training.step_s is None:
        return None, None
    watched: Any = nws_sweep.watch(loader, progress=False)
    batches = iter(watched)
    _epoch_s(itertools.islice(batches, training.batches // 4), step)
    later_s = _epoch_s(batches, step)
    said = watched.tuning.reason.partition("waits for data ")[2].partition(" %")[0]
    return float(said) / 100, max(
        0.0, 1 - training.batches * 3 / 4 * training.step_s / later_s
    )


def _tuned_s(
    loader: "DataLoader[Any]", step: Callable[[Any], None]
) -> tuple[float, float]:
    """The first two epochs, s."""
    tuned = nws_sweep.autotune(loader, reuse="never", progress=False)
    return _epoch_s(tuned, step), _epoch_s(tuned, step)


def results_of(findings: Sequence[Finding]) -> Results:
    """Medians, with the least and the largest of several repeats."""
    starts = ", ".join(str(training.start) for training in CASES.values())
    return Results(
        title="Training on an accelerator",
        headline=_summary(findings),
        about=_ABOUT.format(starts=starts),
        tables=[Table("runs", _COLUMNS, list(map(_row, _by_name(findings))))],
    )


def _by_name(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The repeats of each training."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.name, []).append(finding)
    return list(groups.values())


def _row(repeats: Sequence[Finding]) -> tuple[str, ...]:
    """Cells under ``_COLUMNS``."""
    said = [finding.said for finding in repeats if finding.said is not None]
    waits = [finding.waits for finding in repeats if finding.waits is not None]
    return (
        repeats[0].name,
        ", ".join(dict.fromkeys(finding.picked for finding in repeats)),
        _spread([finding.slower for finding in repeats]),
        _spread([finding.measured for finding in repeats]),
        units.seconds(statistics.median(finding.search_s for finding in repeats)),
        _median_share(said),
        _median_share(waits),
        _spread([finding.pinned for finding in repeats]),
        _spread([finding.tuned_first for finding in repeats]),
        _spread([finding.tuned for finding in repeats]),
        str(len(repeats)),
    )


def _median_share(shares: Sequence[float]) -> str:
    return units.share(statistics.median(shares)) if shares else units.NOTHING


def _summary(findings: Sequence[Finding]) -> str:
    """The largest ratios of the medians of the training runs."""
    slower, first, second = (
        max(
            statistics.median(getattr(finding, ratio) for finding in repeats)
            for repeats in _by_name(findings)
        )
        for ratio in ("slower", "tuned_first", "tuned")
    )
    return (
        f"With the recommended settings an epoch takes at most {slower:.2f} times the shortest one, with autotune the "
        f"first epoch at most {first:.2f} and the second at most {second:.2f} times that of the recommended settings "
        "(medians)."
    )


def _spread(values: Sequence[float]) -> str:
    ends = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
    return f"{statistics.median(values):.2f}{ends}"
