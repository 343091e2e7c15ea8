"""The hook that tunes or watches the training DataLoader of a program, and the
callbacks of trainers that start it."""

import functools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nws_sweep.config.search_options import autotune_options
from nws_sweep.programs.program_hook import ProgramHook, Reporting, Wanted, name_of
from nws_sweep.report.progress import Progress, announcer
from nws_sweep.system import platforms

if TYPE_CHECKING:
    from nws_sweep.online.tuner import Tuner


@dataclass(eq=False)
class _FollowedLoader:
    """A DataLoader that has a tuner, or several DataLoaders that the program makes for
    one epoch each."""

    number: int
    kind: str
    dataset: Callable[[], Any]  # None once it is gone
    latest: Callable[[], Any]  # the newest DataLoader; None once it is gone
    tuner: "Tuner"
    # to a training DataLoader: the largest index in ``loaders.NOT_TRAINING`` so far
    likeness: int = 0

    @property
    def name(self) -> str:
        return name_of(self.number, self.tuner.time.name)


class TuningHook(ProgramHook):
    """Gives each DataLoader a tuner; loaders that are made for one epoch each share a
    tuner.

    All DataLoaders are timed. Only the selected DataLoader changes its settings, or is
    reported if nothing may change: of several that may be the training DataLoader, the
    DataLoader that has given most batches so far; of several that the training takes
    batches from in turn, as with ``zip``, the slowest.

    Args:
        reporting: How it reports.
        loader: The selected DataLoader.
        watches: Whether settings do not change.
        options: ``max_workers``, ``settings``, ``reuse`` and ``once`` as for
            ``nws_sweep.autotune``.
    """

    def __init__(
        self,
        reporting: Reporting,
        loader: Wanted,
        *,
        watches: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(reporting, loader)
        self._options = autotune_options(
            **options, watches=watches, progress=reporting.progress
        )
        self._tunes_itself = False
        self._followed: list[_FollowedLoader] = []
        self._by_loader: weakref.WeakKeyDictionary[Any, _FollowedLoader] = (
            weakref.WeakKeyDictionary()
        )

    def start(self) -> None:
        """Replaces the iterators, if tuning is possible here."""
        if reason := platforms.reason_not_autotuning():
            self._reporting.announce(f"{reason}: the program runs unchanged")
            self._process = None
            return
        import nws_sweep.online.autotune  # noqa: F401 - now: the first epoch would be longer by this time

        super().start()

    def conclude(self, program: str) -> None:
        """Ends the tuner of the training DataLoader, and keeps what it has found."""
        training = self._training
        if training is None:
            self._say_what_was_seen(program)
            return
        from nws_sweep.online.autotune import record

        training.tuner.end()
        alternatives = []
        for followed in self._followed:
            if followed is training or not followed.tuner.batches:
                continue
            if self._is_beside(followed.tuner):
                followed.tuner.end()
            elif followed.likeness:
                alternatives.append(followed)
        if alternatives and self._wanted is None:
            self._say_that_others_were_left(training, alternatives)
        if training.tuner.trials:
            self._reporting.keep(record(training.tuner))

    def _say_that_others_were_left(
        self, training: _FollowedLoader, alternatives: Sequence[_FollowedLoader]
    ) -> None:
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
        names = [followed.name for followed in self._followed]
        self._say_that_none_was_wanted(program, names)

    def get_iterator(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """Returns an iterator that tunes the loader."""
        from nws_sweep.online.autotune import TunedLoader, iterator_of

        if isinstance(loader, TunedLoader):
            self._tunes_itself = True
            return original(loader)
        training = self._training
        # nothing is left to time
        if self._options.watches and training and training.tuner.tuning.is_decided:
            return original(loader)
        return iterator_of(loader, lambda: self._tuner_of(loader), original)

    @property
    def _training(self) -> _FollowedLoader | None:
        """The selected loader; of several in turn, as in a zip, the slowest; None if it
        has not given any batch."""
        iterated = [followed for followed in self._followed if followed.tuner.batches]
        if self._wanted is not None:
            iterated = [
                followed
                for followed in iterated
                if self._is_wanted(followed.number, followed.tuner.time.name)
            ]
        training = max(
            iterated,
            key=lambda followed: (followed.likeness, followed.tuner.batches),
            default=None,
        )
        if training is None or not training.tuner.time.is_parallel:
            return training
        in_turn = [followed for followed in iterated if followed.tuner.time.is_parallel]
        return max(in_turn, key=lambda followed: followed.tuner.time.called_s)

    def _is_training(self, tuner: "Tuner") -> bool:
        training = self._training
        if training is None:
            return False
        if training.tuner is tuner:
            # Watching can wait until the choice is certain.
            return training.likeness > 0 or not self._options.watches
        return self._is_beside(tuner)

    def _is_beside(self, tuner: "Tuner") -> bool:
        """Whether the training takes batches of this loader and of the tuned DataLoader
        in turn."""
        training = self._training
        if self._options.watches or self._wanted is not None or training is None:
            return False
        return tuner.time.is_parallel and training.tuner.time.is_parallel

    def _tuner_of(self, loader: Any) -> "Tuner":
        from nws_sweep.dataloading.loaders import NOT_TRAINING, reason_not_training
        from nws_sweep.online.plan import kind_of

        if loader not in self._by_loader:
            kind = kind_of(loader)
            self._by_loader[loader] = self._followed_before(
                loader, kind
            ) or self._follow(loader, kind)
        followed = self._by_loader[loader]
        followed.likeness = max(
            followed.likeness, NOT_TRAINING.index(reason_not_training(loader))
        )
        return followed.tuner

    def _followed_before(self, loader: Any, kind: str) -> _FollowedLoader | None:
        """Finds what follows loaders of this kind with the same dataset, or with a
        dataset that is gone."""
        for followed in self._followed:
            dataset = followed.dataset()
            is_alike = followed.kind == kind and (
                dataset is None or dataset is loader.dataset
            )
            if is_alike and not _is_another(followed.latest(), loader):
                followed.dataset = _dataset_of(loader)
                followed.latest = weakref.ref(loader)
                followed.tuner.is_remade = True
                return followed
        return None

    def _follow(self, loader: Any, kind: str) -> _FollowedLoader:
        from nws_sweep.dataloading.loaders import reason_not_training
        from nws_sweep.online.autotune import tuner_of

        number, dataset_class = len(self._followed) + 1, type(loader.dataset).__name__
        options = self._options
        is_chosen = (
            self._is_wanted(number, dataset_class)
            if self._wanted
            else not reason_not_training(loader)
        )
        # an earlier answer is for a DataLoader whose settings may change
        if not is_chosen:
            options = replace(options, reuse="never")
        tuner = tuner_of(loader, options)
        tuner.may_change = functools.partial(self._is_training, tuner)
        tuner.sees_others = True
        tuner.time.name = dataset_class
        followed = _FollowedLoader(
            number, kind, _dataset_of(loader), weakref.ref(loader), tuner
        )
        self._followed.append(followed)
        return followed


def _is_another(earlier: Any, loader: Any) -> bool:
    """Tells whether both are in use, as DataLoaders for training and validation over
    parts of a dataset are.

    Loaders that are made for one epoch each have epochs of equal length, though the
    earlier loader may not be gone yet.
    """
    from nws_sweep.online.autotune import batches_of

    return earlier not in (None, loader) and batches_of(earlier) != batches_of(loader)


def _dataset_of(loader: Any) -> Callable[[], Any]:
    """References the dataset weakly; the loader if the dataset has no weak references,
    as a list."""
    try:
        return weakref.ref(loader.dataset)
    except TypeError:
        reference = weakref.ref(loader)
        return lambda: getattr(reference(), "dataset", None)


class TrainerHook:
    """A trainer's callback, whose hook prints what was found. The hook is made when
    training begins: trainers pickle callbacks before.

    Args:
        loader: The selected DataLoader.
        progress: As for ``nws_sweep.search``.
        options: Those of ``TuningHook``. ConfigurationError or TypeError if one is
            wrong.
    """

    def __init__(
        self, loader: Wanted = None, progress: Progress = None, **options: Any
    ) -> None:
        self._loader, self._progress, self._options = loader, progress, options
        self._hook: TuningHook | None = None
        self._make()

    def _make(self) -> TuningHook:
        announce = announcer(self._progress)
        reporting = Reporting(
            announce=announce, warn=announce, progress=self._progress, option="loader="
        )
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
