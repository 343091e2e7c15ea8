"""The points of a grid by their files: which are finished, and what is kept of a job that was lost."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from nws_sweep import host, resuming, storage
from nws_sweep.errors import LostJob
from nws_sweep.grid import Composer
from nws_sweep.invocation import Invocation
from nws_sweep.job import pass_by, record_loss
from nws_sweep.storage import StoredRun

logger = logging.getLogger(__name__)

Point = Sequence[str]  # its overrides


class Ledger:
    """What is known of a grid's points.

    Args:
        current: The call of the command line that the grid belongs to; it has been prepared.
        composer: Makes configurations of points.
        folder: That of the grid.
        folders_known: Whether it is known beforehand where a point's files are; if not, each job finds out by itself.
    """

    def __init__(self, current: Invocation, composer: Composer, folder: Path, *, folders_known: bool = True) -> None:
        self._current = current
        self._composer = composer
        self._folder = folder
        self._folders_known = folders_known
        self._host = host.describe()

    def is_finished(self, point: Point) -> bool:
        """Whether there is a finished result of a point."""
        return self._finished(point) is not None

    def passes(self, point: Point) -> bool:
        """Whether a point needs no job; then the user is told, and later searches learn from it."""
        run = self._finished(point)
        if run is None:
            return False
        pass_by(run, self._current)
        return True

    def lose(self, point: Point, error: BaseException) -> None:
        """Keeps as a failure that a job came to no end of its own.

        Raises:
            BaseException: The error, if nothing has come to anything yet and it may be no matter of this job alone.
        """
        if not isinstance(error, LostJob) and not self._current.has_begun:
            raise error
        logger.debug("a job was lost", exc_info=error)
        record_loss(self._folder_of(point), self._composer.configuration(point), error, self._current)

    def _finished(self, point: Point) -> StoredRun | None:
        folder = self._folder_of(point)
        # A look at the file first: to make a configuration takes a hundred times as long.
        if not self._folders_known or any("${" in text for text in point) or not storage.result_file(folder).exists():
            return None
        return resuming.finished(folder, self._composer.configuration(point), self._host)

    def _folder_of(self, point: Point) -> Path:
        return self._folder / storage.folder_name(point)
