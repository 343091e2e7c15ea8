"""Workloads constructed to have one or two known bottlenecks, with the expected
diagnoses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nws_sweep.model.bottlenecks import Bottleneck

_NOTHING: Mapping[str, Any] = {
    "_target_": "nws_sweep.dataloading.training_steps.Nothing"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A workload with known bottlenecks."""

    name: str
    about: str
    # the first bottleneck of a right diagnosis; None if it must have none
    expected: Bottleneck | None
    besides: tuple[Bottleneck, ...] = ()  # further bottlenecks that it must have
    says: str = ""  # what its explanation must contain
    # class in ``benchmarks.workloads``, and its arguments
    dataset: tuple[str, Mapping[str, Any]]
    # for Hydra's ``instantiate``
    training_step: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    loader: Mapping[str, Any] = field(default_factory=dict)
    measure: Mapping[str, Any] = field(default_factory=dict)  # other than the defaults
    most: int = 32  # the largest candidate
    disturbed: bool = False  # whether two other programs use the CPUs during the search


def _sleeping(seconds: float) -> dict[str, Any]:
    return {
        "_target_": "nws_sweep.dataloading.training_steps.Sleep",
        "seconds_per_batch": seconds,
    }


def _training(*layers: int) -> dict[str, Any]:
    return {
        "_target_": "nws_sweep.dataloading.training_steps.Train",
        "model": {
            "_target_": "nws_sweep.dataloading.training_steps.mlp",
            "layers": list(layers),
        },
        "loss": {"_target_": "torch.nn.CrossEntropyLoss"},
        "optimizer": {"_target_": "torch.optim.SGD", "_partial_": True, "lr": 0.01},
        "device": "cpu",
    }


CASES = (
    Case(
        name="waiting", about="4 ms of sleep a sample, 12 workers at most", expected=Bottleneck.LATENCY,
        dataset=("Latency", {"samples": 20_000, "mean_s": 0.004}), loader={"batch_size": 8}, most=12,
    ),
    Case(
        name="computing", about="1 ms of CPU a sample", expected=Bottleneck.CPU,
        dataset=("Arithmetic", {"samples": 6400}), loader={"batch_size": 16},
    ),
    Case(
        name="decoding", about="JPEG files, decoded and cropped", expected=Bottleneck.CPU,
        dataset=("Jpeg", {"samples": 4608, "root": "~/.cache/nws_sweep"}), loader={"batch_size": 32},
    ),
    Case(
        name="step", about="2 ms of sleep a sample of 8 a batch, a training step that sleeps 8 ms",
        expected=Bottleneck.STEP, dataset=("Latency", {"samples": 4000, "mean_s": 0.002}),
        training_step=_sleeping(0.008), loader={"batch_size": 8},
    ),
    Case(
        name="moving", about="tensors in memory, 784 values a sample: transferring a batch costs more than loading it",
        expected=None, says="index whole batches",
        dataset=("InMemory", {"samples": 60_000}), loader={"batch_size": 300},
    ),
    Case(
        name="short", about="2 ms of sleep a sample, epochs of 12 batches of 16", expected=Bottleneck.LATENCY,
        besides=(Bottleneck.STARTUP,), says="persistent_workers=true",
        dataset=("Latency", {"samples": 192, "mean_s": 0.002}),
        loader={"batch_size": 16},
    ),
    Case(
        name="spawning", about="4 ms of sleep a sample, workers spawned, epochs of 48 batches",
        expected=Bottleneck.LATENCY, besides=(Bottleneck.STARTUP,), says="persistent_workers=true",
        dataset=("Latency", {"samples": 768, "mean_s": 0.004}),
        loader={"batch_size": 16, "multiprocessing_context": "spawn"}, most=8,
    ),
    Case(
        name="no room", about="4 ms of sleep a sample, 200 MB in each worker, a budget of 2 GB",
        expected=Bottleneck.LATENCY, besides=(Bottleneck.MEMORY,), says="did not fit",
        dataset=("Hungry", {"samples": 20_000, "mean_s": 0.004, "held_bytes": 200_000_000}), loader={"batch_size": 8},
        measure={"memory_budget_bytes": 2_000_000_000},
    ),
    Case(
        name="fetching and computing", about="8 ms of sleep and 1 ms of CPU a sample", expected=Bottleneck.CPU,
        dataset=("FetchedArithmetic", {"samples": 6400, "mean_s": 0.008}),
        loader={"batch_size": 16},
    ),
    Case(
        name="computing and training", about="1 ms of CPU a sample, a training step on the CPU of a third of that",
        expected=Bottleneck.STEP, besides=(Bottleneck.CPU,), dataset=("LabelledArithmetic", {"samples": 12_800}),
        training_step=_training(64, 1500, 1500, 10), loader={"batch_size": 64},
    ),
    Case(
        name="large step", about="tensors in memory, a training step of a large network", expected=Bottleneck.STEP,
        dataset=("InMemory", {"samples": 20_000, "values": 20_000}), training_step=_training(20_000, 2000, 10),
        loader={"batch_size": 64},
    ),
    Case(
        name="fetching for a step", about="4 ms of sleep a sample, a training step that sleeps 2 ms, 8 workers at most",
        expected=Bottleneck.LATENCY, dataset=("Latency", {"samples": 4000, "mean_s": 0.004}),
        training_step=_sleeping(0.002),
        loader={"batch_size": 8}, most=8,
    ),
    Case(
        name="fetching and moving", about="4 ms of sleep a sample of 2 MB", expected=Bottleneck.CPU,
        besides=(Bottleneck.TRANSFER,),
        dataset=("Latency", {"samples": 3200, "mean_s": 0.004, "values": 500_000}), loader={"batch_size": 16},
    ),
    Case(
        name="training in memory", about="tensors in memory, a training step of a small network on all CPUs",
        expected=Bottleneck.STEP, dataset=("InMemory", {"samples": 60_000}),
        training_step=_training(784, 600, 300, 100, 10), loader={"batch_size": 300},
    ),
    Case(
        name="uneven", about="sample times are log-normal: mean 10 ms, sigma 1.2", expected=Bottleneck.LATENCY,
        besides=(Bottleneck.ORDER,), says="in_order=False",
        dataset=("Latency", {"samples": 8000, "mean_s": 0.01, "spread": 1.2}), loader={"batch_size": 8},
    ),
    Case(
        name="rising", about="the second half of the epoch takes twenty times as long as the first, in order",
        expected=Bottleneck.LATENCY, says="in the last third of the epoch",
        dataset=("Latency", {"samples": 8000, "mean_s": 0.001, "rise": 20.0}),
        loader={"batch_size": 8, "shuffle": False}, most=16,
    ),
    Case(
        name="disturbed", about="1 ms of CPU a sample, beside two programs that compute", expected=Bottleneck.CPU,
        dataset=("Arithmetic", {"samples": 25_600}), loader={"batch_size": 16}, disturbed=True,
    ),
)  # fmt: skip
