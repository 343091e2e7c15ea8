"""The answer of a search."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nws_sweep import units
from nws_sweep.analysis import summary
from nws_sweep.analysis.answers import Answer
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.config.python_notation import in_python
from nws_sweep.errors import NwsSweepError, OutOfTime
from nws_sweep.records import (
    LoaderSettings,
    SearchRecord,
    Trial,
    TrialState,
    shown,
)
from nws_sweep.report.attributes import SuggestsAttributes


@dataclass(frozen=True, repr=False)  # without slots, for a cached property
class SearchAnswer(SuggestsAttributes):
    """The best DataLoader settings of a search, and how they were found.

    Attributes:
        record: All settings and measurements of the search.
        reused: Whether the result was stored by an earlier search.
        axes: The names of the values that distinguish it from others of a grid.
    """

    record: SearchRecord
    reused: bool = False
    axes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self._configuration.status is None:
            raise _without_answer(self.record, self._summary)

    @cached_property
    def _summary(self) -> Summary:
        return summary.summarise_record(self.record)

    @property
    def _configuration(self) -> ConfigurationSummary:
        return self._summary.configurations[0]

    @property
    def status(self) -> str:
        """How the answer was found: ``measured``, ``provisional`` or ``undecided``.

        ``provisional``: the time limit ended the search, and the answer is the best so
        far. ``undecided``: the search ended when only the candidates had been measured
        that are measured first.
        """
        assert self._configuration.status is not None  # by __post_init__
        return self._configuration.status.value

    @property
    def settings(self) -> LoaderSettings:
        """All settings of the recommended candidate; undecided, the settings of the
        DataLoader, which stay."""
        answer = self._configuration.answer
        return (
            answer.settings if answer else self.record.configuration.loader.canonical()
        )

    @property
    def num_workers(self) -> int:
        """The recommended number: the least time, if twice as many workers must save
        the tolerance."""
        return self.settings.num_workers

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All candidates, ascending by num_workers, failed ones with their reasons."""
        return self._configuration.trials

    @property
    def stop_reason(self) -> str:
        """Why the search stopped."""
        return in_python(self.record.stop_reason)

    @property
    def cost_s(self) -> float:
        """Seconds that the search took; for a reused result, the original search."""
        return self.record.cost_s

    @property
    def measured_at(self) -> str:
        """When the search began: an ISO 8601 time with zone."""
        return self.record.started_at

    @property
    def _measured_on(self) -> str:
        return f"measured on {units.moment(self.measured_at)}"

    @cached_property
    def conclusion(self) -> Answer:
        """The answer, why, what to change next, and the cost: the first lines of
        ``print(result)``; of a point of a grid, with the values of its axes."""
        conclusion = self._configuration.conclusion
        cost = conclusion.cost
        if self.reused:
            cost = f"none: {self._measured_on}"
        axes = [f"{name}={shown(value)}" for name, value in self._point.items()]
        return Answer(
            answer=in_python(" ".join([*axes, conclusion.answer])),
            note=in_python(conclusion.note),
            why=in_python(conclusion.why),
            remedies=tuple(map(in_python, conclusion.remedies)),
            cost=cost,
        )

    @property
    def loader_kwargs(self) -> dict[str, Any]:
        """What was chosen: num_workers, and the settings that were searched after it,
        unless they are DataLoader's own.

        Without workers also the settings that DataLoader then rejects, with its
        defaults.

        For ``DataLoader(dataset, batch_size=..., pin_memory=...,
        **result.loader_kwargs)``.
        """
        configuration = self.record.configuration
        chosen = self.settings.changes(
            configuration.loader, configuration.search.settings or ()
        )
        for name, value in list(chosen.items()):
            if value is None and getattr(configuration.loader, name) is None:
                del chosen[name]
        return chosen

    @property
    def best_params(self) -> dict[str, Any]:
        """``loader_kwargs``, of a grid with the values of its axes; the name is that of
        optuna's studies."""
        point = self._point
        if self.num_workers:
            return point | self.loader_kwargs
        # Without workers an axis such as prefetch_factor still says which point of
        # the grid it is.
        return point | self.loader_kwargs | point

    @property
    def _point(self) -> dict[str, Any]:
        """The values of the axes of a grid."""
        columns = self.record.configuration.columns
        return {name: columns[name] for name in self.axes if name in columns}


def _without_answer(record: SearchRecord, results: Summary) -> NwsSweepError:
    """The error that names the reason of the first candidate; OutOfTime if no candidate
    has a result."""
    finished = [
        trial for trial in record.trials if trial.state is not TrialState.INTERRUPTED
    ]
    if record.stop_reason and not finished:
        if record.interrupted:
            return OutOfTime(f"nothing was measured: {record.interrupted.reason}")
        return OutOfTime(record.error)
    return NwsSweepError(f"nothing could be measured: {results.failures[0]}")
