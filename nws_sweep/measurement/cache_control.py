"""Drops the dataset's files from the page cache before each time slice, with ``measure.cache=cold``."""

from __future__ import annotations

from nws_sweep.errors import ConfigurationError
from nws_sweep.measurement.candidate import Candidate
from nws_sweep.measurement.environment import Environment
from nws_sweep.results import Configuration
from nws_sweep.system import page_cache


class CacheControl:
    """Drops the files of ``measure.cache_files``, or those that the dataset's attributes name."""

    def __init__(self, configuration: Configuration, environment: Environment) -> None:
        self._environment = environment
        self._is_cold = configuration.measure.cache == "cold"
        named = configuration.measure.cache_files if self._is_cold else None
        self._files = None if named is None else page_cache.files_below(named)

    def drop(self) -> None:
        """Drops the files that are known; called before a time slice."""
        if self._files:
            self._environment.drop_files(self._files)

    def find_files(self, candidate: Candidate) -> None:
        """Asks the first candidate's dataset for its files; its trial restarts, since its time slice was not cold.

        ConfigurationError if no files are known.
        """
        if not self._is_cold or self._files is not None or not candidate.alive:
            return
        named = candidate.process.ask(lambda process: process.files())
        if named is None:
            return
        self._files = page_cache.files_below(named)
        if not self._files:
            raise ConfigurationError(
                "measure.cache=cold: the dataset's attributes name no files; name files or folders in "
                "measure.cache_files=[...]"
            )
        candidate.progress.must_restart = True
