"""What ``nws_sweep.search`` returns."""

from __future__ import annotations

import functools
import html
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nws_sweep.analysis import summary
from nws_sweep.analysis.diagnosis import Diagnosis
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.errors import NwsSweepError
from nws_sweep.report import formatted, snippets
from nws_sweep.results import LoaderSettings, SearchRecord, Trial
from nws_sweep.results.storage import Stored, StoredRun

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_HEADER = ["", "num_workers", "per batch", "samples/s", "start-up", "epoch", "state"]


@dataclass(frozen=True, repr=False)
class SearchResult:
    """The best DataLoader settings, with the measurements behind them.

    Returned by :func:`nws_sweep.search`; always has a best setting. Prints as a table, in a notebook too.

    Attributes:
        record: All settings and measurements of the search.
        reused: Whether the result was stored by an earlier search.
    """

    record: SearchRecord
    reused: bool = False

    def __post_init__(self) -> None:
        if self._found.best is None:
            reasons = (
                f"num_workers={trial.num_workers}: {trial.reason}" for trial in self.record.trials if trial.reason
            )
            reason = self.record.error or next(reasons, "there were no candidates")
            raise NwsSweepError(f"no candidate could be measured: {reason}")

    @property
    def num_workers(self) -> int:
        """The recommended number: the fewest workers not slower than the fastest by more than the tolerance."""
        return self.settings.num_workers

    @property
    def settings(self) -> LoaderSettings:
        """All settings of the recommended candidate."""
        assert self._found.best is not None  # see __post_init__
        return self._found.best.settings

    @property
    def loader_kwargs(self) -> dict[str, Any]:
        """The recommended keywords, for ``DataLoader(dataset, batch_size=..., **result.loader_kwargs)``.

        They are ``num_workers``, ``pin_memory``, ``prefetch_factor`` and ``persistent_workers``, and others that differ
        from DataLoader's defaults. Settings that the search does not change (batch_size, shuffle) are left out.
        """
        defaults = LoaderSettings(batch_size=self.settings.batch_size)
        return self.settings.changes(defaults, ("pin_memory", "prefetch_factor", "persistent_workers"))

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All candidates, ascending by num_workers, failed ones with their reasons."""
        return self._found.trials

    @property
    def stop_reason(self) -> str:
        """Why the search stopped."""
        return self.record.stop_reason

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The bottlenecks at the best setting, with their evidence; None if unknown."""
        return self._found.diagnosis

    @property
    def explanation(self) -> tuple[str, ...]:
        """The diagnosis in sentences, the most important first."""
        return self._found.explanation

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines that question the answer or suggest how to improve it."""
        return self._summary.all_warnings

    @property
    def cost_s(self) -> float:
        """Seconds that the search took; for a reused result, the original search."""
        return self.record.cost_s

    @property
    def measured_at(self) -> str:
        """When the search began: an ISO 8601 time with zone."""
        return self.record.started_at

    def to_frame(self) -> pd.DataFrame:
        """One row per candidate with the columns of results.csv (docs/files.md); times in s, memory in bytes."""
        from nws_sweep.report import tables

        return tables.trials(self._summary).frame()

    def plot(self) -> Figure:
        """Time against num_workers with intervals, the recommended candidate ringed."""
        from nws_sweep.report.plots import line_charts

        return line_charts.draw(line_charts.times(self._summary), "Time against num_workers")

    @functools.cached_property
    def _summary(self) -> Summary:
        here = Path()  # results of the API have no folder
        run = StoredRun(folder=here, result=self.record)
        return summary.summarise(Stored(folder=here, is_grid=False, runs=(run,)))

    @property
    def _found(self) -> ConfigurationSummary:
        return self._summary.configurations[0]

    def __repr__(self) -> str:
        when = f", measured at {self.measured_at}" if self.reused else ""
        return f"SearchResult({snippets.kwargs(self.loader_kwargs)}{when})"

    def __str__(self) -> str:
        keywords = snippets.kwargs(self.loader_kwargs)
        return "\n".join(
            [f"best: {keywords}", *self._notes(), "", snippets.markdown_table(_HEADER, self._rows()).rstrip()]
        )

    def _repr_html_(self) -> str:
        table = [("th", _HEADER), *(("td", row) for row in self._rows())]
        lines = ("".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) for tag, row in table)
        rows = "".join(f"<tr>{line}</tr>" for line in lines)
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self._notes())
        best = html.escape(snippets.kwargs(self.loader_kwargs))
        return f"<p>best: <code>{best}</code></p><ul>{notes}</ul><table>{rows}</table>"

    def _notes(self) -> list[str]:
        when = f"measured at {self.measured_at}" if self.reused else snippets.cost_line(self.record)
        return [*self.explanation, *(f"warning: {line}" for line in self.warnings), when]

    def _rows(self) -> list[list[str]]:
        rows = []
        for trial in self.trials:
            shown = formatted.of_trial(trial, self.record.configuration)
            best = "best" if trial.settings == self.settings else ""
            rows.append([best, shown.candidate, shown.batch, shown.rate, shown.startup, shown.epoch, shown.state])
        return rows
