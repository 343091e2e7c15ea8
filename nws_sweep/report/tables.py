"""Tables of all trials (results.csv) and of the best settings (best.csv), as rows and
as pandas frames."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.records import codec
from nws_sweep.records.codec import TIMING_COLUMNS, identifying, timing_row

if TYPE_CHECKING:
    import pandas as pd

_OF_BEST = (
    "num_workers",
    "settings",
    "startup_s",
    "batch_s",
    "batch_s_low",
    "batch_s_high",
    "samples_per_s",
    "stall_fraction",
    "epoch_s",
)


class Rows(NamedTuple):
    """Column names, and rows, which may lack some columns."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]

    @property
    def text(self) -> str:
        """The table as CSV."""
        return codec.table_text(self.columns, self.rows)

    def frame(self) -> "pd.DataFrame":
        """A frame in which integer columns with empty cells stay integers."""
        import pandas as pd

        frame: pd.DataFrame = pd.DataFrame(
            list(self.rows), columns=list(self.columns)
        ).convert_dtypes()
        return frame


def trials(summary: Summary) -> Rows:
    """Makes a row for each trial: the identifying columns of its configuration, then
    the columns of timings.csv.

    With several hosts, the column ``host`` stands between.
    """
    rows = []
    for configuration in summary.configurations:
        result = configuration.run.result
        for trial in result.trials:
            rows.append({"host": result.host.hostname, **timing_row(trial, result)})
    columns: tuple[str, ...] = TIMING_COLUMNS
    if len(summary.hosts) > 1:
        columns = ("host", *columns)
    return _rows(summary, rows, columns)


def best(summary: Summary) -> Rows:
    """Makes a row for each configuration: identifying columns, the recommended
    settings, their times and the gains."""
    rows = [_best_row(configuration) for configuration in summary.configurations]
    return _rows(summary, rows, (name for row in rows for name in row))


def _best_row(configuration: ConfigurationSummary) -> dict[str, Any]:
    best, result = configuration.answer, configuration.run.result
    row = identifying(configuration.configuration)
    timing = timing_row(best, result) if best else {}
    for name in _OF_BEST:
        row[name] = timing.get(name)
    reference = configuration.configuration.search.reference
    for name, number in (("gain_over_zero", 0), ("gain_over_cpu_count", reference)):
        gain = configuration.gain_over(number)
        row[name] = gain.value if gain else None
    row["fastest_num_workers"] = (
        result.verdict.fastest.num_workers if result.verdict else None
    )
    row["bottlenecks"] = bottlenecks(configuration)
    row["status"] = configuration.status and configuration.status.value
    row["stop_reason"], row["error"] = result.stop_reason, result.error
    return row


def bottlenecks(configuration: ConfigurationSummary) -> str | None:
    """Joins the names of the bottlenecks, the most important first; None if they are
    unknown."""
    names = configuration.conclusions.bottlenecks
    if names is None:
        return None
    return "+".join(bottleneck.value for bottleneck in names)


def _rows(
    summary: Summary, rows: Iterable[dict[str, Any]], columns: Iterable[str]
) -> Rows:
    """Puts the identifying columns of all configurations first; lists and mappings
    become text."""
    names: dict[str, None] = {}
    for configuration in summary.configurations:
        names |= dict.fromkeys(identifying(configuration.configuration))
    names |= dict.fromkeys(columns)
    texts = []
    for row in rows:
        texts.append(
            {
                name: str(value) if isinstance(value, list | dict) else value
                for name, value in row.items()
            }
        )
    return Rows(columns=tuple(names), rows=tuple(texts))
