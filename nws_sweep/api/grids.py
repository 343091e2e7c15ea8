"""``sweep``: a grid in Python, with the folder and the report of the command line's."""

import inspect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from nws_sweep.api import searching
from nws_sweep.api.loader_search import LoaderSearch
from nws_sweep.api.request import Request
from nws_sweep.config import schema
from nws_sweep.config.python_notation import explained, require_arguments
from nws_sweep.dataloading.inputs import DATALOADER_DEFAULTS, loader_input_of
from nws_sweep.errors import ConfigurationError, NwsSweepError
from nws_sweep.records import SearchRecord, shown, storage
from nws_sweep.report import writer
from nws_sweep.report.progress import Print, Progress, noter
from nws_sweep.report.sweep_result import SweepResult
from nws_sweep.searching import earlier_results
from nws_sweep.searching.search import new_record
from nws_sweep.system import platforms
from nws_sweep.trials import rank0

# arguments that may be lists themselves
_LISTS = ("num_workers", "settings", "sampler", "batch_sampler", "config")


@explained
def sweep(
    dataset: Any,
    *,
    folder: str | Path | None = None,
    progress: Progress = None,
    **keywords: Any,
) -> SweepResult:
    """Searches ``num_workers`` for each combination of values, as ``python -m nws_sweep
    -m`` does.

    The folder gets the same files and the same report. A combination that cannot be
    measured is a row with its reason. Interrupted, a repeated call measures only what
    is missing, by the stored results (see ``reuse`` of :func:`search`).

    Args:
        dataset: As for :func:`search`.
        folder: Where the files are written; None for ``outputs/sweeps/`` and the time.
        progress: As for :func:`search`.
        keywords: Those of :func:`search`. One with a list, a tuple or a range is an
            axis of the grid, except ``num_workers``, ``settings``, ``sampler`` and
            ``batch_sampler``, which are lists themselves.

    Returns:
        The results of all combinations, the best first in ``best``.

    Raises:
        TypeError: If :func:`search` has no such keyword.
        ConfigurationError: If a value is wrong; nothing has been measured then.

    Example:
        >>> import torch, nws_sweep
        >>> from torch.utils.data import TensorDataset
        >>> grid = nws_sweep.sweep(TensorDataset(torch.arange(512.0)), batch_size=[32, 64], num_workers=[0, 1])
        >>> sorted(grid.best_params)
        ['batch_size', 'num_workers']
    """
    require_arguments("sweep", keywords, searching.search)
    platforms.require("searching")
    searches = _searches(dataset, {**keywords, "progress": progress})
    if folder is not None:
        _refuse_others(Path(folder), [name for name, _ in searches])
    note = noter(progress)

    def sweep_here() -> SweepResult:
        return _swept(
            searches,
            Path(folder) if folder is not None else storage.new_folder("sweeps"),
            note,
        )

    return rank0.run_on_rank0(sweep_here)


def _searches(
    dataset: Any, keywords: Mapping[str, Any]
) -> list[tuple[str, LoaderSearch]]:
    """Makes a search for each combination of values, with the name of its folder; the
    last axis varies fastest."""
    axes = {}
    for name, value in keywords.items():
        if isinstance(value, list | tuple | range) and name not in _LISTS:
            axes[name] = _named(value)
            if not value:
                raise ConfigurationError(f"{name}=[]: an axis of a grid needs a value")
    searches = []
    for combination in itertools.product(*axes.values()):
        point = dict(zip(axes, combination, strict=True))
        values = {axis: axes[axis][name] for axis, name in point.items()}
        name = schema.folder_name(
            [f"{axis}={shown(value)}" for axis, value in point.items()]
        )
        searches.append((name, _search(dataset, {**keywords, **values}, point)))
    return searches


def _search(
    dataset: Any, keywords: Mapping[str, Any], point: Mapping[str, Any]
) -> LoaderSearch:
    """Makes the search of a point with the keywords of ``search``, and checks their
    values."""
    bound = inspect.signature(searching.search).bind(dataset, **keywords)
    bound.apply_defaults()
    arguments = bound.arguments
    request = Request(
        **{field.name: arguments[field.name] for field in fields(Request)}
    )
    loader_input = loader_input_of(
        dataset, {name: arguments[name] for name in DATALOADER_DEFAULTS}
    )
    return LoaderSearch(loader_input, request, point)


def _named(values: Iterable[Any]) -> dict[Any, Any]:
    """Names the values of an axis for tables and folders: plain values stand for
    themselves, others have names."""
    by_name: dict[Any, Any] = {}
    for value in values:
        if value is None or isinstance(value, bool | int | float | str):
            by_name[value] = value
        else:
            name = getattr(value, "__name__", type(value).__name__)
            unused = (
                numbered
                for numbered in storage.numbered(name)
                if numbered not in by_name
            )
            by_name[next(unused)] = value
    return by_name


def _refuse_others(folder: Path, names: Sequence[str]) -> None:
    """Raises ConfigurationError if a folder holds results of anything but a grid with
    these points."""
    stored = {
        result.parent.relative_to(folder).as_posix()
        for result in folder.rglob(storage.RESULT)
    }
    if others := sorted(stored - {*names}):
        raise ConfigurationError(
            f"folder={folder}: holds other results ({others[0]}); choose another one"
        )


def _swept(
    searches: Sequence[tuple[str, LoaderSearch]], folder: Path, note: Print
) -> SweepResult:
    records: list[SearchRecord] = []
    for number, (name, search) in enumerate(searches, 1):
        note(f"search {number} of {len(searches)}: {name}")
        records.append(_record(search, records))
        storage.save(folder / name, records[-1])
        writer.try_pictures(folder / name)
    summary, _ = writer.write(folder)
    note(f"wrote {folder / storage.PAGE}")
    return SweepResult(summary)


def _record(search: LoaderSearch, earlier: Sequence[SearchRecord]) -> SearchRecord:
    """Measures a point, unless an earlier point does the same; a point that fails has a
    record with the error."""
    same = earlier_results.measured_once(search.configuration, earlier)
    if same is not None and search.is_comparable:
        return same
    start = new_record(search.configuration)
    try:
        record, _ = search.run()
    except NwsSweepError as failure:
        return replace(start, error=str(failure))
    return record
