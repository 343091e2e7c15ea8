"""Pictures are drawn by two processes where that can be done, since each takes a tenth of a second or more."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path

from nws_sweep import drawing
from nws_sweep.cores import usable_cpus
from nws_sweep.illustrations import Illustration

_FEWEST = 3  # pictures for which another process is worth its start


def save(chosen: Sequence[Illustration], folder: Path) -> list[tuple[Path, Path]]:
    """Draws pictures and writes them.

    Args:
        chosen: What to draw.
        folder: Where their files belong.

    Returns:
        Of each its PNG and its SVG.
    """
    if len(chosen) < _FEWEST or not _can_fork():
        return [_save(one, folder) for one in chosen]
    with warnings.catch_warnings():
        # Python 3.12 counts the threads of NumPy's BLAS, which survives a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        helper = multiprocessing.get_context("fork").Process(target=_save_all, args=(chosen[1::2], folder))
        helper.start()
    try:
        mine = [_save(one, folder) for one in chosen[::2]]
    finally:
        helper.join()
    # What the other process could not draw is drawn here, where its failure is seen.
    theirs = [_paths(one, folder) if helper.exitcode == 0 else _save(one, folder) for one in chosen[1::2]]
    found = [*mine, *theirs]
    found[::2], found[1::2] = mine, theirs
    return found


def _can_fork() -> bool:
    """Not from a thread among others, which may hold locks; nor where a process may have no children."""
    alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    return sys.platform == "linux" and alone and usable_cpus() > 1


def _save_all(chosen: Sequence[Illustration], folder: Path) -> None:
    try:
        for one in chosen:
            _save(one, folder)
    except Exception:  # told by the other process, which tries once more
        sys.exit(1)


def _save(one: Illustration, folder: Path) -> tuple[Path, Path]:
    return drawing.save(one.draw(), folder / one.name)


def _paths(one: Illustration, folder: Path) -> tuple[Path, Path]:
    return drawing.files(folder / one.name)
