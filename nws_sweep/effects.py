"""What each setting of a grid changes: from pairs of configurations that differ in it alone. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nws_sweep import contrast, units
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.contrast import Ratio
from nws_sweep.records import shown

_MOST_VALUES = 20  # of one axis; more would be a table that nobody reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What changes from one value of a setting to another.

    Attributes:
        axis: The setting.
        baseline: The value that the other is compared with.
        value: The other.
        ratio: Time per sample (at the best num_workers of each) with the other / with the baseline.
        pairs: How many pairs of configurations it rests on.
    """

    axis: str
    baseline: str
    value: str
    ratio: Ratio
    pairs: int

    @property
    def measurable(self) -> bool:
        """Whether its interval leaves no change out."""
        return self.ratio.half_width is not None and abs(self.ratio.log) > self.ratio.half_width

    @property
    def text(self) -> str:
        """The change in words with its interval."""
        low, high = self.ratio.low, self.ratio.high
        if low is None or high is None:
            return f"{_change(self.ratio.value)}, without an interval: too few bursts or pairs to tell"
        if not self.measurable:
            return f"no measurable difference ({_change(low)} to {_change(high)})"
        ends = sorted((low, high), key=lambda end: abs(end - 1))
        return f"{_change(self.ratio.value)} ({_change(ends[0])} to {_change(ends[1])})"


def _change(ratio: float) -> str:
    return f"{units.percent(abs(ratio - 1))} {'more' if ratio > 1 else 'less'} time"


def effects(summary: Summary) -> tuple[Effect, ...]:
    """What the varying settings change, each value against the first one; a dataset is no setting."""
    axes = [name for name in summary.varying if name != "dataset"]
    return tuple(effect for axis in axes for effect in _of_axis(axis, summary.configurations))


def _of_axis(axis: str, configurations: Sequence[ConfigurationSummary]) -> Iterator[Effect]:
    values = {shown(c.configuration.columns.get(axis)): c.configuration.columns.get(axis) for c in configurations}
    baseline, *others = sorted(values, key=lambda name: _order(values[name]))[:_MOST_VALUES]
    groups = _alike(axis, configurations)
    for value in others:
        if ratios := [ratio for group in groups if (ratio := _ratio(group, baseline, value)) is not None]:
            yield Effect(axis=axis, baseline=baseline, value=value, ratio=contrast.combined(ratios), pairs=len(ratios))


def _order(value: object) -> tuple[int, float]:
    """Nothing first, then false and true, then numbers by size, then others as they came."""
    if value is None:
        return 0, 0.0
    if isinstance(value, bool):
        return 1, float(value)
    return (2, float(value)) if isinstance(value, int | float) else (3, 0.0)


def _alike(axis: str, configurations: Sequence[ConfigurationSummary]) -> list[Mapping[str, ConfigurationSummary]]:
    """Configurations that are equal but for the axis, by their value of it."""
    groups: dict[Hashable, dict[str, ConfigurationSummary]] = {}
    for configuration in configurations:
        columns = configuration.configuration.columns
        rest = tuple(sorted((name, shown(value)) for name, value in columns.items() if name != axis))
        groups.setdefault(rest, {}).setdefault(shown(columns.get(axis)), configuration)
    return list(groups.values())


def _ratio(group: Mapping[str, ConfigurationSummary], baseline: str, value: str) -> Ratio | None:
    if baseline not in group or value not in group:
        return None
    base, other = group[baseline].best, group[value].best
    times = contrast.times_of(base, other) if base and other else None
    return times.ratio if times else None
