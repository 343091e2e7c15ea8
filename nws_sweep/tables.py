"""Tables: every trial (results.csv) and the best setting per configuration (best.csv), as rows and as pandas frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.storage import TIMING_COLUMNS, timing_row

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A table: the names of its columns, and rows that may lack some of them."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]

    def frame(self) -> pd.DataFrame:
        """As a frame whose integers stay integers beside empty cells."""
        import pandas as pd

        frame: pd.DataFrame = pd.DataFrame(list(self.rows), columns=list(self.columns)).convert_dtypes()
        return frame


def trials(summary: Summary) -> Rows:
    """One row per trial: the identifying columns of its configuration first, then those of timings.csv."""
    rows = [
        {**configuration.configuration.columns, **hosts, **timing_row(trial, configuration.run.result)}
        for configuration in summary.configurations
        for hosts in [_host_column(configuration, summary)]
        for trial in configuration.run.result.trials
    ]
    names = dict.fromkeys([*_configuration_columns(summary), *(["host"] if len(summary.hosts) > 1 else [])])
    return _rows(rows, [*names, *TIMING_COLUMNS])


def _host_column(configuration: ConfigurationSummary, summary: Summary) -> dict[str, str]:
    """Where it was measured, if not all were measured there."""
    return {"host": configuration.run.result.host.hostname} if len(summary.hosts) > 1 else {}


def best(summary: Summary) -> Rows:
    """One row per configuration: identifying columns, the recommended setting, its times and the gains."""
    rows = [_best_row(configuration) for configuration in summary.configurations]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    first = _configuration_columns(summary)
    return _rows(rows, first + [name for name in columns if name not in first])


def _best_row(summary: ConfigurationSummary) -> dict[str, Any]:
    best, fastest = summary.best, summary.fastest
    timing = timing_row(best, summary.run.result) if best else {}
    names = ("startup_s", "batch_s", "batch_s_low", "batch_s_high", "samples_per_s", "stall_fraction", "epoch_s")
    return {
        **summary.configuration.columns,
        "num_workers": best.num_workers if best else None,
        "persistent_workers": best.settings.persistent_workers if best else None,
        **{name: timing.get(name) for name in names},
        "gain_over_zero": summary.gain_over_zero.value if summary.gain_over_zero else None,
        "gain_over_cpu_count": summary.gain_over_reference.value if summary.gain_over_reference else None,
        "fastest_num_workers": fastest.num_workers if fastest else None,
        "limits": "+".join(limit.value for limit in summary.diagnosis.limits) if summary.diagnosis else None,
        "stop_reason": summary.run.result.stop_reason,
        "error": summary.run.result.error,
    }


def _configuration_columns(summary: Summary) -> list[str]:
    return list(dict.fromkeys(name for c in summary.configurations for name in c.configuration.columns))


def _rows(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> Rows:
    cells = tuple({name: _cell(value) for name, value in row.items()} for row in rows)
    return Rows(columns=tuple(columns), rows=cells)


def _cell(value: Any) -> Any:
    return str(value) if isinstance(value, (list, dict)) else value
