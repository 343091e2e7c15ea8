"""Records with default values; tests set the values that they depend on.

Times are powers of two where possible, so that they compare exactly. An epoch has 65
batches of 64 samples and spends half of its time on the start-up; the interval of a
batch time reaches from 0.75 to 1.5 of it.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nws_sweep.analysis.summary import Summary, summarise
from nws_sweep.config.schema import folder_name
from nws_sweep.records import (
    BatchCost,
    BatchRecord,
    Configuration,
    DatasetFacts,
    Estimate,
    Host,
    LoaderSettings,
    LoopCosts,
    Measurement,
    MeasureRules,
    Noise,
    ProcessSpec,
    SearchRecord,
    SearchRules,
    Span,
    Trial,
    TrialState,
    Window,
    WindowKind,
    storage,
)
from nws_sweep.records.storage import Stored, StoredRun
from nws_sweep.trials import process_state

COLUMNS: Mapping[str, Any] = {
    "dataset": "photos",
    "batch_size": 64,
    "pin_memory": False,
    "prefetch_factor": None,
    "patience": 3,
}
HOST = Host(
    hostname="node1",
    platform="Linux-6.1-x86_64",
    cpu_model="Example CPU",
    cpu_count=16,
    usable_cpus=8,
    memory_bytes=64 * 2**30,
    python="3.11.7",
    torch="2.4.0",
    torchvision="0.19.0",
    nws_sweep="0.1.0",
)
FACTS = DatasetFacts(
    type="package.Photos", iterable=False, samples=8192, accelerator=None
)


def loader_settings(num_workers: int = 0, **changes: Any) -> LoaderSettings:
    return LoaderSettings(**{"batch_size": 64, "num_workers": num_workers, **changes})


def search_rules(
    candidates: tuple[int, ...] = (0, 1, 2, 4), **changes: Any
) -> SearchRules:
    return SearchRules(
        **{"strategy": "exhaustive", "candidates": candidates, **changes}
    )


def configuration(
    columns: Mapping[str, Any] | None = None, **changes: Any
) -> Configuration:
    """A configuration whose columns are ``COLUMNS``, updated by ``columns``."""
    defaults: dict[str, Any] = {
        "columns": {**COLUMNS, **(columns or {})},
        "dataset": {"_target_": "package.Photos", "files": 100},
        "training_step": {"_target_": "package.NoStep"},
        "loader": loader_settings(),
        "measure": MeasureRules(),
        "search": search_rules(),
    }
    return Configuration(**{**defaults, **changes})


def process_spec(
    name: str,
    log_path: Path | None = None,
    changes: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> ProcessSpec:
    """A trial process with a dataset of tests.user_datasets and no training step, and
    changes of its configuration."""
    nodes = {
        "dataset": {"_target_": f"tests.user_datasets.{name}", **arguments},
        "training_step": {"_target_": "nws_sweep.dataloading.training_steps.Nothing"},
    }
    return ProcessSpec(
        configuration=configuration(**{**nodes, **(changes or {})}),
        state=process_state.of_this_process(),
        log_path=str(log_path) if log_path else None,
        working_folder=str(Path.cwd()),
    )


def window(
    kind: WindowKind = WindowKind.STEADY, batches: int = 4, **changes: Any
) -> Window:
    """Batch i: wait 0.25 + i s, training step 0.125 s."""
    defaults: dict[str, Any] = {
        "kind": kind,
        "startup_s": None,
        "wait_s": tuple(0.25 + index for index in range(batches)),
        "step_s": (0.125,) * batches,
        "samples": 64 * batches,
    }
    return Window(**{**defaults, **changes})


def windows() -> tuple[Window, ...]:
    """A warm-up of two batches and two windows of three, as they are read from
    batches.csv."""
    return (
        window(WindowKind.WARM_UP, 2, samples=0),
        window(batches=3, samples=0),
        window(batches=3, samples=0),
    )


def estimate(value: float) -> Estimate:
    return Estimate(value=value, low=0.75 * value, high=1.5 * value, n=5)


def measurement(epoch_s: float, /, **changes: Any) -> Measurement:
    batch_s = epoch_s / 128
    defaults: dict[str, Any] = {
        "startup_s": epoch_s / 2,
        "batch_s": estimate(batch_s),
        "samples_per_s": 64 / batch_s,
        "wait_s": 0.75 * batch_s,
        "step_s": 0.25 * batch_s,
        "stall_fraction": 0.75,
        "epoch_s": epoch_s,
        "bias_bound": 0.03125,
        "cpu_s": batch_s / 8,
        "memory_bytes": 2**20,
        "shm_bytes": 2**16,
        "memory_growth_bytes": 1024.0,
        "disk_bytes": 0.0,
    }
    return Measurement(**{**defaults, **changes})


def trial(num_workers: int, epoch_s: float, **changes: Any) -> Trial:
    defaults: dict[str, Any] = {
        "settings": loader_settings(num_workers),
        "state": TrialState.OK,
        "measurement": measurement(epoch_s),
        "noise": Noise(other_cpus=0.125),
        "windows": windows(),
        "cost_s": 1.5,
        "batches": 128,
    }
    return Trial(**{**defaults, **changes})


def steady(
    num_workers: int, batch_s: float, precision: float | None = 0.001, **changes: Any
) -> Trial:
    """With this time per batch and the relative half of its interval; None for no time
    per batch."""
    batch = precision and replace(
        estimate(batch_s), low=batch_s / (1 + precision), high=batch_s * (1 + precision)
    )
    return trial(
        num_workers,
        128 * batch_s,
        measurement=measurement(128 * batch_s, batch_s=batch),
        **changes,
    )


def batch_record(number: int, cost: BatchCost, **changes: Any) -> BatchRecord:
    return BatchRecord(
        **{
            "number": number,
            "position": 0.0,
            "began_s": 0.0,
            "ended_s": 0.0,
            "cost": cost,
            **changes,
        }
    )


def recorded_trial(
    num_workers: int, cost: BatchCost, loop: LoopCosts | None = None
) -> Trial:
    """A trial of 65 s an epoch with the records of 20 batches that all cost the same,
    as fast as its workers are."""
    records = (batch_record(n, cost, position=n / 20) for n in range(20))
    made_s, loop = cost.cpu_s + cost.wait_s, loop or LoopCosts()
    batch_s = (
        max(made_s / num_workers, loop.step_s) if num_workers else made_s + loop.step_s
    )
    found = measurement(65.0, batch_s=estimate(batch_s))
    as_replayed = (Span(measured_s=1.0, replayed_s=1.0, batches=100),)
    return trial(
        num_workers,
        65.0,
        measurement=found,
        records=tuple(records),
        loop=loop,
        spans=as_replayed,
    )


def endless_trial(num_workers: int, batch_s: float) -> Trial:
    """A trial on a dataset whose length is unknown."""
    return trial(
        num_workers,
        128 * batch_s,
        measurement=measurement(128 * batch_s, epoch_s=None),
        batches=None,
    )


def failed_trial(
    num_workers: int, reason: str = "it broke", state: TrialState = TrialState.FAILED
) -> Trial:
    return Trial(
        settings=loader_settings(num_workers), state=state, reason=reason, cost_s=0.5
    )


def search_result(
    *trials: Trial, columns: Mapping[str, Any] | None = None, **changes: Any
) -> SearchRecord:
    """A finished search with the given trials."""
    defaults: dict[str, Any] = {
        "configuration": configuration(columns),
        "host": HOST,
        "facts": FACTS,
        "trials": trials,
        "stop_reason": "all 4 candidates were measured",
        "started_at": "2024-05-01T12:00:00+00:00",
        "cost_s": 8.0,
    }
    return SearchRecord(**{**defaults, **changes})


def summary_of_run(result: SearchRecord) -> Summary:
    folder = Path("runs/one")
    return summarise(
        Stored(
            folder=folder,
            is_grid=False,
            runs=(StoredRun(folder=folder, result=result),),
        )
    )


def summary_of_grid(
    *results: SearchRecord, unreadable: tuple[str, ...] = ()
) -> Summary:
    folder = Path("sweeps/all")
    runs = tuple(
        StoredRun(folder=folder / str(index), result=result)
        for index, result in enumerate(results)
    )
    return summarise(
        Stored(folder=folder, is_grid=True, runs=runs, unreadable=unreadable)
    )


def points(**axes: Sequence[Any]) -> list[dict[str, Any]]:
    """The columns of every configuration of a grid."""
    return [
        dict(zip(axes, point, strict=True))
        for point in itertools.product(*axes.values())
    ]


def store_run(parent: Path, result: SearchRecord, name: str = "run") -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    storage.save(folder, result)
    return folder


def store_grid(parent: Path, *results: SearchRecord) -> Path:
    """Stores the results as configurations of one grid, in order of time; returns the
    folder."""
    for index, result in enumerate(results):
        overrides = [
            f"{name}={value}" for name, value in result.configuration.columns.items()
        ]
        dated = replace(result, started_at=f"2024-05-01T12:{index:02}:00+00:00")
        store_run(parent / "grid", dated, folder_name(overrides))
    return parent / "grid"
