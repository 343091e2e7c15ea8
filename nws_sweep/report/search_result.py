"""What ``nws_sweep.search`` returns."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nws_sweep.analysis import summary, what_if
from nws_sweep.analysis.diagnosis import Diagnosis
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.what_if import Predicted
from nws_sweep.config.python_notation import in_python
from nws_sweep.errors import ConfigurationError, NwsSweepError, OutOfTime, printable
from nws_sweep.records import LoaderSettings, SearchRecord, Trial, TrialState, codec, storage
from nws_sweep.report import formats, snippets, tables, writer

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_FIGURES = ("batch_s", "samples_per_s", "epoch_s", "startup_s", "stall_fraction", "memory_bytes")  # of ``to_dict``


@dataclass(frozen=True, repr=False)  # without slots, for a cached property
class SearchResult:
    """The best DataLoader settings, with the measurements behind them.

    Returned by :func:`nws_sweep.search`. Prints as a table, in a notebook too.

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

        ``provisional``: the time limit ended the search, and the answer is the best so far. ``undecided``: the search
        ended when only the candidates had been measured that are measured first.
        """
        assert self._configuration.status is not None  # by __post_init__
        return self._configuration.status.value

    @property
    def settings(self) -> LoaderSettings:
        """All settings of the recommended candidate; undecided, the settings of the DataLoader, which stay."""
        answer = self._configuration.answer
        return answer.settings if answer else self.record.configuration.loader.canonical()

    @property
    def num_workers(self) -> int:
        """The recommended number: the least time, if twice as many workers must save the tolerance."""
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
    def first_line(self) -> str:
        """How the answer was found, and the answer, such as ``best: num_workers=4 (measured)``."""
        return in_python(self._configuration.first_line(formats.kwargs(self.best_params)))

    @property
    def loader_kwargs(self) -> dict[str, Any]:
        """What was chosen: num_workers, and the settings that were searched after it, unless they are DataLoader's own.

        Without workers also the settings that DataLoader then rejects, with its defaults.

        For ``DataLoader(dataset, batch_size=..., pin_memory=..., **result.loader_kwargs)``.
        """
        configuration = self.record.configuration
        chosen = self.settings.changes(configuration.loader, configuration.search.settings or ())
        for name, value in list(chosen.items()):
            if value is None and getattr(configuration.loader, name) is None:
                del chosen[name]
        return chosen

    @property
    def best_params(self) -> dict[str, Any]:
        """``loader_kwargs``, of a grid with the values of its axes; the name is that of optuna's studies."""
        columns = self.record.configuration.columns
        point = {name: columns[name] for name in self.axes if name in columns}
        if self.num_workers:
            return point | self.loader_kwargs
        # Without workers an axis such as prefetch_factor still says which point of the grid it is.
        return point | self.loader_kwargs | point

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The bottlenecks at the best setting, with their evidence; None if unknown."""
        return self._configuration.diagnosis

    @property
    def explanation(self) -> tuple[str, ...]:
        """The diagnosis in sentences, the most important first."""
        return tuple(map(in_python, self._configuration.conclusions.explanation))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines that question the answer or suggest how to improve it."""
        return tuple(map(in_python, self._summary.all_warnings))

    def predict(
        self,
        *,
        num_workers: int | None = None,
        prefetch_factor: int | None = None,
        in_order: bool | None = None,
        cpus: float | None = None,
        training_step: float | None = None,
    ) -> Predicted:
        """Predicts the times with other settings, which need not have been measured (docs/guides/what-if.md).

        Args:
            num_workers: None for the recommended value, as for prefetch_factor and in_order.
            prefetch_factor: Batches that each worker loads ahead.
            in_order: Whether batches are delivered in the order of the sampler.
            cpus: Of the loader; None for those of the search, shared by its ranks.
            training_step: Seconds per batch, of a step on an accelerator; None for that of the search.

        Returns:
            ``batch_s`` and ``epoch_s``, each with ``value``, ``low`` and ``high`` in s; epoch_s is None if the length
            of an epoch is unknown.

        Raises:
            ConfigurationError: If a value is not allowed, or the search recorded no costs of batches.
        """
        recorded = what_if.of(self.record, self._configuration.best)
        if recorded is None:
            raise ConfigurationError(what_if.NOTHING_RECORDED)
        what_if_asked, settings = recorded.asked(
            num_workers=num_workers, prefetch_factor=prefetch_factor, in_order=in_order, cpus=cpus,
            training_step=training_step,
        )  # fmt: skip
        return what_if_asked.predict(settings)

    def to_frame(self) -> "pd.DataFrame":
        """One row per candidate with the columns of results.csv (docs/reference/files.md); s and bytes."""
        return tables.trials(self._summary).frame()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for an experiment tracker: the configuration, the chosen settings, and the figures of the best.

        None stands for what is unknown, and for DataLoader's own values. Where an epoch goes (of unknown length, a
        batch) is in the keys that begin with ``account_``, in s; they are missing if it is unknown.
        """
        values = {**self.record.configuration.columns, **self.loader_kwargs}
        best = self._configuration.best
        timing = codec.timing_row(best, self.record) if best else {}
        for name in _FIGURES:
            values[name] = timing.get(name)
        if best and best.measurement and best.measurement.account:
            values.update(best.measurement.account.columns)
        bottlenecks = tables.bottlenecks(self._configuration)
        return {**values, "bottlenecks": bottlenecks, "status": self.status, "cost_s": self.cost_s}

    def save(self, folder: str | Path) -> Path:
        """Writes the files of a run of the command line, which ``report``, ``best``, ``compare`` and ``predict`` read.

        Returns:
            The folder.
        """
        storage.save(Path(folder), self.record)
        return Path(folder)

    def report(self, folder: str | Path) -> Path:
        """Writes the files as ``save`` does, and the report with its pictures.

        Returns:
            The page, ``report.html``.
        """
        writer.write(self.save(folder))
        return Path(folder) / storage.PAGE

    def plot(self) -> "Figure":
        """Time against num_workers with intervals, the recommended candidate ringed."""
        from nws_sweep.report.plots import line_charts

        return line_charts.draw(line_charts.times(self._summary), "Time against num_workers")

    def __repr__(self) -> str:
        when = f", measured at {self.measured_at}" if self.reused else ""
        return f"SearchResult({formats.kwargs(self.loader_kwargs)}{when})"

    def __str__(self) -> str:
        lines = [self.first_line]
        if self._configuration.load:
            lines.append(self._configuration.load)
        lines += self.explanation
        lines += [f"warning: {line}" for line in self.warnings]
        if self.reused:
            lines.append(f"measured at {self.measured_at}")
        elif self.cost_s:
            lines.append(snippets.cost_line(self.record))
        lines += ["", snippets.markdown_table(snippets.trial_table(self._configuration)).rstrip()]
        return printable("\n".join(lines))

    _repr_html_ = snippets.preformatted


def _without_answer(record: SearchRecord, results: Summary) -> NwsSweepError:
    """The error that names the reason of the first candidate; OutOfTime if no candidate has a result."""
    finished = [trial for trial in record.trials if trial.state is not TrialState.INTERRUPTED]
    if record.stop_reason and not finished:
        reason = record.interrupted.reason if record.interrupted else record.stop_reason
        return OutOfTime(f"no candidate was measured: {reason}")
    return NwsSweepError(f"no candidate could be measured: {results.failures[0]}")
