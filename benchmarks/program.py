"""A user's program that searches: a Python process of its own, which calls the public
API of nws_sweep and no more.

So a search costs what it costs a user, and the program can import nws_sweep of another
checkout, whose modules differ.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import catalogue, journal
from benchmarks.epoch_times import PREFETCH_FACTOR

_PROGRAM = "import sys; from benchmarks.program import main; main(*sys.argv[1:])"
_ROOT = Path(__file__).parent.parent
_TIMEOUT_S = 1800.0
_CRASHES = ("failed", "timeout", "out_of_memory")  # states of trials


def search(
    workload: str, arguments: Mapping[str, Any], log_path: Path, checkout: Path = _ROOT
) -> dict[str, Any]:
    """Searches in a process that imports nws_sweep of ``checkout``; returns attributes
    of an ``Outcome``.

    Its output is appended to ``log_path``. RuntimeError if the process fails.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        log_path.open("a", encoding="utf-8") as log,
    ):
        # The working folder comes first in sys.path, so it has these benchmarks and
        # no nws_sweep.
        (Path(folder) / "benchmarks").symlink_to(_ROOT / "benchmarks")
        answer_path = Path(folder) / "answer.json"
        environment = os.environ | {
            "PYTHONPATH": str(checkout.absolute()),
            # the benchmark holds the machine's lock
            "NWS_SWEEP_LOCK_FILE": str(Path(folder) / "lock"),
        }
        command = [
            sys.executable,
            "-c",
            _PROGRAM,
            workload,
            json.dumps(arguments),
            str(answer_path),
        ]
        log.write(f"{time.strftime('%H:%M:%S')} {workload} {arguments} by {checkout}\n")
        log.flush()
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            check=False,
            timeout=_TIMEOUT_S,
        )
        if done.returncode:
            raise RuntimeError(
                f"the search by {checkout} exited with status {done.returncode}: see {log_path}"
            )
        values: dict[str, Any] = json.loads(answer_path.read_text("utf-8"))
    return values | {"rows": tuple(journal.Row(**row) for row in values["rows"])}


def main(workload: str, arguments: str, answer_path: str) -> None:
    """Searches, and writes the answer and the rows as JSON; the error if there is no
    answer."""
    import nws_sweep
    from nws_sweep.system import processes

    processes.die_with_parent()
    if not Path(nws_sweep.__file__).is_relative_to(
        Path(os.environ["PYTHONPATH"]).resolve()
    ):
        raise ImportError(f"nws_sweep is that of {nws_sweep.__file__}")
    chosen = catalogue.find(workload)
    dataset, keywords = chosen.make_dataset(), chosen.loader_keywords()
    keywords |= {
        "training_step": chosen.step_s or None,
        "reuse": False,
        **json.loads(arguments),
    }
    import torch.utils.data  # noqa: F401 - as in a program that trains

    began_s = time.perf_counter()
    try:
        result = nws_sweep.search(dataset, **keywords)
    except nws_sweep.NwsSweepError as error:
        values: dict[str, Any] = {"pick": None, "crashes": [str(error)], "rows": []}
    else:
        print(result, *result.warnings, flush=True, sep="\n")
        values = answer_of(result)
    values["cost_s"] = time.perf_counter() - began_s
    Path(answer_path).write_text(json.dumps(values), "utf-8")


def answer_of(result: Any) -> dict[str, Any]:
    """Attributes of the outcome of a search that has an answer."""
    rows = [row_of(trial) for trial in result.trials]
    verdict = result.record.verdict
    return {
        "pick": result.num_workers,
        "prefetch_factor": prefetch_of(result.settings),
        "persistent": bool(result.settings and result.settings.persistent_workers),
        "tied": [settings.num_workers for settings in verdict.tied] if verdict else [],
        "tried": [row.workers for row in rows],
        "crashes": [
            f"num_workers={row.workers}: {row.fault}"
            for row in rows
            if row.fault.startswith(_CRASHES)
        ],
        "rows": [dataclasses.asdict(row) for row in rows],
        "detail": {
            "stop_reason": result.stop_reason,
            "warnings": [*result.warnings],
            "text": str(result),
        },
    }


def row_of(trial: Any) -> journal.Row:
    """The figures of a candidate, whose trial has the state ``ok``; otherwise the
    reason why it has none."""
    settings, measurement = trial.settings, trial.measurement
    names = {
        "workers": settings.num_workers,
        "prefetch_factor": prefetch_of(settings),
        "persistent": settings.persistent_workers,
    }
    if trial.state.value != "ok" or measurement is None:
        return journal.Row(**names, fault=f"{trial.state.value}: {trial.reason}")
    batch_s = measurement.batch_s
    return journal.Row(
        **names,
        batch_s=batch_s and batch_s.value,
        low_s=batch_s and batch_s.low,
        high_s=batch_s and batch_s.high,
        epoch_s=measurement.epoch_s,
        batches=sum(window.batches for window in trial.windows if window.counts),
    )


def prefetch_of(settings: Any) -> int:
    """The batches that each worker loads ahead; of no answer, the usual number."""
    prefetch_factor: int | None = settings and settings.prefetch_factor
    return PREFETCH_FACTOR if prefetch_factor is None else prefetch_factor
