"""Tries search, tune and autotune with loaders of other libraries; writes the table of benchmarks/foreign/results.md.

``python -m benchmarks.foreign [PROGRAM ...]`` writes the rows of these programs, or of all, each tried in its own
processes.
"""

import collections
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("results.md")
BEGIN, END = "<!-- written by scripts/test-foreign -->\n", "<!-- end -->\n"
MOST_WORKERS, EPOCHS, LIMIT_S = 8, 4, 120
PACKAGES = (
    "timm", "accelerate", "monai", "torchdata", "litdata", "mosaicml-streaming", "webdataset", "lhotse", "datasets",
    "lmdb", "h5py", "pyarrow", "zarr", "torchio", "ultralytics", "fastai", "torchvision", "albumentations",
    "opencv-python-headless", "tokenizers", "transformers", "torch-geometric",
)  # fmt: skip
RANDOM = "resampled"  # in names of programs whose samples differ from epoch to epoch
HEAD = "| loader | search | tune | autotune, fourth epoch |\n|---|---|---|---|\n"


def ids(batch: Any) -> list[int]:
    import torch

    batch = getattr(batch, "y", batch)  # of PyTorch Geometric
    while isinstance(batch, dict | list | tuple) and not all(
        isinstance(one, int) for one in batch
    ):
        batch = list(batch.values())[-1] if isinstance(batch, dict) else batch[-1]
    return [int(one) for one in torch.as_tensor(batch).flatten().tolist()]


def epoch(
    loader: Any, *, resets: bool = False
) -> tuple[collections.Counter[int], float]:
    began_s, found = time.perf_counter(), collections.Counter[int]()
    for batch in loader:
        found.update(ids(batch))
    time_s = time.perf_counter() - began_s
    if resets:
        loader.reset()
    return found, time_s


def tried(name: str, how: str, folder: Path) -> str:
    """What happens, in a cell of the table."""
    import nws_sweep
    from benchmarks.foreign.programs import PROGRAMS
    from nws_sweep.dataloading import loaders

    lines: list[str] = []
    with contextlib.redirect_stdout(sys.stderr):
        loader = PROGRAMS[name](folder)
        # Samplers that have been iterated may have state that cannot be pickled for a trial process.
        plain, plain_s = (
            epoch(loader) if how == "autotune" else (collections.Counter[int](), 0.0)
        )
        options: dict[str, Any] = {
            "max_workers": MOST_WORKERS,
            "progress": lines.append,
            "reuse": "never",
        }
        try:
            if how == "search":
                found = nws_sweep.search(loader, **options)
                return f"num_workers={found.num_workers}" + "".join(
                    f"; {one}" for one in _lengths(found)
                )
            made = getattr(nws_sweep, how)(loader, **options)
            if how == "tune":
                plain, plain_s = epoch(loader)
            epochs = [
                epoch(made, resets="reset" in name)
                for _ in range(EPOCHS if how == "autotune" else 1)
            ]
        except nws_sweep.NwsSweepError as error:
            return f"refused: {error}"
    wrong = [
        found.total()
        for found, _ in epochs
        if found.total() != plain.total() or not (RANDOM in name or found == plain)
    ]
    after = loaders.unwrapped(made)
    number = after.tuning.after.num_workers if how == "autotune" else after.num_workers
    samples = f"; epochs of {wrong} samples instead of {plain.total()}" if wrong else ""
    reason = after.tuning.reason if how == "autotune" else ""
    why = (
        f"; {reason}"
        if reason and "instead of" not in reason and not epochs[-1][1] < 0.7 * plain_s
        else ""
    )
    return f"num_workers={number}, {plain_s:.1f} → {epochs[-1][1]:.1f} s{samples}{why}"


def _lengths(found: Any) -> list[str]:
    return [
        line
        for trial in found.trials
        for line in trial.warnings
        if line.startswith("the length")
    ][:1]


def row(name: str) -> list[str]:
    cells = []
    for how in ("search", "tune", "autotune"):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.foreign", name, how, folder]
            own = {
                **os.environ,
                "NWS_SWEEP_CACHE_DIR": f"{folder}/cache",
                "NWS_SWEEP_LOCK_FILE": f"{folder}/lock",
            }
            Path(folder, "data").mkdir()
            try:
                done = subprocess.run(
                    command,
                    env=own,
                    capture_output=True,
                    text=True,
                    timeout=LIMIT_S,
                    check=False,
                )
                failed = done.stderr.strip().splitlines()[-1:] or [
                    f"exit status {done.returncode}"
                ]
                cells.append(
                    json.loads(done.stdout)
                    if done.returncode == 0
                    else f"fails: {failed[0]}"
                )
            except subprocess.TimeoutExpired:
                cells.append(f"does not end within {LIMIT_S} s")
    return cells


def main(arguments: Sequence[str]) -> None:
    from benchmarks.foreign.programs import PROGRAMS

    if len(arguments) == 3 and arguments[1] in ("search", "tune", "autotune"):
        print(json.dumps(tried(arguments[0], arguments[1], Path(arguments[2], "data"))))
        return
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    earlier, _, after = rest.partition(END)
    rows = {
        line.split("|")[1].strip(): line
        for line in earlier.splitlines()[2:]
        if line.startswith("|")
    }
    for name in arguments or PROGRAMS:
        title = name.replace("_", " ", 1)
        rows[title] = (
            f"| {title} | {' | '.join(cell.replace('|', '/') for cell in row(name))} |"
        )
        print(rows[title], flush=True)
        known = [
            line for one in PROGRAMS if (line := rows.get(one.replace("_", " ", 1)))
        ]
        made = ", ".join(
            f"{package} {version(package)}" for package in ("torch", *PACKAGES)
        )
        latest = f"Rows made last by `scripts/test-foreign` on {time.strftime('%Y-%m-%d')}: {made}."
        text = "\n".join(
            [*known, "", textwrap.fill(latest, 120, break_on_hyphens=False)]
        )
        PAGE.write_text(f"{before}{BEGIN}{HEAD}{text}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
