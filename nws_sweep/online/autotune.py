"""``autotune``: a DataLoader that finds its settings while training iterates over
it."""

import atexit
import collections
import contextlib
import functools
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from torch.utils.data import DataLoader, IterableDataset, MapDataPipe

from nws_sweep.config.python_notation import explained
from nws_sweep.config.search_options import AutotuneOptions, autotune_options
from nws_sweep.dataloading import generators, loaders, sharing
from nws_sweep.dataloading.fingerprints import is_library
from nws_sweep.dataloading.inputs import DATALOADER_DEFAULTS, loader_input_of
from nws_sweep.dataloading.pickling import placeholder
from nws_sweep.errors import one_line
from nws_sweep.model import choice
from nws_sweep.online import answer, safeguards
from nws_sweep.online.iterator import TunedIterator
from nws_sweep.online.plan import Agreement, kind_of
from nws_sweep.online.tuner import Tuner
from nws_sweep.online.watcher import Watcher
from nws_sweep.records import (
    ONLINE_STRATEGY,
    Configuration,
    DatasetFacts,
    LoaderSettings,
    MeasureRules,
    SearchRecord,
    SearchRules,
    Tuning,
    Verdict,
)
from nws_sweep.records.result_cache import ResultStore
from nws_sweep.report.progress import Progress, announcer, noter
from nws_sweep.searching.search import new_record
from nws_sweep.system import accelerator, host, platforms, processes, torch_internals
from nws_sweep.trials import rank0

logger = logging.getLogger(__name__)
AnyLoader = TypeVar("AnyLoader")


def plain(loader: DataLoader[Any]) -> DataLoader[Any]:
    """A copy of a DataLoader, of its class without tuning and without an iterator, also
    in attributes of the class.

    Attributes that have been set since ``autotune`` are in the copy too.
    """
    copied: DataLoader[Any] = object.__new__(
        getattr(type(loader), "_plain_class", type(loader))
    )
    vars(copied).update(vars(loader))
    vars(copied).pop("_tuner", None)
    torch_internals.forget_iterator(copied)
    loaders.leave_out_iterators(copied)
    return copied


class TunedLoader(DataLoader[Any]):
    """The part that a tuned loader has besides its own class; ``autotune`` makes the
    class of both.

    Programs that make another loader of the same class, as Lightning does for a
    DistributedSampler, get a tuned one.
    """

    plain = plain
    _plain_class: type[DataLoader[Any]]
    _options: AutotuneOptions

    @property
    def tuning(self) -> Tuning:
        """What has been found so far."""
        return self._own_tuner().tuning

    @property
    def num_workers(self) -> int:
        """The number in use; the program's if its workers are persistent and none is in
        use.

        With the number 0, DataLoader would make an iterator for each epoch, which draws
        from the random numbers.
        """
        number: int = vars(self)["num_workers"]
        tuner: Tuner | None = vars(self).get("_tuner")
        in_use = tuner.current.num_workers if tuner else number
        return in_use or (number if self.persistent_workers else 0)

    @num_workers.setter
    def num_workers(self, number: int) -> None:
        vars(self)["num_workers"] = number

    def _own_tuner(self) -> Tuner:
        """The tuner, made at the first epoch: only then distributed training has its
        process group."""
        tuner: Tuner | None = vars(self).get("_tuner")
        if tuner is None:
            tuner = vars(self)["_tuner"] = tuner_of(self.plain(), self._options)
            _recent.append((os.getpid(), tuner))
        return tuner

    def _get_iterator(self) -> Any:
        return iterator_of(self, self._own_tuner, torch_internals.new_iterator)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled like a plain DataLoader; what has been found is not."""
        return functools.partial(_followed, options=self._options), (self.plain(),)


# with their processes
_recent: collections.deque[tuple[int, Tuner]] = collections.deque(maxlen=8)


@atexit.register
def _end_recent() -> None:
    """Says what is known if the program ends before it is decided."""
    for process, tuner in _recent:
        if tuner.batches and not tuner.tuning.is_decided and os.getpid() == process:
            with contextlib.suppress(Exception):  # standard error may be closed
                tuner.end()


def iterator_of(
    loader: DataLoader[Any],
    find_tuner: Callable[[], Tuner],
    untuned: Callable[[Any], Any],
) -> Any:
    """An iterator over one epoch of a DataLoader, or over all of them with persistent
    workers.

    It is that of ``untuned`` if tuning fails.

    Args:
        loader: The DataLoader.
        find_tuner: Gives the tuner of the loader.
        untuned: Makes the iterator of a loader of its class without tuning.
    """
    restore: Callable[[], None] | None = None
    tuner: Tuner | None = None
    try:
        restore = loaders.order_restorer(loader)
        tuner = find_tuner()
        # else nothing is left to time
        if tuner.changes_settings or not tuner.tuning.is_decided:
            return _tuned_iterator(loader, tuner)
    except Exception as error:  # training continues without tuning
        text = one_line(f"the DataLoader is not tuned: {type(error).__name__}: {error}")
        logger.warning(text)
        if tuner is not None:
            with contextlib.suppress(Exception):
                tuner.give_up(text)
        if restore is not None:
            restore()
    iterator = untuned(plain(loader))
    safeguards.forget_loaded(loader)
    return iterator


def _tuned_iterator(loader: DataLoader[Any], tuner: Tuner) -> TunedIterator:
    copy = plain(loader)
    workers = safeguards.loaded_workers(copy)
    if workers is not None and workers != tuner.current.num_workers:
        tuner.tuning = replace(tuner.tuning, after=tuner.base.with_workers(workers))
    tuner.batches_per_epoch = batches_of(copy)
    iterator = TunedIterator(copy, tuner)
    safeguards.forget_loaded(copy)
    safeguards.forget_loaded(loader)
    return iterator


@functools.cache
def _tuned_class(
    kind: type[DataLoader[Any]], options: AutotuneOptions
) -> type[TunedLoader]:
    """A subclass of the loader's own class: ``isinstance`` gives what it gave
    before."""
    bases = (TunedLoader,) if kind is DataLoader else (TunedLoader, kind)
    attributes = {"_plain_class": kind, "_options": options, "__doc__": kind.__doc__}
    return type(f"Tuned{kind.__name__}", bases, attributes)


@explained
def autotune(
    loader: AnyLoader,
    *,
    max_workers: int | None = None,
    settings: str | Iterable[str] | None = None,
    reuse: bool | str = "fresh",
    once: bool = False,
    progress: Progress = None,
) -> AnyLoader:
    """A copy of a DataLoader that finds ``num_workers`` while it is iterated, in the
    first epoch of training.

    Each epoch has the same batches, each once. Augmentations draw other random numbers
    after a change of settings; docs/guides/programs.md says what is promised. The
    attribute ``tuning`` has what was found; one line says so once.

    Args:
        loader: A DataLoader, or an object that wraps one, such as a loader of
            accelerate. It is not changed.
        max_workers: Maximum number of workers; None for 64 or the CPUs, more only after
            a large gain, as memory allows.
        settings: Further settings that may change: ``prefetch_factor``, or nothing;
            None for prefetch_factor unless the loader's value is not DataLoader's
            default, as in ``search``.
        reuse: Whether an earlier answer for the same map-style dataset and settings on
            this machine is used at first: ``fresh`` (or True) for one of the last 30
            days with the same versions, ``always``, or ``never`` (or False).
        once: Whether the settings never change once they are decided. Otherwise they
            are reconsidered, at most every ten minutes, if training waits for data for
            a tenth of the time more than then, or if it does not wait and half of the
            workers would do. In distributed training they never change again.
        progress: Where the line is printed, as for ``search``; it is logged at INFO in
            any case.

    Raises:
        ConfigurationError: If the loader or a value is not allowed.
    """
    return _followed(
        loader, autotune_options(max_workers, settings, reuse, once, progress=progress)
    )


@explained
def watch(loader: AnyLoader, *, progress: Progress = None) -> AnyLoader:
    """A copy of a DataLoader that says after its first epoch what share of the time
    training waits for data.

    It also says which ``num_workers`` and ``prefetch_factor`` are predicted to be
    better; nothing changes. The attribute ``tuning`` has what was found.

    Args:
        loader: A DataLoader, or an object that wraps one. It is not changed.
        progress: Where the line is printed, as for ``autotune``.

    Raises:
        ConfigurationError: If the loader is not allowed.
    """
    return _followed(
        loader, autotune_options(reuse="never", watches=True, progress=progress)
    )


def _followed(loader: AnyLoader, options: AutotuneOptions) -> AnyLoader:
    """A copy whose iterators have a tuner, made with these options; the loader itself
    if it has such a tuner already, or there can be none."""
    inner = loaders.unwrapped(loader)
    if isinstance(inner, TunedLoader) and inner._options.watches == options.watches:
        return loader
    untuned = loaders.untuned(inner)
    loaders.settings_of(untuned)  # refuses workers that are not processes
    if reason := platforms.reason_not_autotuning():
        announcer(options.progress)(f"{reason}: the DataLoader is not changed")
        return loader
    return loaders.with_inner(loader, _tuned(untuned, options))


def _tuned(loader: DataLoader[Any], options: AutotuneOptions) -> TunedLoader:
    """A copy of a plain DataLoader, of a subclass with these options."""
    copied = object.__new__(_tuned_class(type(loader), options))  # type: ignore[arg-type]  # a class has a hash
    vars(copied).update(vars(loader))
    torch_internals.forget_iterator(copied)
    loaders.renew_iterators(copied)
    return copied


def tuner_of(loader: DataLoader[Any], options: AutotuneOptions) -> Tuner:
    """The tuner of a plain DataLoader, or a watcher."""
    base = loaders.settings_of(loader, in_effect=True).canonical()
    configuration = _configuration(loader)
    searched = replace(configuration.search, settings=options.settings).searched(
        configuration.loader
    )
    reason = "" if options.watches else _reason_to_stay(loader, base)
    first = base
    # The length of a stream's epoch with the program's own number must be known
    # before another one is in use.
    if not (reason or options.watches or isinstance(loader.dataset, IterableDataset)):
        first = _earlier_answer(loader, base, configuration, options, searched) or base
    tuner = (Watcher if options.watches else Tuner)(
        tuning=Tuning(before=base, after=first),
        start=replace(new_record(configuration), facts=_facts(loader, base)),
        changes_within_epochs=_changes_within_epochs(loader),
        most_workers=options.max_workers,
        prefetches="prefetch_factor" in searched,
        reorders=options.watches and hasattr(loader, "in_order"),  # since torch 2.6
        once=options.once,
        announce=announcer(options.progress),
        note=noter(options.progress),
        on_decided=answer.tell if options.watches else _conclude,
        others=Agreement(kind_of(loader))
        if rank0.has_other_ranks() and not reason
        else None,
        own_generators=generators.of_loader(loader),
        has_own_state=safeguards.saves_by_iterators(loader),
        endless_batches=loaders.batches_of_endless(loader),
        place=_place_of_loop(),
    )
    if reason:
        tuner.decide(reason)
    return tuner


def _place_of_loop() -> str:
    """File and line of the program that begins to iterate, such as ``train.py:40``;
    empty in a notebook."""
    frame = sys._getframe()
    while frame.f_back and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    return f"{path.name}:{frame.f_lineno}" if path.is_file() else ""


def _earlier_answer(
    loader: DataLoader[Any],
    base: LoaderSettings,
    configuration: Configuration,
    options: AutotuneOptions,
    searched: Sequence[str],
) -> LoaderSettings | None:
    """The settings that were found before, if they keep to these options; ``base`` are
    those of the program, of which ``searched`` may change."""
    earlier = ResultStore().find(configuration, host.describe(), options.reuse)
    if earlier is None or earlier.verdict is None:
        return None
    settings = earlier.verdict.recommended
    workers, most_workers = settings.num_workers, options.max_workers
    is_too_many = most_workers is not None and workers > max(
        most_workers, base.num_workers
    )
    has_others = not searched and settings.differing(base.with_workers(workers))
    if settings == base:
        return settings
    if is_too_many or has_others or sharing.reason_against_workers(loader):
        return None
    return settings


def _reason_to_stay(loader: DataLoader[Any], base: LoaderSettings) -> str:
    """Why the settings must not change; empty if they may."""
    if reason := processes.reason_not_starting():
        return reason
    if not base.num_workers and processes.runs_main(loaders.start_method(loader)):
        return 'each new worker would run the main script, which has no if __name__ == "__main__"'
    return safeguards.reason_of_state(loader)


def _configuration(loader: DataLoader[Any]) -> Configuration:
    loader_input = loader_input_of(loader, DATALOADER_DEFAULTS)
    return Configuration(
        columns={
            "dataset": loader_input.name,
            "batch_size": loader_input.settings.batch_size,
        },
        dataset=placeholder(loader_input.name, loader_input.fingerprint),
        training_step=placeholder("the training", ""),
        loader=replace(loader_input.settings, num_workers=0),
        measure=MeasureRules(),
        search=SearchRules(strategy=ONLINE_STRATEGY, candidates=(0,)),
    )


def _facts(loader: DataLoader[Any], base: LoaderSettings) -> DatasetFacts:
    """Says what is known of the dataset without reading it; ``base`` are the settings
    that the program gave."""
    dataset = loader.dataset
    kind = type(dataset)
    has_length = batches_of(loader) is not None
    return DatasetFacts(
        type=f"{kind.__module__}.{kind.__qualname__}",
        iterable=isinstance(dataset, IterableDataset),
        samples=loaders.samples_per_epoch(loader) if has_length else None,
        accelerator=accelerator.available(),
        loader=base,
    )


def _changes_within_epochs(loader: DataLoader[Any]) -> bool:
    """Whether workers can be started within an epoch.

    An iterable dataset has no index lists that a second pool could continue with, and
    custom iterators keep them.

    A pool may be forked beside the thread that pins memory for the one before. A forked
    child deadlocks only if that thread is just then making its first calls of torch,
    which register destructors under a lock of glibc (ultralytics/ultralytics#26085,
    pytorch/pytorch#130610). A change begins after batches that the thread has pinned.
    """
    if torch_internals.makes_own_iterators(loader):
        return False
    return not isinstance(loader.dataset, IterableDataset | MapDataPipe)


def batches_of(loader: DataLoader[Any]) -> int | None:
    """Length of an epoch; samplers of others are not asked, since ``len`` of them may
    draw batches."""
    if isinstance(loader.dataset, IterableDataset):
        return None
    sampler = loaders.index_sampler(loader)
    is_torchs = type(sampler).__module__.startswith("torch.utils.data")
    return loaders.length(sampler) if is_torchs else None


def _conclude(tuner: Tuner) -> None:
    """Says what was found, and stores it for the next training run; of several ranks,
    rank 0 does."""
    answer.tell(tuner)
    if tuner.trials and tuner.leads:
        ResultStore().add(record(tuner))


def record(tuner: Tuner) -> SearchRecord:
    """What a tuner has found, as the record of a search; provisional unless the
    settings in use were timed."""
    costs_s = tuner.times.batch_s
    settings = after = tuner.tuning.after
    if costs_s:
        settings = choice.choose(costs_s, tuner.configuration.search.tolerance)
    verdict = Verdict(
        recommended=settings,
        fastest=min(costs_s, key=costs_s.__getitem__, default=settings),
        provisional=tuner.tuning.is_provisional or after not in costs_s,
    )
    trials, reason = tuple(tuner.trials.values()), tuner.tuning.reason
    return replace(tuner.start, trials=trials, stop_reason=reason, verdict=verdict)
