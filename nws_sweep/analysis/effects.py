"""The effect of each setting of a grid, from pairs of configurations that differ in it alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nws_sweep import units
from nws_sweep.analysis import time_ratios
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Ratio
from nws_sweep.results import shown

_MOST_VALUES = 20  # of one axis, in the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of changing a setting from the baseline to a value, over pairs of configurations.

    ``ratio`` is the time per sample with the value / with the baseline, each at its best num_workers.
    """

    axis: str
    baseline: str
    value: str
    ratio: Ratio
    pairs: int

    @property
    def text(self) -> str:
        """The change of time in words, with its interval."""
        if self.ratio.ends is None:
            return f"{_change(self.ratio.value)} (no interval: too few windows or pairs)"
        if not self.ratio.is_certain:
            return "no measurable difference ({} to {})".format(*map(_change, self.ratio.ends))
        ends = sorted(self.ratio.ends, key=lambda end: abs(end - 1))
        return f"{_change(self.ratio.value)} ({_change(ends[0])} to {_change(ends[1])})"


def _change(ratio: float) -> str:
    return f"{units.percent(abs(ratio - 1))} {'more' if ratio > 1 else 'less'} time"


def effects(summary: Summary) -> tuple[Effect, ...]:
    """The effects of all varying settings except the dataset, each value against the first one."""
    axes = [name for name in summary.varying if name != "dataset"]
    return tuple(effect for axis in axes for effect in _of_axis(axis, summary.configurations))


def _of_axis(axis: str, configurations: Sequence[ConfigurationSummary]) -> Iterator[Effect]:
    values: dict[str, Any] = {}
    groups: dict[object, dict[str, ConfigurationSummary]] = {}  # equal but for the axis; by value
    for one in configurations:
        rest = {name: shown(value) for name, value in one.configuration.columns.items()}
        value = one.configuration.columns.get(axis)
        rest.pop(axis, None)
        values[shown(value)] = value
        groups.setdefault(frozenset(rest.items()), {}).setdefault(shown(value), one)
    baseline, *others = sorted(values, key=lambda name: _order(values[name]))[:_MOST_VALUES]
    for value in others:
        pairs = [
            (group[baseline].best, group[value].best) for group in groups.values() if {baseline, value} <= {*group}
        ]
        times = [time_ratios.times_of(base, other) for base, other in pairs if base and other]
        if ratios := [one.ratio for one in times if one]:
            yield Effect(
                axis=axis, baseline=baseline, value=value, ratio=time_ratios.combined(ratios), pairs=len(ratios)
            )


def _order(value: object) -> tuple[int, float]:
    """None first, then false and true, then numbers by size, then others in the order of the grid."""
    if value is None:
        return 0, 0.0
    if isinstance(value, bool):
        return 1, float(value)
    return (2, float(value)) if isinstance(value, int | float) else (3, 0.0)
