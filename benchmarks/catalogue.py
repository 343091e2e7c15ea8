"""The workloads, with epochs long enough to be timed and short enough to be repeated."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

_QUICK = 3  # an epoch is shorter by this factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A dataset with its batch size and training step."""

    name: str
    about: str  # what makes it slow
    target: str  # class of the dataset in ``benchmarks.workloads``, with ``samples`` as first argument
    batch_size: int
    batches: int  # per epoch
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the dataset, besides ``samples``
    step_s: float = 0.0  # sleep of the training step for each batch
    samples: int | None = None  # per epoch, if the last batch is shorter than the others
    shuffle: bool = True
    most_workers: int = 32  # the largest number that the oracle tries besides the picks
    least_workers: int = 0  # the smallest number whose epochs are predicted
    long: bool = False  # whether an epoch is too long for methods that need whole epochs

    @property
    def dataset(self) -> dict[str, Any]:
        """The dataset, a node for Hydra's ``instantiate``."""
        samples = self.samples or self.batches * self.batch_size
        return {"_target_": f"benchmarks.workloads.{self.target}", "samples": samples, **self.arguments}

    @property
    def training_step(self) -> dict[str, Any]:
        """The training step, a node for Hydra's ``instantiate``."""
        if not self.step_s:
            return {"_target_": "nws_sweep.dataloading.training_steps.Nothing"}
        return {"_target_": "nws_sweep.dataloading.training_steps.Sleep", "seconds_per_batch": self.step_s}

    @property
    def line(self) -> str:
        """The line of a page."""
        return f"- {self.name}: {self.about}, {self.batches} batches an epoch"

    def shortened(self) -> Workload:
        """The workload with a shorter epoch, for --quick."""
        return replace(self, batches=self.batches // _QUICK, samples=None)


def chosen(workloads: Sequence[Workload], names: Collection[str]) -> list[Workload]:
    """The workloads with these names; all if there are no names."""
    return [workload for workload in workloads if not names or workload.name in names]


CACHE = os.environ.get("NWS_SWEEP_CACHE_DIR", "~/.cache/nws_sweep")

WORKLOADS = (
    Workload(
        name="latency", about="4 ms of sleep a sample, batch 8", target="Latency", batch_size=8, batches=240,
        arguments={"mean_s": 0.004}, most_workers=64,
    ),
    Workload(name="cpu", about="1 ms of CPU a sample, batch 16", target="Arithmetic", batch_size=16, batches=400),
    Workload(
        name="fetched", about="4 ms of sleep and 1 ms of CPU a sample, batch 8", target="FetchedArithmetic",
        batch_size=8, batches=400, arguments={"mean_s": 0.004}, most_workers=64,
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
    ),
    Workload(
        name="step_bound", about="2 ms of sleep a sample, batch 8, training step of 5 ms a batch", target="Latency",
        batch_size=8, batches=360, arguments={"mean_s": 0.002}, step_s=0.005,
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

QUICK_SEARCH_NAMES = ("memory", "cifar", "short")
