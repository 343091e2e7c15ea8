"""Hooks: what the iterators of a program's DataLoaders do, and which DataLoader is the training DataLoader.

DataLoaders are numbered from 1 in the order in which the program first iterates over them. One of them is selected: the
one that was chosen by its number or by the name of its dataset's class; else the training DataLoader, which is
iterated with gradients enabled, in random order or over an iterable dataset.
"""

import contextlib
import os
import signal
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from nws_sweep.config.schema import RANGES, autotune_options, require
from nws_sweep.errors import INTERRUPTED, ConfigurationError, UnpicklableError, one_line
from nws_sweep.executor import forking, rank0, trial_process
from nws_sweep.programs.reports import RANKS, is_first_rank
from nws_sweep.report.progress import Print, announcer
from nws_sweep.results import SearchRecord, ranges
from nws_sweep.system import platforms, streams, torch_internals

if TYPE_CHECKING:
    from nws_sweep.online.tuner import Tuner
    from nws_sweep.report.search_result import SearchResult

Wanted = int | str | None  # the number of a DataLoader, the class of its dataset, or None for the training DataLoader
_NOT_FOLLOWED = "loaders of other libraries, such as fastai's, and processes that the program starts are not followed"
_INSTEAD_OF_A_PICKLE = (
    "in the program, open files and connections in __getitem__ at first use, not in __init__; or use autotune, which "
    "copies nothing"
)


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """How a hook reports.

    Attributes:
        announce: Called with a line.
        warn: Called with a line about a failure.
        progress: As for ``nws_sweep.search``.
        option: The option that selects another DataLoader, without its number.
        keep: Called with what was found, which was printed already; its errors are those of the search, and what it
            returns is the exit status of a program that is searched.
    """

    announce: Print
    warn: Print
    progress: bool | Print | None
    option: str
    keep: Callable[[SearchRecord], int | None] = lambda record: None


class SearchEnded(SystemExit):
    """Ends a program whose DataLoader was searched; the code is 0, 1 if the search or a candidate failed, or 130."""


class ProgramHook:
    """Replaces the iterators of all DataLoaders from ``start`` to ``end``; subclasses say by what.

    Args:
        reporting: How it reports.
        loader: The selected DataLoader.

    Attributes:
        ending: What ends the program; None unless a loader was searched. The program may catch it.

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
        self._process: int | None = os.getpid()  # None if it has ended, or is not possible
        self._made_in = os.getpid()
        self.ending: SearchEnded | None = None

    @property
    def status(self) -> int:
        """The exit status of a program that has ended without an error."""
        return 0

    def start(self) -> None:
        """Replaces them."""
        from nws_sweep.dataloading.hook import wrap_iterators  # imports torch

        self._restore = wrap_iterators(self._get_iterator)

    def end(self, program: str) -> None:
        """Restores them, and says what was found in the program, which has ended; once, and not in a forked process.

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
        from nws_sweep.online.loader_clock import clock_of_thread
        from nws_sweep.online.pool import OF_POOL

        if os.getpid() != self._process or OF_POOL in vars(loader):  # a pool takes torch's own iterator
            return original(loader)
        if clock_of_thread().is_inside:  # a DataLoader in a dataset makes samples of another DataLoader
            return original(loader)
        return self.get_iterator(original, loader)

    def get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """The iterator of a DataLoader, in place of that of DataLoader's ``original`` method."""
        raise NotImplementedError

    def conclude(self, program: str) -> None:
        """Says what was found; ``program`` is the name of the program."""
        raise NotImplementedError

    def _say_that_none_was_seen(self, program: str) -> None:
        nothing = f"{program} ended without iterating over a torch DataLoader in this process"
        self._reporting.announce(f"{nothing} ({_NOT_FOLLOWED})")

    def _is_wanted(self, number: int, loader: Any) -> bool:
        return self._wanted in (number, type(loader.dataset).__name__)


def _name(number: int, loader: Any) -> str:
    return f"DataLoader {number} ({type(loader.dataset).__name__})"


class _EndingIterator:
    """Ends the program at the first batch: an error in ``iter`` would reach frameworks where they cannot clean up."""

    _finished = False  # torchdata's StatefulDataLoader asks for it

    def __init__(self, hook: "SearchHook", loader: Any) -> None:
        self._hook = hook
        self._loader = loader

    def __iter__(self) -> "_EndingIterator":
        return self

    def __next__(self) -> NoReturn:
        from nws_sweep.dataloading.loaders import leave_out_iterators

        leave_out_iterators(self._loader)  # this one, which cannot be pickled, if the loader's class keeps it
        torch_internals.forget_iterator(self._loader)  # one with persistent workers keeps it
        self._hook.end_program(self._loader)

    def _reset(self, loader: Any) -> None:
        """DataLoader calls it if ``iter`` is called again."""


class SearchHook(ProgramHook):
    """Searches one DataLoader, and ends the program.

    Args:
        reporting: How it reports.
        loader: The selected DataLoader.
        options: Keywords of ``nws_sweep.search``.
    """

    def __init__(self, reporting: Reporting, loader: Wanted, **options: Any) -> None:
        super().__init__(reporting, loader)
        platforms.require("searching")
        for name in options.keys() & RANGES.keys():  # the training step is checked by the search
            require(name, options[name])
        self._options = options
        self._loaders: list[weakref.ref[Any]] = []  # in the order of first iteration
        self._has_all_ranks = any(name in os.environ for name in RANKS)  # a launcher has started them with a hook each

    @property
    def status(self) -> int:
        """As the search has ended; 1 if nothing was searched.

        It is 0 in a process that the program has forked, and in other ranks: torchrun would end the first one.
        """
        if self.ending is not None:
            return int(self.ending.code or 0)
        return int(os.getpid() == self._made_in and is_first_rank())

    def get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """The loader's own iterator, or one that ends the program."""
        if self.ending is None and not self._is_to_search(loader):
            return original(loader)
        return _EndingIterator(self, loader)

    def end_program(self, loader: Any) -> NoReturn:
        """Searches the loader unless one has been searched, and ends the program."""
        if self.ending is None:
            self.ending = SearchEnded(self._search(loader))
            main = threading.main_thread()
            if main.ident and threading.current_thread() is not main:  # which may wait for batches for ever
                signal.pthread_kill(main.ident, signal.SIGINT)  # _thread.interrupt_main() does not end its waiting
        raise self.ending

    def conclude(self, program: str) -> None:
        """Says that no loader was searched, if so."""
        if self.ending is not None:
            return
        if not self._loaders:
            self._say_that_none_was_seen(program)
            return
        unreached = f"{program} ended without iterating over the DataLoader to search"
        self._reporting.announce(f"{unreached}; nothing was searched")

    def _is_to_search(self, loader: Any) -> bool:
        from nws_sweep.dataloading.loaders import reason_not_training

        number, is_new = self._number_of(loader)
        if self._wanted is not None:
            return self._is_wanted(number, loader)
        reason = reason_not_training(loader)
        if reason and is_new:
            option = f"{self._reporting.option}{number} searches it"
            self._reporting.announce(f"{_name(number, loader)} is not searched: {reason}; {option}")
        return not reason

    def _number_of(self, loader: Any) -> tuple[int, bool]:
        """The number of a loader, and whether it is iterated for the first time."""
        for number, reference in enumerate(self._loaders, 1):
            if reference() is loader:
                return number, False
        self._loaders.append(weakref.ref(loader))
        return len(self._loaders), True

    def _search(self, loader: Any) -> int:
        """Searches the loader; returns the exit status.

        It is 1 if the search or a candidate failed, 130 after Ctrl-C, and 143 after SIGTERM that the program handles.
        """
        if rank0.has_other_ranks() and not self._has_all_ranks:
            how = "start all ranks with torchrun -m nws_sweep search"
            self._reporting.warn(f"the search failed: the program has started other ranks itself; {how}")
            return 1
        try:
            return self._reporting.keep(self._found(loader).record) or 0
        except KeyboardInterrupt as stop:  # the program might train on
            by_signal = f" by {stop}" if str(stop) else ""
            self._reporting.warn(f"the search was interrupted{by_signal}")
            return int(getattr(stop, "status", INTERRUPTED))
        except UnpicklableError as error:
            self._reporting.warn(f"the search failed: {error.cause}; {_INSTEAD_OF_A_PICKLE}")
            return 1
        except Exception as error:  # the program must not handle it
            self._reporting.warn(f"the search failed: {one_line(str(error) or repr(error), 1000)}")
            return 1

    def _found(self, loader: Any) -> "SearchResult":
        """The result of a search of the pickled loader or, if that is impossible, of the loader in a forked program."""
        from nws_sweep import api
        from nws_sweep.dataloading import loaders, pickling

        def search(measured: Any) -> "SearchResult":
            return api.search(measured, progress=self._reporting.progress, **self._options)

        try:
            return search(loader)
        except UnpicklableError as error:
            if loaders.start_method(loader) != "fork":  # its workers need a pickle, too
                raise
            streams.end_redrawing()
            if obstacle := forking.obstacle_in_program():
                instead = f"forking the program instead is unsafe: {one_line(obstacle, 120)}"
                raise UnpicklableError(f"{error.cause}, and {instead}") from error
        kept = pickling.keep(type(loader.dataset).__name__, loader)
        with trial_process.forked_program():
            return search(kept)


@dataclass(eq=False)
class _Followed:
    """A DataLoader that has a tuner, or several that the program makes for one epoch each."""

    number: int
    name: str
    kind: str
    dataset: Callable[[], Any]  # None once it is gone
    latest: Callable[[], Any]  # the newest DataLoader; None once it is gone
    is_wanted: bool
    likeness: int  # to a training DataLoader: the largest index in ``loaders.NOT_TRAINING`` so far
    tuner: "Tuner"


class TuningHook(ProgramHook):
    """Gives each DataLoader a tuner; loaders that are made for one epoch each share one.

    All of them are timed. Only the selected one changes its settings, or is reported if nothing may change: of
    several that may be the training DataLoader, the one that has given most batches so far.

    Args:
        reporting: How it reports.
        loader: The selected DataLoader.
        watches: Whether settings do not change.
        options: ``max_workers``, ``settings``, ``reuse`` and ``once`` as for ``nws_sweep.autotune``.
    """

    def __init__(self, reporting: Reporting, loader: Wanted, *, watches: bool = False, **options: Any) -> None:
        super().__init__(reporting, loader)
        self._options = autotune_options(**options)
        self._watches, self._tunes_itself = watches, False
        self._followed: list[_Followed] = []
        self._by_loader: weakref.WeakKeyDictionary[Any, _Followed] = weakref.WeakKeyDictionary()

    def start(self) -> None:
        """Replaces the iterators, if tuning is possible here."""
        if reason := platforms.reason_not_autotuning():
            self._reporting.announce(f"{reason}: the program runs unchanged")
            self._process = None
            return
        import nws_sweep.online.loader  # noqa: F401 - now: the first epoch would be longer by this time

        super().start()

    def conclude(self, program: str) -> None:
        """Ends the tuner of the training DataLoader, and keeps what it has found."""
        training = self._training
        if training is None:
            self._say_what_was_seen(program)
            return
        from nws_sweep.online.loader import record

        training.tuner.end()
        alternatives = []
        for followed in self._followed:
            if followed is training or not followed.tuner.batches:
                continue
            if not self._watches and self._is_beside(followed.tuner):
                followed.tuner.end()
            elif followed.likeness:
                alternatives.append(followed)
        if alternatives and self._wanted is None:
            self._say_that_others_were_left(training, alternatives)
        if training.tuner.trials:
            self._reporting.keep(record(training.tuner))

    def _say_that_others_were_left(self, training: _Followed, alternatives: Sequence[_Followed]) -> None:
        names = ", ".join(followed.name for followed in alternatives)
        option = f"{self._reporting.option}{alternatives[0].number}"
        self._reporting.announce(
            f"{training.name} was taken as the training DataLoader, not {names}; {option} chooses another"
        )

    def _say_what_was_seen(self, program: str) -> None:
        if self._tunes_itself:
            self._reporting.announce(f"{program} has tuned its DataLoader itself")
            return
        if not (self._wanted and self._followed):
            self._say_that_none_was_seen(program)
            return
        names = ", ".join(followed.name for followed in self._followed)
        missed = f"a DataLoader of the class or number {self._wanted}, but over {names}"
        self._reporting.announce(f"{program} ended without iterating over {missed}")

    def get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """An iterator that tunes the loader."""
        from nws_sweep.online.loader import TunedLoader, iterator_of

        if isinstance(loader, TunedLoader):
            self._tunes_itself = True
            return original(loader)
        training = self._training
        if self._watches and training and training.tuner.tuning.is_decided:  # nothing is left to time
            return original(loader)
        return iterator_of(loader, lambda: self._tuner_of(loader), original)

    @property
    def _training(self) -> _Followed | None:
        """The selected loader; None if it has not given any batch."""
        iterated = [followed for followed in self._followed if followed.tuner.batches]
        if self._wanted is not None:
            iterated = [followed for followed in iterated if followed.is_wanted]
        return max(iterated, key=lambda followed: (followed.likeness, followed.tuner.batches), default=None)

    def _is_training(self, tuner: "Tuner") -> bool:
        training = self._training
        if training is None:
            return False
        if training.tuner is tuner:
            return training.likeness > 0 or not self._watches  # watching can wait until the choice is certain
        return not self._watches and self._is_beside(tuner)

    def _is_beside(self, tuner: "Tuner") -> bool:
        """Whether the training takes batches of this loader and of the training DataLoader in turn."""
        training = self._training
        if self._wanted is not None or training is None:
            return False
        return tuner.time.is_parallel and training.tuner.time.is_parallel

    def _tuner_of(self, loader: Any) -> "Tuner":
        from nws_sweep.dataloading.loaders import NOT_TRAINING, reason_not_training
        from nws_sweep.online.plan import kind_of

        if loader not in self._by_loader:
            kind = kind_of(loader)
            self._by_loader[loader] = self._followed_before(loader, kind) or self._follow(loader, kind)
        followed = self._by_loader[loader]
        followed.likeness = max(followed.likeness, NOT_TRAINING.index(reason_not_training(loader)))
        return followed.tuner

    def _followed_before(self, loader: Any, kind: str) -> _Followed | None:
        """What follows loaders of this kind with the same dataset, or with a dataset that is gone."""
        for followed in self._followed:
            dataset = followed.dataset()
            is_alike = followed.kind == kind and (dataset is None or dataset is loader.dataset)
            if is_alike and not _is_another(followed.latest(), loader):
                followed.dataset, followed.latest = _dataset_of(loader), weakref.ref(loader)
                followed.tuner.is_remade = True
                return followed
        return None

    def _follow(self, loader: Any, kind: str) -> _Followed:
        from nws_sweep.dataloading.loaders import reason_not_training
        from nws_sweep.online.loader import tuner_of

        number = len(self._followed) + 1
        is_wanted = self._is_wanted(number, loader)
        is_chosen = is_wanted if self._wanted else not reason_not_training(loader)
        options = dict(self._options)
        if not is_chosen:  # an earlier answer is for a DataLoader whose settings may change
            options["reuse"] = "never"
        tuner = tuner_of(loader, **options, progress=self._reporting.progress, watches=self._watches)
        tuner.may_change = self._is_training
        tuner.sees_others = True
        tuner.time.name = type(loader.dataset).__name__
        followed = _Followed(
            name=_name(number, loader), number=number, kind=kind, dataset=_dataset_of(loader),
            latest=weakref.ref(loader), is_wanted=is_wanted, likeness=0, tuner=tuner,
        )  # fmt: skip
        self._followed.append(followed)
        return followed


def _is_another(earlier: Any, loader: Any) -> bool:
    """Whether both are in use, as a DataLoader for training and one for validation over parts of one dataset are.

    Loaders that are made for one epoch each have epochs of one length, though the earlier one may not be gone yet.
    """
    from nws_sweep.online.loader import batches_of

    return earlier not in (None, loader) and batches_of(earlier) != batches_of(loader)


def _dataset_of(loader: Any) -> Callable[[], Any]:
    """A weak reference; to the loader if its dataset is what cannot be referenced weakly, such as a list."""
    try:
        return weakref.ref(loader.dataset)
    except TypeError:
        reference = weakref.ref(loader)
        return lambda: getattr(reference(), "dataset", None)


class TrainerHook:
    """A trainer's callback, whose hook prints what was found. The hook is made when training begins: trainers pickle
    callbacks before.

    Args:
        loader: The selected DataLoader.
        progress: As for ``nws_sweep.search``.
        options: Those of ``TuningHook``. ConfigurationError or TypeError if one is wrong.
    """

    def __init__(self, loader: Wanted = None, progress: bool | Print | None = None, **options: Any) -> None:
        self._loader, self._progress, self._options = loader, progress, options
        self._hook: TuningHook | None = None
        self._make()

    def _make(self) -> TuningHook:
        announce = announcer(self._progress)
        reporting = Reporting(announce=announce, warn=announce, progress=self._progress, option="loader=")
        return TuningHook(reporting, self._loader, **self._options)

    def begin(self, *_: Any, **__: Any) -> None:
        """Training begins; an earlier training run may have ended by an exception."""
        self.end()
        self._hook = self._make()
        self._hook.start()

    def end(self, *_: Any, **__: Any) -> None:
        """Training has ended, if it had begun."""
        hook, self._hook = self._hook, None
        if hook is not None:
            hook.end("training")
