"""Tables: every trial (results.csv) and the best setting per configuration (best.csv), as pandas frames."""

from __future__ import annotations

from typing import Any

import pandas as pd

from nws_sweep.analysis import ConfigurationSummary, Summary, best_settings
from nws_sweep.storage import TIMING_COLUMNS, timing_row


def trials_frame(summary: Summary) -> pd.DataFrame:
    """One row per trial: the identifying columns of its configuration first, then those of timings.csv."""
    rows = [
        {**configuration.configuration.columns, **timing_row(trial, configuration.configuration)}
        for configuration in summary.configurations
        for trial in configuration.run.result.trials
    ]
    return _frame(rows, [*_configuration_columns(summary), *TIMING_COLUMNS])


def best_frame(summary: Summary) -> pd.DataFrame:
    """One row per configuration: identifying columns, the recommended setting, its times and the gains."""
    rows = [_best_row(configuration) for configuration in summary.configurations]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    first = _configuration_columns(summary)
    return _frame(rows, first + [name for name in columns if name not in first])


def _best_row(summary: ConfigurationSummary) -> dict[str, Any]:
    best, fastest = summary.best, summary.fastest
    settings = best_settings(summary) or {}
    timing = timing_row(best, summary.configuration) if best else {}
    names = ("startup_s", "batch_s", "batch_s_low", "batch_s_high", "samples_per_s", "stall_fraction", "epoch_s")
    return {
        **summary.configuration.columns,
        "num_workers": settings.get("num_workers"),
        "persistent_workers": settings.get("persistent_workers"),
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


def _frame(rows: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
    """A frame whose integers stay integers beside empty cells."""
    cells = [{name: _cell(value) for name, value in row.items()} for row in rows]
    frame: pd.DataFrame = pd.DataFrame(cells, columns=columns).convert_dtypes()
    return frame


def _cell(value: Any) -> Any:
    return str(value) if isinstance(value, (list, dict)) else value
