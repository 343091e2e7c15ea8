"""What ``nws_sweep.sweep`` returns."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.config.python_notation import in_python
from nws_sweep.errors import NwsSweepError, printable
from nws_sweep.report import snippets, tables
from nws_sweep.report.attributes import SuggestsAttributes
from nws_sweep.report.search_result import SearchResult

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)  # without slots, for a cached property
class SweepResult(SuggestsAttributes):
    """The results of a grid; prints as a table of the best settings, in a notebook too.

    Returned by :func:`nws_sweep.sweep`.
    """

    _summary: Summary

    @property
    def folder(self) -> Path:
        """The folder with the files and the report."""
        return self._summary.stored.folder

    @cached_property
    def results(self) -> tuple[SearchResult, ...]:
        """The result of each combination, in the order of measuring, without those that
        could not be measured."""
        measured = [
            configuration
            for configuration in self._summary.configurations
            if configuration.best
        ]
        return tuple(map(self._result, measured))

    @property
    def failures(self) -> tuple[str, ...]:
        """A line with the reason for each combination or candidate that could not be
        measured."""
        return tuple(map(in_python, self._summary.failures))

    @property
    def best(self) -> SearchResult:
        """The combination with most samples per second. NwsSweepError if none could be
        measured."""
        if self._summary.fastest is None:
            reason = next(iter(self.failures), "there is none")
            raise NwsSweepError(f"no combination could be measured: {reason}")
        return self._result(self._summary.fastest)

    def _result(self, configuration: ConfigurationSummary) -> SearchResult:
        return SearchResult(configuration.run.result, axes=self._summary.distinguishing)

    @property
    def best_params(self) -> dict[str, Any]:
        """The values of the axes and the chosen settings of ``best``."""
        return self.best.best_params

    @property
    def loader_kwargs(self) -> dict[str, Any]:
        """The keywords of DataLoader in ``best_params``, without keywords that ``best``
        has no use for."""
        keywords = self.best.settings.keywords
        return {
            name: keywords[name]
            for name in self.best_params
            if keywords.get(name) is not None
        }

    def to_frame(self) -> "pd.DataFrame":
        """One row per combination with the columns of best.csv
        (docs/reference/files.md)."""
        return tables.best(self._summary).frame()

    def __repr__(self) -> str:
        return f"SweepResult({str(self.folder)!r}, {len(self._summary.configurations)} combinations)"

    @property
    def details(self) -> str:
        """What ``print(result)`` leaves out, to print: figures, warnings, and all that
        was measured."""
        return printable(in_python("\n".join(snippets.details(self._summary))))

    def __str__(self) -> str:
        table = snippets.markdown_table(snippets.best_table(self._summary))
        lines = [table.rstrip(), ""]
        lines += snippets.lines_of(self._summary)
        lines += [f"failed {line}" for line in self._summary.failures]
        return printable(in_python("\n".join(lines)) + f"\nin {self.folder}")

    _repr_html_ = snippets.preformatted
