"""Selects configurations of a grid by conditions such as ``batch_size=64``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nws_sweep.errors import ConfigurationError, one_line
from nws_sweep.results.settings import shown, varying_columns
from nws_sweep.results.storage import Stored, StoredRun

_AS_TYPED = {"True": "true", "False": "false", "None": "null"}  # Python's notation: that of the command line


def select(stored: Stored, conditions: Sequence[str]) -> Stored:
    """The configurations that meet all conditions ``KEY=VALUE``; a single one is no grid.

    Raises:
        ConfigurationError: If a condition has another form, or no configuration meets it and those before it.
    """
    if not conditions:
        return stored
    runs = stored.runs
    for index, condition in enumerate(conditions):
        key, equals, value = condition.partition("=")
        if not key or not equals:
            raise ConfigurationError(one_line(f"--where {condition}: allowed is KEY=VALUE, such as batch_size=64"))
        values, value = _column_values(runs), _AS_TYPED.get(value, value)
        if value not in values.get(key, ()):
            raise _no_match(conditions[: index + 1], key, values)
        runs = tuple(run for run in runs if value in _column_values([run]).get(key, ()))
    axes = varying_columns([run.result.configuration for run in stored.runs]) if stored.is_grid else ()
    return replace(stored, runs=runs, is_grid=stored.is_grid and len(runs) > 1, axes=axes)


def _column_values(runs: Iterable[StoredRun]) -> dict[str, dict[str, None]]:
    """The values of each identifying column as typed on the command line, in the order of measuring."""
    values: dict[str, dict[str, None]] = {}
    for run in runs:
        for key, value in run.result.configuration.columns.items():
            values.setdefault(key, {})[shown(value)] = None
    return values


def _no_match(conditions: Sequence[str], key: str, values: Mapping[str, Iterable[str]]) -> ConfigurationError:
    given = " ".join(f"--where {condition}" for condition in conditions)
    if key in values:
        what = f"allowed for {key}: {', '.join(values[key])}"
    else:
        what = f"there is no key {key}; allowed: " + ", ".join(f"{name} ({', '.join(values[name])})" for name in values)
    return ConfigurationError(one_line(f"{given}: {what}", 1000))
