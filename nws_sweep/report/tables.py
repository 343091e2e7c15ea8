"""Tables of all trials (results.csv) and of the best settings (best.csv), as rows and as pandas frames."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.results.codec import TIMING_COLUMNS, identifying, timing_row

if TYPE_CHECKING:
    import pandas as pd

_OF_BEST = (
    "num_workers", "settings", "startup_s", "batch_s", "batch_s_low", "batch_s_high", "samples_per_s", "stall_fraction",
    "epoch_s",
)  # fmt: skip


class Rows(NamedTuple):
    """Column names, and rows that may lack some of them."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]

    def frame(self) -> "pd.DataFrame":
        """A frame in which integer columns with empty cells stay integers."""
        import pandas as pd

        frame: pd.DataFrame = pd.DataFrame(list(self.rows), columns=list(self.columns)).convert_dtypes()
        return frame


def trials(summary: Summary) -> Rows:
    """One row per trial: the identifying columns of its configuration first, then those of timings.csv.

    With several hosts, the column ``host`` stands between them.
    """
    results = [c.run.result for c in summary.configurations]
    rows = [{"host": found.host.hostname, **timing_row(trial, found)} for found in results for trial in found.trials]
    return _rows(summary, rows, (*["host"] * (len(summary.hosts) > 1), *TIMING_COLUMNS))


def best(summary: Summary) -> Rows:
    """One row per configuration: identifying columns, the recommended settings, their times and the gains."""
    rows = [_best_row(configuration) for configuration in summary.configurations]
    return _rows(summary, rows, (name for row in rows for name in row))


def _best_row(summary: ConfigurationSummary) -> dict[str, Any]:
    best, result, bottlenecks = summary.answer, summary.run.result, summary.conclusions.bottlenecks
    timing = timing_row(best, result) if best else {}
    return {
        **identifying(summary.configuration),
        **{name: timing.get(name) for name in _OF_BEST},
        "gain_over_zero": summary.gain_over_zero.value if summary.gain_over_zero else None,
        "gain_over_cpu_count": summary.gain_over_reference.value if summary.gain_over_reference else None,
        "fastest_num_workers": result.verdict.fastest.num_workers if result.verdict else None,
        "bottlenecks": None if bottlenecks is None else "+".join(bottleneck.value for bottleneck in bottlenecks),
        "status": summary.status and summary.status.value,
        "stop_reason": result.stop_reason,
        "error": result.error,
    }


def _rows(summary: Summary, rows: Iterable[dict[str, Any]], columns: Iterable[str]) -> Rows:
    """These rows, with the identifying columns of all configurations first."""
    first = [name for one in summary.configurations for name in identifying(one.configuration)]
    texts = ({k: str(v) if isinstance(v, (list, dict)) else v for k, v in row.items()} for row in rows)
    return Rows(columns=tuple(dict.fromkeys([*first, *columns])), rows=tuple(texts))
