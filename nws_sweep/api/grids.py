"""``sweep``: a grid in Python, with the folder and the report of the command line's."""

import inspect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from nws_sweep.api.searching import Asked, Progress, configuration_of, dataloader_keywords, record_here, search
from nws_sweep.config import schema
from nws_sweep.config.earlier_names import explained
from nws_sweep.dataloading.inputs import loader_input_of
from nws_sweep.errors import ConfigurationError, NwsSweepError
from nws_sweep.report import writer
from nws_sweep.report.progress import announcer, printer_for
from nws_sweep.report.sweep_result import SweepResult
from nws_sweep.results import SearchRecord, shown, storage
from nws_sweep.system import host, platforms
from nws_sweep.tuning import earlier_results

_LISTS = ("num_workers", "settings", "sampler", "batch_sampler", "config")  # arguments that may be lists themselves


@explained
def sweep(dataset: Any, *, folder: str | Path | None = None, progress: Progress = None, **keywords: Any) -> SweepResult:
    """Searches ``num_workers`` for each combination of values, as ``python -m nws_sweep -m`` does.

    The folder gets the same files and the same report. A combination that cannot be measured is a row with its reason.
    Interrupted, a repeated call measures only what is missing, by the stored results (see ``reuse`` of
    :func:`search`).

    Args:
        dataset: As for :func:`search`.
        folder: Where the files are written; None for ``outputs/sweeps/`` and the time.
        progress: As for :func:`search`.
        keywords: Those of :func:`search`. One with a list, a tuple or a range is an axis of the grid, except
            ``num_workers``, ``settings``, ``sampler`` and ``batch_sampler``, which are lists themselves.

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
    platforms.require("searching")
    is_axis = {name: isinstance(value, list | tuple | range) and name not in _LISTS for name, value in keywords.items()}
    axes = {name: list(value) for name, value in keywords.items() if is_axis[name]}
    if empty := [name for name, values in axes.items() if not values]:
        raise ConfigurationError(f"{empty[0]}=[]: an axis of a grid needs a value")
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    searches = [_Search(dataset, {**keywords, "progress": progress}, point) for point in points]
    place = storage.new_folder("sweeps") if folder is None else Path(folder)
    announce = announcer(progress, printer_for(progress))
    records: list[SearchRecord] = []
    for number, one in enumerate(searches, 1):
        announce(f"configuration {number} of {len(searches)}: {one.name}")
        records.append(one.record(records))
        storage.save(place / one.name, records[-1])
    summary, _ = writer.write(place)
    announce(f"wrote {place / storage.PAGE}")
    return SweepResult(summary)


class _Search:
    """The search of one point, whose values have been checked."""

    def __init__(self, dataset: Any, keywords: Mapping[str, Any], point: Mapping[str, Any]) -> None:
        bound = inspect.signature(search).bind(dataset, **{**keywords, **point})
        bound.apply_defaults()
        self._asked = Asked.of(bound.arguments)
        self._plan = self._asked.plan
        self._input = loader_input_of(dataset, dataloader_keywords(bound.arguments))
        self._configuration = configuration_of(self._input, self._plan)
        further = {name: value if _is_plain(value) else _name_of(value) for name, value in point.items()}
        self._configuration = replace(self._configuration, columns={**self._configuration.columns, **further})
        self.name = schema.folder_name([f"{name}={shown(value)}" for name, value in further.items()]) or "all"

    def record(self, earlier: Sequence[SearchRecord]) -> SearchRecord:
        """What was measured, here or for an earlier point that does the same, or why nothing was."""
        if same := earlier_results.measured_once(self._configuration, earlier):
            return same
        started_at = datetime.now().astimezone().isoformat()
        try:
            record, _ = record_here(self._configuration, self._input, self._plan, self._asked)
        except NwsSweepError as error:
            here = host.describe(self._plan.ranks)
            return SearchRecord(configuration=self._configuration, host=here, started_at=started_at, error=str(error))
        return record


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _name_of(value: Any) -> str:
    return getattr(value, "__name__", type(value).__name__)
