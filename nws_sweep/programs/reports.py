"""Files and reports of what was found in a program."""

import os
import subprocess
import sys
from pathlib import Path

import nws_sweep

# of the processes that torchrun, Lightning or srun start
RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID")


def is_first_rank() -> bool:
    """Whether this process writes files: of several ranks, only the first one does."""
    return all(os.environ.get(name, "0") == "0" for name in RANKS)


def report(folder: Path, *, prints: bool = True) -> int:
    """Writes the report of a run or a grid, and prints its table; returns 1 if anything
    failed, else 0.

    In a separate process: threads cannot start at the exit of this one, and its
    matplotlib belongs to the program.
    """
    sys.stdout.flush()
    command = [sys.executable, "-m", "nws_sweep", "report", str(folder.absolute())]
    # ``-m`` imports from the current folder first. A folder nws_sweep there, such as
    # that of the answers, would hide an editable installation: then the process starts
    # where the package is. Not always, since its neighbours in site-packages would hide
    # modules of the standard library.
    folder_of_package = (
        Path(nws_sweep.__file__).parents[1] if Path("nws_sweep").is_dir() else None
    )
    output = None if prints else subprocess.DEVNULL
    done = subprocess.run(command, check=False, cwd=folder_of_package, stdout=output)
    return int(done.returncode != 0)
