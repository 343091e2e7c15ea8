"""``tune``: a DataLoader with the settings that a search has found."""

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from nws_sweep.api.request import Request, TrainingStep
from nws_sweep.api.searching import search_for_all_ranks
from nws_sweep.config.python_notation import explained
from nws_sweep.dataloading import generators, loaders, sharing
from nws_sweep.dataloading.generators import SeededGenerators
from nws_sweep.dataloading.inputs import (
    DATALOADER_DEFAULTS,
    LoaderInput,
    is_module,
    loader_input_of,
    loader_of_module,
)
from nws_sweep.errors import ConfigurationError, OutOfTime
from nws_sweep.records import LoaderSettings, MeasureRules, Status, Tuning
from nws_sweep.report.progress import Progress, announcer, noter
from nws_sweep.report.search_result import SearchResult
from nws_sweep.system import platforms, processes

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


class DataModule(Protocol):
    """A LightningDataModule."""

    def train_dataloader(self) -> Any:
        """The training DataLoader."""


Made = TypeVar("Made", bound="DataLoader[Any] | DataModule")


@explained
def tune(  # noqa: PLR0913
    loader: Made | Callable[[], Made],
    *,
    patience: int = 3,
    strategy: str = "adaptive",
    num_workers: Sequence[int] | None = None,
    max_workers: int | None = None,
    settings: str | Sequence[str] | None = None,
    training_step: TrainingStep = None,
    tolerance: float = 0.03,
    time_limit_s: float | None = None,
    measure: str | MeasureRules | None = None,
    check_samples: bool | None = None,
    ranks: int = 1,
    reuse: bool | str = "fresh",
    config: Any = None,
    progress: Progress = None,
) -> Made:
    """Returns the same DataLoader with the best settings; see :func:`search` for the
    arguments and errors.

    Only ``num_workers``, the settings that are searched after it and, if the best
    number is 0, those that DataLoader then rejects differ: ``timeout``,
    ``prefetch_factor``, ``persistent_workers`` and ``multiprocessing_context``. Class,
    attributes, sampler and generator stay the same. If the dataset has its own random
    number generators, ``worker_init_fn`` seeds them, so that workers do not draw the
    same numbers.

    Args:
        loader: A DataLoader, which does not change; or a wrapper of one, such as
            accelerate's and webdataset's loaders; or a LightningDataModule, for its
            train_dataloader; or a function without arguments that returns one of them,
            if it cannot be pickled: it is called once more here.

    Returns:
        A copy of the loader, of the same class, which shares its dataset and sampler.
        Its attribute ``tuning`` has what was changed, why, and the times before and
        after.

    Example:
        >>> import torch, nws_sweep
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> loader = DataLoader(TensorDataset(torch.arange(512.0)), batch_size=64)
        >>> loader = nws_sweep.tune(loader, num_workers=[0, 1])
        >>> sum(len(batch) for (batch,) in loader)
        512
    """
    request = Request(
        patience=patience,
        strategy=strategy,
        num_workers=num_workers,
        max_workers=max_workers,
        settings=settings,
        training_step=training_step,
        tolerance=tolerance,
        time_limit_s=time_limit_s,
        measure=measure,
        check_samples=check_samples,
        ranks=ranks,
        reuse=reuse,
        config=config,
        progress=progress,
    )
    is_given = is_module(loader) or loaders.is_loader(loader)
    if not is_given and not callable(loader):
        raise ConfigurationError(
            f"tune({type(loader).__name__}): must be a DataLoader or a LightningDataModule; search() takes a dataset"
        )
    make_loader = cast("Callable[[], Made]", (lambda: loader) if is_given else loader)

    def unchanged(reason: str) -> Made:
        announcer(progress)(f"{reason}: the DataLoader is not changed")
        return _with_reason(make_loader(), reason)

    if reason := platforms.reason_not("tuning") or processes.reason_not_starting():
        return unchanged(reason)

    try:
        result = search_for_all_ranks(
            lambda: _loader_input(make_loader, is_given), request
        )
    except OutOfTime as error:
        return unchanged(str(error))
    except processes.Interrupted as stop:
        # a handler of the program has taken it, for the loop that follows
        return unchanged(f"{stop} ended the search")
    tuned = _with_result(make_loader(), result)
    # the search has announced the first line
    for line in (*result.conclusion.lines[1:], *_consequences(tuned, result)):
        noter(progress)(line)
    return tuned


def _loader_input(make_loader: Callable[[], Any], is_given: bool) -> LoaderInput:
    """Reads what is measured: the loader, or the function that makes it, which is
    called in a trial process."""
    if is_given:
        return loader_input_of(_measured(make_loader), DATALOADER_DEFAULTS)
    maker = functools.wraps(make_loader)(functools.partial(_measured, make_loader))
    return loader_input_of(maker, DATALOADER_DEFAULTS)


def _consequences(tuned: Any, result: SearchResult) -> Iterator[str]:
    """Says that a loader is not changed, or that its workers seed generators of the
    dataset."""
    if is_module(tuned):
        return
    if tuned.tuning.after != result.settings:
        yield f"{tuned.tuning.reason}: the DataLoader is not changed"
    inner = loaders.unwrapped(tuned)
    if isinstance(inner.worker_init_fn, SeededGenerators):
        yield generators.seeding(generators.of_loader(inner))


def _measured(make: Callable[[], Any]) -> "DataLoader[Any]":
    """Makes the DataLoader to measure; of a LightningDataModule, whose copy is set up,
    the training DataLoader."""
    loaded = make()
    return loaders.unwrapped(
        loader_of_module(copy.copy(loaded)) if is_module(loaded) else loaded
    )


def _with_result(loaded: Made, result: SearchResult) -> Made:
    """Makes a copy with the best settings, and the attribute ``tuning``."""
    if is_module(loaded):
        module: Any = copy.copy(loaded)
        module.train_dataloader = functools.partial(_loader_of, module, result)
        module.tuning = _tuning(result)
        return cast("Made", module)
    inner = loaders.untuned(loaders.unwrapped(loaded))
    untuned = loaders.with_inner(loaded, inner)
    if reason := _reason_against(inner, result.settings):
        return _with_reason(untuned, reason)
    tuned: Any = loaders.with_settings(untuned, result.settings)
    tuned.tuning = _tuning(result)
    return cast("Made", tuned)


def _reason_against(loader: "DataLoader[Any]", settings: LoaderSettings) -> str:
    """Says why the workers of these settings must not use the dataset of this process;
    empty if they may."""
    if settings.num_workers in (0, loader.num_workers):
        return ""
    return sharing.reason_against_workers(loader)


def _with_reason(loaded: Made, reason: str) -> Made:
    """Gives a DataLoader the attribute ``tuning``, and changes nothing: a program may
    print it on each machine."""
    if not is_module(loaded) and not hasattr(type(loaded), "tuning"):
        settings = loaders.settings_of(loaders.unwrapped(loaded))
        vars(loaded)["tuning"] = Tuning(
            before=settings,
            after=settings,
            is_decided=True,
            reason=reason,
            lines=(f"num_workers={settings.num_workers}   {reason}",),
        )
    return loaded


def _loader_of(module: Any, result: SearchResult) -> Any:
    return _with_result(type(module).train_dataloader(module), result)


def _tuning(result: SearchResult) -> Tuning:
    before, answer = result.record.configuration.loader, result.conclusion
    times_s = {}
    for trial in result.trials:
        if trial.measurement and trial.measurement.batch_s:
            times_s[trial.settings] = trial.measurement.batch_s.value
    in_turn = (before.canonical(), result.settings)
    is_measured = result.status == Status.MEASURED
    why = answer.why or result.stop_reason
    return Tuning(
        before=before,
        after=result.settings,
        is_decided=True,
        is_provisional=not is_measured,
        reason=why if is_measured else answer.answer,
        batch_s=tuple(times_s[settings] for settings in in_turn if settings in times_s),
        lines=tuple(answer.lines),
    )
