"""Hooks: what the iterators of a program's DataLoaders do, and which DataLoader is the
training DataLoader.

DataLoaders are numbered from 1 in the order in which the program first iterates over
them. The selected one was chosen by its number or by the name of its dataset's class;
else it is the training DataLoader, which is iterated with gradients enabled, in random
order or over an iterable dataset.
"""

import abc
import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nws_sweep.errors import ConfigurationError, one_line
from nws_sweep.records import SearchRecord, ranges
from nws_sweep.report.progress import Print, Progress
from nws_sweep.units import listed

# the number of a DataLoader, the class of its dataset, or None for the training
# DataLoader
Wanted = int | str | None
_MOST_NAMED = 4  # DataLoaders that a line names


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """How a hook reports.

    Attributes:
        announce: Called with a line.
        warn: Called with a line about a failure.
        progress: As for ``nws_sweep.search``.
        option: The option that selects another DataLoader, without its number.
        keep: Called with what was found; its errors are those of the search, and what
            it returns is the exit status of a program that is searched.
        is_printed: Whether ``keep`` prints the answer.
    """

    announce: Print
    warn: Print
    progress: Progress
    option: str
    keep: Callable[[SearchRecord], int | None] = lambda record: None
    is_printed: bool = False


class SearchEnded(SystemExit):
    """Ends a program whose DataLoader was searched; the code is 0, 1 if the search or a
    candidate failed, or 130."""


class ProgramHook(abc.ABC):
    """Replaces the iterators of all DataLoaders from ``start`` to ``end``; subclasses
    say by what.

    Args:
        reporting: How it reports.
        loader: The selected DataLoader.

    Attributes:
        ending: What ends the program; None unless a loader was searched. The program
            may catch it.
        reason_for_none: Why it may have ended without iterating over a DataLoader.

    Raises:
        ConfigurationError: If the DataLoader is named by neither a number nor a class.
    """

    def __init__(self, reporting: Reporting, loader: Wanted) -> None:
        is_number = ranges.fits(loader, ranges.Count)
        is_class = isinstance(loader, str) and loader.isidentifier()
        if not (loader is None or is_number or is_class):
            allowed = "null, an integer of at least 1, or the name of a dataset's class"
            raise ConfigurationError(f"loader={loader!r}: must be {allowed}")
        self._reporting, self._wanted = reporting, loader
        self._restore: Callable[[], None] = lambda: None
        # None if it has ended, or is not possible
        self._process: int | None = os.getpid()
        self.ending: SearchEnded | None = None
        self.reason_for_none = (
            "fastai's, and those of processes that it starts, are not followed"
        )

    @property
    def status(self) -> int:
        """The exit status of a program that has ended without an error."""
        return 0

    def start(self) -> None:
        """Replaces the iterators of all DataLoaders."""
        from nws_sweep.dataloading.hook import wrap_iterators  # imports torch

        self._restore = wrap_iterators(self._get_iterator)

    def end(self, program: str) -> None:
        """Restores the iterators, and says what was found in the program, which has
        ended. Once, in no forked process.

        A failure is a line: it must not change how the program ends.
        """
        if os.getpid() != self._process:
            return
        self._process = None
        try:
            self._restore()
            self.conclude(program)
        except Exception as error:
            with contextlib.suppress(OSError, ValueError):  # standard error is closed
                self._reporting.warn(one_line(f"{type(error).__name__}: {error}"))

    def _get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        from nws_sweep.online.loader_clock import loader_clock_of_thread

        # Pools of a tuned DataLoader, and DataLoaders in a dataset, make batches of
        # another DataLoader.
        if os.getpid() != self._process or loader_clock_of_thread().is_inside:
            return original(loader)
        return self.get_iterator(original, loader)

    @abc.abstractmethod
    def get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """Returns the iterator of a DataLoader, in place of what DataLoader's
        ``original`` method returns."""

    @abc.abstractmethod
    def conclude(self, program: str) -> None:
        """Says what was found; ``program`` is the name of the program."""

    def _say_that_none_was_seen(self, program: str) -> None:
        nothing = "ended without iterating over a torch DataLoader in this process"
        self._reporting.announce(f"{program} {nothing}: {self.reason_for_none}")

    def _say_that_none_was_wanted(self, program: str, names: Sequence[str]) -> None:
        seen = listed(names, _MOST_NAMED)
        missed = f"a DataLoader of the class or number {self._wanted}, but over {seen}"
        self._reporting.announce(f"{program} ended without iterating over {missed}")

    def _is_wanted(self, number: int, dataset_class: str) -> bool:
        return self._wanted in (number, dataset_class)


def name_of(number: int, dataset_class: str) -> str:
    """Names a DataLoader in lines by its number and the class of its dataset."""
    return f"DataLoader {number} ({dataset_class})"
