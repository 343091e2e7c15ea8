"""The hook that searches one DataLoader of a program, and ends the program."""

import contextlib
import os
import signal
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from nws_sweep.config.schema import RANGES, require
from nws_sweep.errors import (
    INTERRUPTED,
    NwsSweepWarning,
    UnpicklableError,
    one_line,
)
from nws_sweep.programs.program_hook import (
    ProgramHook,
    Reporting,
    SearchEnded,
    Wanted,
    name_of,
)
from nws_sweep.programs.reports import RANKS, is_first_rank
from nws_sweep.records import Status
from nws_sweep.report.progress import report_to_follow
from nws_sweep.system import platforms, streams, torch_internals
from nws_sweep.trials import forking, rank0, trial_process

if TYPE_CHECKING:
    from nws_sweep.report.search_result import SearchResult

_INSTEAD_OF_A_PICKLE = (
    "in the program, open files and connections in __getitem__ at first use, not in __init__; or use autotune, which "
    "copies nothing"
)
_UNDECIDED = f"nws_sweep: {Status.UNDECIDED.value} "  # begins a warning


class _EndingIterator:
    """Ends the program at the first batch: an error in ``iter`` would reach frameworks
    where they cannot clean up."""

    _finished = False  # torchdata's StatefulDataLoader asks for it

    def __init__(self, hook: "SearchHook", loader: Any) -> None:
        self._hook = hook
        self._loader = loader

    def __iter__(self) -> "_EndingIterator":
        return self

    def __next__(self) -> NoReturn:
        from nws_sweep.dataloading.loaders import leave_out_iterators

        # this one, which cannot be pickled, if the loader's class keeps it
        leave_out_iterators(self._loader)
        # one with persistent workers keeps it
        torch_internals.forget_iterator(self._loader)
        self._hook.end_program(self._loader)

    def _reset(self, loader: Any) -> None:
        """DataLoader calls it if ``iter`` is called again."""


class SearchHook(ProgramHook):
    """Searches a DataLoader, and ends the program.

    Args:
        reporting: How it reports.
        loader: The selected DataLoader.
        options: Keywords of ``nws_sweep.search``.
    """

    def __init__(self, reporting: Reporting, loader: Wanted, **options: Any) -> None:
        super().__init__(reporting, loader)
        platforms.require("searching")
        # the training step is checked by the search
        for name in options.keys() & RANGES.keys():
            require(name, options[name])
        self._options = options
        self._made_in = os.getpid()
        # in the order of first iteration, with their names
        self._loaders: list[tuple[weakref.ref[Any], str]] = []
        # a launcher has started them with a hook each
        self._has_all_ranks = any(name in os.environ for name in RANKS)

    @property
    def status(self) -> int:
        """The exit status of the search; 1 if nothing was searched.

        It is 0 in a process that the program has forked, and in other ranks: torchrun
        would end the first rank.
        """
        if self.ending is not None:
            return int(self.ending.code or 0)
        return int(os.getpid() == self._made_in and is_first_rank())

    def get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """Returns the loader's own iterator, or an iterator that ends the program."""
        if self.ending is None and not self._is_to_search(loader):
            return original(loader)
        return _EndingIterator(self, loader)

    def end_program(self, loader: Any) -> NoReturn:
        """Searches the loader unless a loader has been searched, and ends the
        program."""
        if self.ending is None:
            self.ending = SearchEnded(self._search(loader))
            main = threading.main_thread()
            # which may wait for batches for ever
            if main.ident and threading.current_thread() is not main:
                # _thread.interrupt_main() does not end its waiting
                signal.pthread_kill(main.ident, signal.SIGINT)
        raise self.ending

    def conclude(self, program: str) -> None:
        """Says that no loader was searched, if so."""
        if self.ending is not None:
            return
        if not self._loaders:
            self._say_that_none_was_seen(program)
            return
        if self._wanted is not None:
            names = [name for _, name in self._loaders]
            self._say_that_none_was_wanted(program, names)
            return
        unreached = f"{program} ended without iterating over the DataLoader to search"
        self._reporting.announce(f"{unreached}; nothing was searched")

    def _is_to_search(self, loader: Any) -> bool:
        from nws_sweep.dataloading.loaders import reason_not_training

        number, is_new = self._number_of(loader)
        dataset_class = type(loader.dataset).__name__
        if self._wanted is not None:
            return self._is_wanted(number, dataset_class)
        reason = reason_not_training(loader)
        if reason and is_new:
            option = f"{self._reporting.option}{number} searches it"
            self._reporting.announce(
                f"{name_of(number, dataset_class)} is not searched: {reason}; {option}"
            )
        return not reason

    def _number_of(self, loader: Any) -> tuple[int, bool]:
        """Finds the number of a loader, and whether it is iterated for the first
        time."""
        for number, (reference, _) in enumerate(self._loaders, 1):
            if reference() is loader:
                return number, False
        number = len(self._loaders) + 1
        name = name_of(number, type(loader.dataset).__name__)
        self._loaders.append((weakref.ref(loader), name))
        return number, True

    def _search(self, loader: Any) -> int:
        """Searches the loader; returns the exit status.

        It is 1 if the search or a candidate failed, 130 after Ctrl-C, and 143 after
        SIGTERM that the program handles.
        """
        if rank0.has_other_ranks() and not self._has_all_ranks:
            how = "start all ranks with torchrun -m nws_sweep search"
            self._reporting.warn(
                f"the search failed: the program has started other ranks itself; {how}"
            )
            return 1
        try:
            return self._reporting.keep(self._result(loader).record) or 0
        except KeyboardInterrupt as stop:  # the program might train on
            by_signal = f" by {stop}" if str(stop) else ""
            self._reporting.warn(f"the search was interrupted{by_signal}")
            return int(getattr(stop, "status", INTERRUPTED))
        except UnpicklableError as error:
            self._reporting.warn(
                f"the search failed: {error.cause}; {_INSTEAD_OF_A_PICKLE}"
            )
            return 1
        except Exception as error:  # the program must not handle it
            self._reporting.warn(
                f"the search failed: {one_line(str(error) or repr(error), 1000)}"
            )
            return 1

    def _result(self, loader: Any) -> "SearchResult":
        """Searches the pickled loader or, if it cannot be pickled, the loader in a
        forked program."""
        from nws_sweep import api
        from nws_sweep.dataloading import loaders, pickling

        def search(measured: Any) -> "SearchResult":
            with contextlib.ExitStack() as stack:
                if self._reporting.is_printed:
                    stack.enter_context(report_to_follow())
                # the answer says it, too
                stack.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", _UNDECIDED, NwsSweepWarning)
                return api.search(
                    measured, progress=self._reporting.progress, **self._options
                )

        try:
            return search(loader)
        except UnpicklableError as error:
            if loaders.start_method(loader) != "fork":  # its workers need a pickle, too
                raise
            streams.end_redrawing()
            if obstacle := forking.obstacle_in_program():
                instead = (
                    f"forking the program instead is unsafe: {one_line(obstacle, 120)}"
                )
                raise UnpicklableError(f"{error.cause}, and {instead}") from error
        kept = pickling.keep(type(loader.dataset).__name__, loader)
        with trial_process.forked_program():
            return search(kept)
