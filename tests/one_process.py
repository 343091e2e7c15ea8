"""Runs command lines of nws_sweep one after the other in one process, so that torch is
imported once for all of them.

Orders come as lines of JSON on standard input; the exit status of each goes to standard
output.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO
from unittest import mock

from hydra.core.global_hydra import GlobalHydra

from nws_sweep import cli, verbosity
from nws_sweep.hydra_app import app
from nws_sweep.report.figures import Illustration
from nws_sweep.trials import trial_process


class SharedProcess:
    """The other end, which starts the process with that environment; a command's own
    comes on top."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.one_process"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(environment),
        )  # fmt: skip

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        whole_grid: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """What ``python -m nws_sweep`` does with the arguments in that folder; of a
        grid perhaps the ends only.

        Its pictures are empty files, since to draw them takes longer than anything else
        that most tests do.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = json.dumps(
            [list(arguments), str(folder), dict(environment), whole_grid]
        )
        print(order, file=self._process.stdin, flush=True)
        status = json.loads(self._process.stdout.readline())
        printed, complaints = ((folder / name).read_text("utf-8") for name in _FILES)
        for name in _FILES:
            (folder / name).unlink()
        return subprocess.CompletedProcess(list(arguments), status, printed, complaints)

    def close(self) -> None:
        """Ends it by an order: workers that a test has left open may hold its standard
        input open."""
        with self._process:
            print("null", file=self._process.stdin, flush=True)


_FILES = ("standard_output", "standard_error")


def main(orders: TextIO) -> None:
    """Does what the orders say, until one is null."""
    answers = os.fdopen(os.dup(1), "w")
    trial_process.preload([{"_target_": "torchvision.transforms.Compose"}])
    while (order := json.loads(orders.readline() or "null")) is not None:
        print(json.dumps(_status(*order)), file=answers, flush=True)


def _status(
    arguments: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    whole_grid: bool,
) -> int:
    # the command line sets it for its own process
    for variable in ("HYDRA_FULL_ERROR", verbosity.VARIABLE):  # the command sets them
        os.environ.pop(variable, None)
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["nws_sweep", *arguments]
    for number, name in enumerate(_FILES, start=1):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    try:
        run_points = app.run_points if whole_grid else _run_ends
        with (
            mock.patch.object(Illustration, "save", undrawn),
            mock.patch.object(app, "run_points", run_points),
        ):
            cli.main()
        return 0
    except SystemExit as stop:
        return int(stop.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        GlobalHydra.instance().clear()


def _run_ends(
    points: Iterable[app.Point], *others: Any, run: Callable[..., None] = app.run_points
) -> None:
    """The first and the last point of a grid, whose plan has composed every value of
    each axis."""
    first, *more = points
    run([first, *more[-1:]], *others)


def undrawn(one: Illustration, folder: Path) -> Path:
    as_png, as_svg = (folder / f"{one.name}{suffix}" for suffix in (".png", ".svg"))
    as_png.touch()
    as_svg.write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>')
    return as_png


if __name__ == "__main__":
    main(sys.stdin)
