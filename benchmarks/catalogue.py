"""The workloads, with epochs long enough to be timed and short enough to be
repeated."""

from __future__ import annotations

import functools
import importlib
import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What a sample costs at least, s; 0 where nothing is known."""

    wait_s: float = 0.0  # mean wait in the process that makes the sample
    cpu_s: float = 0.0  # CPU time of all threads there
    sampler_s: float = 0.0  # of the sampler for an index, in the main process
    # standard deviation of the cost of a sample / its mean, if samples come in random
    # order
    spread: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A dataset with its batch size and training step."""

    name: str
    about: str  # what makes it slow
    # class of the dataset in ``benchmarks.workloads``, with ``samples`` as first
    # argument
    target: str
    batch_size: int
    batches: int  # per epoch
    # of the dataset, besides ``samples``
    arguments: Mapping[str, Any] = field(default_factory=dict)
    step_s: float = 0.0  # sleep of the training step for each batch
    # per epoch, if the last batch is shorter than the others
    samples: int | None = None
    shuffle: bool = True
    most_workers: int = 32  # the largest number that the oracle tries besides the picks
    least_workers: int = 0  # the smallest number whose epochs are predicted
    # whether an epoch is too long for methods that need whole epochs
    long: bool = False
    period: int = 1  # batches after which costs in a fixed order repeat
    planted: Planted = Planted()

    @property
    def dataset(self) -> dict[str, Any]:
        """The dataset, a node for Hydra's ``instantiate``."""
        samples = self.samples or self.batches * self.batch_size
        return {
            "_target_": f"benchmarks.workloads.{self.target}",
            "samples": samples,
            **self.arguments,
        }

    @property
    def training_step(self) -> dict[str, Any]:
        """The training step, a node for Hydra's ``instantiate``."""
        if not self.step_s:
            return {"_target_": "nws_sweep.dataloading.training_steps.Nothing"}
        return {
            "_target_": "nws_sweep.dataloading.training_steps.Sleep",
            "seconds_per_batch": self.step_s,
        }

    @property
    def line(self) -> str:
        """The line of a list."""
        return f"- {self.name}: {self.about}, {self.batches} batches an epoch"

    def make_dataset(self) -> Any:
        """Makes the dataset in this process."""
        module = importlib.import_module("benchmarks.workloads")
        samples = self.samples or self.batches * self.batch_size
        return getattr(module, self.target)(samples, **self.arguments)

    def make_training_step(self) -> Callable[[Any], None]:
        """Makes the training step of a bare loop: a sleep."""
        return functools.partial(_sleep, self.step_s)

    def loader_keywords(self) -> dict[str, Any]:
        """Keywords of the DataLoader, those of num_workers left out."""
        if not self.planted.sampler_s:
            return {"batch_size": self.batch_size, "shuffle": self.shuffle}
        module = importlib.import_module("benchmarks.workloads")
        sampler = module.SlowSampler(
            self.batches * self.batch_size, self.planted.sampler_s
        )
        return {"batch_size": self.batch_size, "sampler": sampler}

    def least_batch_s(self, workers: int, cpus: int) -> float:
        """The least seconds per batch that are possible by what is planted; 0 if
        nothing is known."""
        making_s = self.batch_size * (self.planted.wait_s + self.planted.cpu_s)
        main_s = self.batch_size * self.planted.sampler_s + self.step_s
        if workers == 0:
            return making_s + main_s
        return max(
            making_s / workers, self.batch_size * self.planted.cpu_s / cpus, main_s
        )


def _sleep(seconds: float, batch: Any) -> None:
    if seconds:
        time.sleep(seconds)


def chosen(workloads: Sequence[Workload], names: Collection[str]) -> list[Workload]:
    """The workloads with these names; all if there are no names."""
    return [workload for workload in workloads if not names or workload.name in names]


# standard deviation / mean of log-normal times whose logarithms have 1
_SPREAD_1 = math.sqrt(math.e - 1)

CACHE = os.environ.get("NWS_SWEEP_CACHE_DIR", "~/.cache/nws_sweep")

WORKLOADS = (
    Workload(
        name="latency", about="4 ms of sleep a sample, batch 8", target="Latency", batch_size=8, batches=240,
        arguments={"mean_s": 0.004}, most_workers=64,
        planted=Planted(wait_s=0.004),
    ),
    Workload(name="cpu", about="1 ms of CPU a sample, batch 16", target="Arithmetic", batch_size=16, batches=400),
    Workload(
        name="fetched", about="4 ms of sleep and 1 ms of CPU a sample, batch 8", target="FetchedArithmetic",
        batch_size=8, batches=400, arguments={"mean_s": 0.004}, most_workers=64,
        planted=Planted(wait_s=0.004),
    ),
    Workload(
        name="memory", about="tensors in memory, 60000 x 784, batch 300", target="InMemory", batch_size=300, batches=200
    ),
    Workload(
        name="jpeg", about="JPEG 500 x 375, RandomResizedCrop(224), batch 32", target="Jpeg", batch_size=32,
        batches=144, arguments={"root": CACHE},
    ),
    Workload(
        name="heavy", about="12.6 MB a batch of 16, 0.5 ms of sleep a sample", target="Heavy", batch_size=16,
        batches=400,
    ),
    Workload(
        name="bursty", about="log-normal sleep, mean 4 ms a sample, spread 1, batch 16", target="Latency",
        batch_size=16, batches=144, arguments={"mean_s": 0.004, "spread": 1.0}, most_workers=64,
        planted=Planted(wait_s=0.00408, spread=_SPREAD_1),
    ),
    Workload(
        name="step_bound", about="2 ms of sleep a sample, batch 8, training step of 5 ms a batch", target="Latency",
        batch_size=8, batches=360, arguments={"mean_s": 0.002}, step_s=0.005,
        planted=Planted(wait_s=0.002),
    ),
)  # fmt: skip

SEARCH_WORKLOADS = (
    *WORKLOADS,
    Workload(
        name="cifar", about="CIFAR-10 shape in memory, crop, flip and normalise, batch 256", target="Cifar",
        batch_size=256, batches=196, samples=50_000,
    ),
    Workload(
        name="short", about="2 ms of sleep a sample, batch 16, an epoch of 12 batches: start-up matters",
        target="Latency", batch_size=16, batches=12, arguments={"mean_s": 0.002},
        planted=Planted(wait_s=0.002),
    ),
    Workload(
        name="fifty", about="0.1 ms of CPU a sample, batch 256, 50 thousand samples", target="Arithmetic",
        batch_size=256, batches=196, arguments={"share": 0.1}, samples=50_000,
    ),
    Workload(
        name="million", about="the same with 1.28 million samples", target="Arithmetic", batch_size=256, batches=5000,
        arguments={"share": 0.1}, long=True,
    ),
    Workload(
        name="remote", about="log-normal sleep, mean 30 ms a sample, spread 0.5, batch 16", target="Latency",
        batch_size=16, batches=64, arguments={"mean_s": 0.030, "spread": 0.5}, most_workers=64, least_workers=4,
    ),
    Workload(
        name="second_half", about="sleep, 1 ms a sample in the first half, 20 ms in the second, batch 8, no shuffle",
        target="Latency", batch_size=8, batches=500, arguments={"mean_s": 0.001, "rise": 20.0}, shuffle=False,
        most_workers=64, least_workers=4,
    ),
    Workload(
        name="lognormal", about="log-normal sleep, mean 10 ms a sample, spread 1.2, batch 8", target="Latency",
        batch_size=8, batches=500, arguments={"mean_s": 0.010, "spread": 1.2}, most_workers=64, least_workers=4,
    ),
    Workload(
        name="bimodal", about="4 ms of sleep a sample, 400 ms for one in fifty, batch 16", target="Bimodal",
        batch_size=16, batches=250, arguments={"mean_s": 0.004}, most_workers=64, least_workers=8,
    ),
    Workload(
        name="larger", about="300 GB: 150 kB a sample, 20 ms of waiting when it is read first, batch 16",
        target="ReadOnce", batch_size=16, batches=125_000, most_workers=64, least_workers=8, long=True,
        arguments={"mean_s": 0.020, "sample_bytes": 150_000, "root": CACHE},
    ),
    Workload(
        name="disks", about="three disks, 4 ms a sample and a seek of 4 ms when another worker read last, batch 8",
        target="Disks", batch_size=8, batches=240, arguments={"mean_s": 0.004, "root": CACHE},
    ),
    *(
        Workload(
            name=f"demo_{size}", about=f"the photos of scripts/demo, batch {size}", target="Demo", batch_size=size,
            batches=2048 // size, arguments={"root": CACHE},
        )
        for size in (64, 256)
    ),
)  # fmt: skip

PREDICTED_WORKLOADS = (
    *(workload for workload in SEARCH_WORKLOADS if not workload.long),
    Workload(
        name="lognormal_in_order", about="lognormal without shuffle", target="Latency", batch_size=8, batches=500,
        arguments={"mean_s": 0.010, "spread": 1.2}, shuffle=False, least_workers=4,
    ),
    Workload(
        name="pareto", about="Pareto sleep, mean 10 ms a sample, shape 1.5, batch 8", target="Pareto", batch_size=8,
        batches=500, arguments={"mean_s": 0.010}, least_workers=4,
    ),
)  # fmt: skip

# The cases of scripts/benchmark numbers, whose least possible times are known.
NUMBERS_WORKLOADS = (
    Workload(
        name="waits", about="6 ms of sleep a sample, batch 4, no shuffle", target="Latency", batch_size=4,
        batches=100_000, arguments={"mean_s": 0.006}, shuffle=False, most_workers=64, long=True,
        planted=Planted(wait_s=0.006),
    ),
    Workload(
        name="every_eighth", about="sleep, 200 ms for every eighth batch of 4, 10 ms for the others, no shuffle",
        target="EveryEighth", batch_size=4, batches=1600, arguments={"mean_s": 0.0025, "batch_size": 4},
        shuffle=False, most_workers=64, period=8, planted=Planted(wait_s=0.0025 * 27 / 8),
    ),
    Workload(
        name="sorted", about="sleep, from 2 ms for the first sample to 19 ms for the last, batch 4, no shuffle",
        target="Sorted", batch_size=4, batches=480, arguments={"least_s": 0.002, "most_s": 0.019}, shuffle=False,
        most_workers=64, period=480, planted=Planted(wait_s=0.0105),
    ),
    Workload(
        name="slow_sampler", about="4 ms of sleep a sample, 10 ms for its index in the sampler, batch 4",
        target="Latency", batch_size=4, batches=200, arguments={"mean_s": 0.004}, shuffle=False,
        planted=Planted(wait_s=0.004, sampler_s=0.010),
    ),
    Workload(
        name="threads", about="2 ms of CPU a sample in a thread of the dataset, batch 8", target="Threads",
        batch_size=8, batches=400, arguments={"cpu_s": 0.002}, planted=Planted(cpu_s=0.002),
    ),
    *(w for w in SEARCH_WORKLOADS if w.name in {"short", "bursty", "step_bound", "fetched", "memory", "jpeg"}),
)  # fmt: skip


def find(name: str) -> Workload:
    """The workload of this name."""
    return next(
        workload
        for workload in (*NUMBERS_WORKLOADS, *SEARCH_WORKLOADS)
        if workload.name == name
    )


QUICK_NUMBERS_NAMES = ("waits", "short")
QUICK_SEARCH_NAMES = ("memory", "cifar", "short")
