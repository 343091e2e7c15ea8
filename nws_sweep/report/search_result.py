"""What ``nws_sweep.search`` returns."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nws_sweep.analysis import accounts, what_if
from nws_sweep.analysis.diagnosis import Diagnosis
from nws_sweep.analysis.what_if import Predicted
from nws_sweep.config.python_notation import explained, in_python
from nws_sweep.errors import ConfigurationError, printable
from nws_sweep.records import codec, storage
from nws_sweep.report import formats, snippets, tables, writer
from nws_sweep.report.search_answer import SearchAnswer

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# of ``to_dict``
_FIGURES = (
    "batch_s",
    "samples_per_s",
    "epoch_s",
    "startup_s",
    "stall_fraction",
    "memory_bytes",
)


@dataclass(frozen=True, repr=False)  # without slots, for a cached property
class SearchResult(SearchAnswer):
    """The best DataLoader settings, with the measurements behind them.

    Returned by :func:`nws_sweep.search`. Prints as the lines of ``conclusion`` and a
    short table, in a notebook too.
    """

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The bottlenecks at the best setting, with their evidence; None if unknown."""
        return self._configuration.diagnosis

    @property
    def details(self) -> str:
        """What ``print(result)`` leaves out, to print: figures, warnings, and all that
        was measured."""
        return printable(in_python("\n".join(snippets.details(self._summary))))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines that question the answer or suggest how to improve it."""
        return tuple(map(in_python, self._summary.all_warnings))

    @explained
    def predict(
        self,
        *,
        num_workers: int | None = None,
        prefetch_factor: int | None = None,
        in_order: bool | None = None,
        cpus: float | None = None,
        training_step: float | None = None,
    ) -> Predicted:
        """Predicts the times with other settings, which need not have been measured
        (docs/guides/what-if.md).

        Args:
            num_workers: None for the recommended value, as for prefetch_factor and
                in_order.
            prefetch_factor: Batches that each worker loads ahead.
            in_order: Whether batches are delivered in the order of the sampler.
            cpus: Of the loader; None for those of the search, shared by its ranks.
            training_step: Seconds per batch, of a step on an accelerator; None for that
                of the search.

        Returns:
            ``batch_s`` and ``epoch_s``, each with ``value``, ``low`` and ``high`` in s;
            epoch_s is None if the length of an epoch is unknown.

        Raises:
            ConfigurationError: If a value is not allowed, or the search recorded no
                costs of batches.
        """
        recorded = what_if.of(self.record, self._configuration.best)
        if recorded is None:
            raise ConfigurationError(what_if.NOTHING_RECORDED)
        what_if_asked, settings = recorded.asked(
            num_workers=num_workers,
            prefetch_factor=prefetch_factor,
            in_order=in_order,
            cpus=cpus,
            training_step=training_step,
        )
        return what_if_asked.predict(settings)

    def to_frame(self) -> "pd.DataFrame":
        """One row per candidate with the columns of results.csv
        (docs/reference/files.md); s and bytes."""
        return tables.trials(self._summary).frame()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for an experiment tracker: the configuration, the chosen
        settings, and the figures of the best.

        None stands for what is unknown, and for DataLoader's own values. Where an epoch
        goes (of unknown length, a batch) is in the keys that begin with ``account_``,
        in s; they are missing if it is unknown.
        """
        values = {**self.record.configuration.columns, **self.loader_kwargs}
        best = self._configuration.best
        timing = codec.timing_row(best, self.record) if best else {}
        for name in _FIGURES:
            values[name] = timing.get(name)
        account = accounts.account_of(best)
        if account:
            values.update(account.columns)
        bottlenecks = tables.bottlenecks(self._configuration)
        return {
            **values,
            "bottlenecks": bottlenecks,
            "status": self.status,
            "cost_s": self.cost_s,
        }

    def save(self, folder: str | Path) -> Path:
        """Writes the files of a run of the command line, which ``report``, ``best``,
        ``compare`` and ``predict`` read.

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

        return line_charts.draw(
            line_charts.times(self._summary), "Time against num_workers"
        )

    def __repr__(self) -> str:
        when = f", {self._measured_on}" if self.reused else ""
        return f"SearchResult({formats.kwargs(self.loader_kwargs)}{when})"

    def __str__(self) -> str:
        lines = list(self.conclusion.lines)
        table = snippets.measured_table(self._configuration)
        if table:
            lines += ["", snippets.markdown_table(table).rstrip()]
        lines += [f"failed {line}" for line in self._summary.failures]
        return printable(in_python("\n".join(lines)))

    _repr_html_ = snippets.preformatted
