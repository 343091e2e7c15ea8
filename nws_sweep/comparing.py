"""Two runs or grids become one frozen value: what each configuration takes in one and in the other, and what differs.

The two are called A and B; a ratio is that of B's time to A's. Pure: everything shown is rendered from this value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nws_sweep import nodes, units
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.contrast import Change, Quantity, Ratio, Times, change_of, times_of
from nws_sweep.errors import ConfigurationError, one_line
from nws_sweep.records import Configuration, shown

_LONGEST_VALUE = 80
_NONE = "none"  # of what a host may lack, such as torchvision

# What a program may ask to be warned of, and the changes that it means.
ALARMS: Mapping[str, tuple[Change, ...]] = {
    "slower": (Change.SLOWER,),
    "faster": (Change.FASTER,),
    "changed": (Change.SLOWER, Change.FASTER),
}

# The facts of a host, as they are called when they differ.
_HOST_FACTS: Mapping[str, str] = {
    "hostname": "host",
    "platform": "platform",
    "cpu_model": "CPU",
    "cpu_count": "CPUs",
    "usable_cpus": "usable CPUs",
    "memory_bytes": "memory",
    "python": "Python",
    "torch": "torch",
    "torchvision": "torchvision",
    "nws_sweep": "nws_sweep",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What is not the same in A and in B.

    Attributes:
        name: What it is: ``batch_size``, ``dataset.count``, ``CPU``.
        a: Its values in A as people read them, each once; ``-`` where there is none.
        b: Its values in B, likewise.
    """

    name: str
    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One configuration in A and in B.

    Attributes:
        label: What tells it from the others.
        a: What was found for it in A.
        b: What was found for it in B.
        times: Of the best setting in A (``base``) and of that in B (``other``); None if they have none in common.
        change: What has become of the time; None if one of them has no best setting.
        notes: Lines on what a reader should know of it.
    """

    label: str
    a: ConfigurationSummary
    b: ConfigurationSummary
    times: Times | None
    change: Change | None
    notes: tuple[str, ...]

    @property
    def ratio(self) -> Ratio | None:
        """Time in B / time in A; None without times."""
        return self.times.ratio if self.times else None

    @property
    def broke(self) -> bool:
        """Whether it could be measured in A, but no longer in B."""
        return self.a.best is not None and self.b.best is None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs or grids side by side.

    Attributes:
        a: What was found in A.
        b: What was found in B.
        within: The share by which times may differ and still count as the same.
        pairs: The configurations that are in both, in the order of A; at least one.
        only_a: Labels of those that are in A alone.
        only_b: Labels of those that are in B alone.
        settings: What else differs in what was measured, over all pairs.
        hosts: What differs between where it was measured, over all pairs.
    """

    a: Summary
    b: Summary
    within: float
    pairs: tuple[Pair, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    settings: tuple[Difference, ...]
    hosts: tuple[Difference, ...]

    def alarming(self, alarm: str) -> tuple[Pair, ...]:
        """The pairs that one of ``ALARMS`` means: slower and changed is also what can no longer be measured in B."""
        meant = ALARMS[alarm]
        return tuple(pair for pair in self.pairs if pair.change in meant or (pair.broke and Change.SLOWER in meant))


def compare(a: Summary, b: Summary, within: float) -> RunComparison:
    """Compares the best settings of each configuration that is in both.

    Configurations are the same if they have the same values of the columns that vary in A or in B. What all of A have
    in common, and all of B, need not be the same: that is what was changed, and it is told. So two single runs are
    always compared.

    Args:
        a: What the other is compared with.
        b: What is compared.
        within: The share by which times may differ and still count as the same, 0.03 for 3 %.

    Raises:
        ConfigurationError: If no configuration is in both.
    """
    columns = tuple(dict.fromkeys((*a.distinguishing, *b.distinguishing)))
    in_a, in_b = _by_values(a, columns), _by_values(b, columns)
    if not in_a.keys() & in_b.keys():
        raise _nothing_common(in_a.values(), in_b.values(), columns)
    pairs = tuple(_pair(one, in_b[key], columns, within) for key, one in in_a.items() if key in in_b)
    return RunComparison(
        a=a,
        b=b,
        within=within,
        pairs=pairs,
        only_a=tuple(_label(one, columns) for key, one in in_a.items() if key not in in_b),
        only_b=tuple(_label(one, columns) for key, one in in_b.items() if key not in in_a),
        settings=_differences(pairs, _settings_of),
        hosts=_differences(pairs, _host_of),
    )


def _by_values(summary: Summary, columns: Sequence[str]) -> dict[tuple[str, ...], ConfigurationSummary]:
    """The configurations by their values in these columns; of equal ones the second has a number behind, and so on."""
    found: dict[tuple[str, ...], ConfigurationSummary] = {}
    seen: dict[tuple[str, ...], int] = {}
    for one in summary.configurations:
        values = tuple(shown(_value(one, name)) for name in columns)
        seen[values] = seen.get(values, 0) + 1
        key = (*values, str(seen[values]))
        found[key] = one
    return found


def _value(one: ConfigurationSummary, name: str) -> object:
    """Its value of a column; the kind of node also where all of a folder are of one, and it is no column."""
    columns = one.configuration.columns
    return nodes.kind(one.run.result) if name == nodes.COLUMN and name not in columns else columns.get(name)


def _label(one: ConfigurationSummary, columns: Sequence[str]) -> str:
    return one.configuration.label_of(columns or ("dataset",))


def _nothing_common(
    in_a: Iterable[ConfigurationSummary], in_b: Iterable[ConfigurationSummary], columns: Sequence[str]
) -> ConfigurationError:
    labels = (one_line(", ".join(_label(one, columns) for one in some), 200) for some in (in_a, in_b))
    return ConfigurationError("no configuration is in both: A has {}; B has {}".format(*labels))


def _pair(a: ConfigurationSummary, b: ConfigurationSummary, columns: Sequence[str], within: float) -> Pair:
    labels = dict.fromkeys(_label(one, columns) for one in (a, b))
    times = times_of(a.best, b.best) if a.best and b.best else None
    return Pair(
        label=" / ".join(labels),
        a=a,
        b=b,
        times=times,
        change=_change(times, within) if a.best and b.best else None,
        notes=tuple(_notes(a, b, times)),
    )


def _change(times: Times | None, within: float) -> Change:
    return change_of(times.ratio, within) if times else Change.UNCLEAR


def _notes(a: ConfigurationSummary, b: ConfigurationSummary, times: Times | None) -> Iterator[str]:
    for name, one in (("A", a), ("B", b)):
        if one.best is None:
            yield f"nothing could be measured in {name}"
        elif not one.run.result.complete:
            yield f"its search in {name} did not finish"
    if a.best and b.best:
        yield from _about_num_workers(a, b)
        yield from _about_times(times)


def _about_num_workers(a: ConfigurationSummary, b: ConfigurationSummary) -> Iterator[str]:
    """That the best differs, and what it would cost to keep that of A, if B has measured it."""
    if a.best is None or b.best is None or a.best.num_workers == b.best.num_workers:
        return
    kept = next((trial for trial in b.worker_trials if trial.num_workers == a.best.num_workers), None)
    times = times_of(b.best, kept) if kept else None
    cost = f"; in B that of A takes {_told(times.ratio)} times as long as the best" if times else ""
    yield f"the best num_workers differs{cost}"


def _about_times(times: Times | None) -> Iterator[str]:
    if times is None:
        yield "there is no time that both have"
    elif times.quantity is Quantity.SAMPLE:
        yield "the batch sizes differ, so times per sample are compared"
    if times is not None and times.ratio.half_width is None:
        yield "without an interval in both nothing can be told: too few windows or epochs were measured"


def _told(ratio: Ratio) -> str:
    return units.ratio_interval(ratio.value, ratio.low, ratio.high)


def _differences(
    pairs: Sequence[Pair], facts_of: Callable[[ConfigurationSummary], Mapping[str, Any]]
) -> tuple[Difference, ...]:
    """What has not the same values in A and in B, over all pairs."""
    in_a, in_b = ([facts_of(one) for one in side] for side in ([p.a for p in pairs], [p.b for p in pairs]))
    names = dict.fromkeys(name for facts in (*in_a, *in_b) for name in facts)
    told = (Difference(name=name, a=_values(name, in_a), b=_values(name, in_b)) for name in names)
    return tuple(difference for difference in told if difference.a != difference.b)


def _values(name: str, facts: Iterable[Mapping[str, Any]]) -> str:
    values = dict.fromkeys(shown(one[name]) if name in one else units.NOTHING for one in facts)
    return one_line(", ".join(values), _LONGEST_VALUE)


def _settings_of(one: ConfigurationSummary) -> dict[str, Any]:
    """What was measured: the identifying columns, then whatever else decides about the times."""
    configuration, facts = one.configuration, one.run.result.facts
    samples = {"samples of the dataset": facts.samples} if facts else {}
    # Columns come last, because they say what people typed; but first in the order.
    return {**dict.fromkeys(configuration.columns), **_held_fixed(configuration), **samples, **configuration.columns}


def _held_fixed(configuration: Configuration) -> dict[str, Any]:
    """The configuration by dotted keys, without what the columns tell and how the search goes."""
    loader, rules = asdict(configuration.loader), configuration.measure
    parts: dict[str, Mapping[str, Any]] = {
        "dataset": configuration.dataset,
        "consumer": configuration.consumer,
        "loader": {name: loader[name] for name in loader if name not in {"num_workers", *configuration.columns}},
        "measure": {"mode": rules.mode, "cache": rules.cache},
    }
    dotted = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
    return {**dotted, "collate_fn": configuration.collate_fn, "ranks": configuration.ranks}


def _host_of(one: ConfigurationSummary) -> dict[str, Any]:
    """Where it was measured; memory as it is shown, because its last bytes differ from boot to boot."""
    result = one.run.result
    host = asdict(result.host)
    facts = {told: host[name] or _NONE for name, told in _HOST_FACTS.items()}
    accelerator = {"accelerator": result.facts.accelerator or _NONE} if result.facts else {}
    return {**facts, "memory": units.memory(result.host.memory_bytes), **accelerator}
