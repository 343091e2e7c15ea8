"""Two runs or grids become one frozen value: what each configuration takes in one and in the other, and what differs.

The two are called A and B; a ratio is that of B's time to A's. Pure: everything shown is rendered from this value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from nws_sweep import units
from nws_sweep.analysis import node_kinds
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Change, Quantity, Times, change_of, times_of
from nws_sweep.errors import ConfigurationError, one_line
from nws_sweep.results import Trial, shown

_LONGEST_VALUE = 80
_NONE = "none"  # of what a host may lack, such as torchvision

# What a program may ask to be warned of, and the changes that it means.
ALARMS: Mapping[str, tuple[Change, ...]] = {
    "slower": (Change.SLOWER,),
    "faster": (Change.FASTER,),
    "changed": (Change.SLOWER, Change.FASTER),
}

# Facts of a host that are called otherwise when they differ.
_HOST_FACTS: Mapping[str, str] = {
    "hostname": "host",
    "cpu_model": "CPU",
    "cpu_count": "CPUs",
    "usable_cpus": "usable CPUs",
    "memory_bytes": "memory",
}


class Difference(NamedTuple):
    """What is not the same in A and in B, as ``batch_size``, ``dataset.count`` or ``CPU``: its values, each once."""

    name: str
    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One configuration in A and in B.

    ``times`` are those of the best setting in A (``base``) and of that in B (``other``), None if they have none in
    common; ``change`` is what has become of the time, None if one of them has no best setting.
    """

    label: str
    a: ConfigurationSummary
    b: ConfigurationSummary
    times: Times | None
    change: Change | None
    notes: tuple[str, ...]

    @property
    def broke(self) -> bool:
        """Whether it could be measured in A, but no longer in B."""
        return self.a.best is not None and self.b.best is None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs or grids side by side.

    ``pairs`` are the configurations that are in both, in the order of A, at least one; ``only_a`` and ``only_b`` the
    labels of the others. ``settings`` and ``hosts`` are what else differs in what was measured and where, over all
    pairs. Times that differ by no more than the share ``within`` count as the same.
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
    always compared. Times may differ by the share ``within`` (0.03 for 3 %) and still count as the same.

    Raises:
        ConfigurationError: If no configuration is in both.
    """
    columns = tuple(dict.fromkeys((*a.distinguishing, *b.distinguishing)))
    in_a, in_b = _by_values(a, columns), _by_values(b, columns)
    labels_a, labels_b = ({key: _label(one, columns) for key, one in side.items()} for side in (in_a, in_b))
    common = [key for key in in_a if key in in_b]
    if not common:
        told_a, told_b = (one_line(", ".join(labels.values()), 200) for labels in (labels_a, labels_b))
        raise ConfigurationError(f"no configuration is in both: A has {told_a}; B has {told_b}")
    pairs = tuple(_pair(in_a[key], in_b[key], (labels_a[key], labels_b[key]), within) for key in common)
    return RunComparison(
        a=a,
        b=b,
        within=within,
        pairs=pairs,
        only_a=tuple(label for key, label in labels_a.items() if key not in in_b),
        only_b=tuple(label for key, label in labels_b.items() if key not in in_a),
        settings=_differences(pairs, _settings_of),
        hosts=_differences(pairs, _host_of),
    )


def _by_values(summary: Summary, columns: Sequence[str]) -> dict[tuple[str, ...], ConfigurationSummary]:
    """The configurations by their values in these columns; of equal ones the second has a number behind, and so on."""
    found: dict[tuple[str, ...], ConfigurationSummary] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    for one in summary.configurations:
        # The kind of node also where all of a folder are of one, and it is no column.
        told = {node_kinds.COLUMN: node_kinds.kind(one.run.result), **one.configuration.columns}
        values = tuple(shown(told.get(name)) for name in columns)
        seen[values] += 1
        key = (*values, str(seen[values]))
        found[key] = one
    return found


def _label(one: ConfigurationSummary, columns: Sequence[str]) -> str:
    return one.configuration.label_of(columns or ("dataset",))


def _pair(a: ConfigurationSummary, b: ConfigurationSummary, labels: Sequence[str], within: float) -> Pair:
    measured = a.best is not None and b.best is not None
    times = times_of(a.best, b.best) if a.best and b.best else None
    return Pair(
        label=" / ".join(dict.fromkeys(labels)),
        a=a,
        b=b,
        times=times,
        change=change_of(times.ratio, within) if times else Change.UNCLEAR if measured else None,
        notes=tuple(_notes(a, b, times)),
    )


def _notes(a: ConfigurationSummary, b: ConfigurationSummary, times: Times | None) -> Iterator[str]:
    for name, one in (("A", a), ("B", b)):
        if one.best is None:
            yield f"nothing could be measured in {name}"
        elif not one.run.result.complete:
            yield f"its search in {name} did not finish"
    if a.best and b.best and a.best.num_workers != b.best.num_workers:
        yield f"the best num_workers differs{_cost_of_keeping(a.best, b.best, b)}"
    if a.best and b.best:
        yield from _about_times(times)


def _about_times(times: Times | None) -> Iterator[str]:
    if times is None:
        yield "there is no time that both have"
    elif times.quantity is Quantity.SAMPLE:
        yield "the batch sizes differ, so times per sample are compared"
    if times is not None and times.ratio.ends is None:
        yield "without an interval in both nothing can be told: too few windows or epochs were measured"


def _cost_of_keeping(then: Trial, now: Trial, b: ConfigurationSummary) -> str:
    """What the best num_workers of A costs in B, if it was measured there."""
    kept = next((trial for trial in b.worker_trials if trial.num_workers == then.num_workers), None)
    times = times_of(now, kept) if kept else None
    return f"; in B that of A takes {times.ratio} times as long as the best" if times else ""


def _differences(
    pairs: Sequence[Pair], facts_of: Callable[[ConfigurationSummary], Mapping[str, Any]]
) -> tuple[Difference, ...]:
    """What has not the same values in A and in B, over all pairs."""
    in_a, in_b = [facts_of(pair.a) for pair in pairs], [facts_of(pair.b) for pair in pairs]
    names = dict.fromkeys(name for facts in (*in_a, *in_b) for name in facts)
    told = (Difference(name, _values(name, in_a), _values(name, in_b)) for name in names)
    return tuple(difference for difference in told if difference.a != difference.b)


def _values(name: str, facts: Iterable[Mapping[str, Any]]) -> str:
    values = dict.fromkeys(shown(one[name]) if name in one else units.NOTHING for one in facts)
    return one_line(", ".join(values), _LONGEST_VALUE)


def _settings_of(one: ConfigurationSummary) -> dict[str, Any]:
    """What was measured: the identifying columns, as people typed them, then whatever else decides about the times."""
    configuration, facts = one.configuration, one.run.result.facts
    known = {"num_workers", *configuration.columns}
    parts: dict[str, Mapping[str, Any]] = {
        "dataset": configuration.dataset,
        "consumer": configuration.consumer,
        "loader": {name: value for name, value in asdict(configuration.loader).items() if name not in known},
        "measure": {"mode": configuration.measure.mode, "cache": configuration.measure.cache},
    }
    return {
        **dict.fromkeys(configuration.columns),  # the first in the order
        **{f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()},
        "collate_fn": configuration.collate_fn,
        "ranks": configuration.ranks,
        **({"samples of the dataset": facts.samples} if facts else {}),
        **configuration.columns,
    }


def _host_of(one: ConfigurationSummary) -> dict[str, Any]:
    """Where it was measured; memory as it is shown, because its last bytes differ from boot to boot."""
    host, facts = one.run.result.host, one.run.result.facts
    told = {_HOST_FACTS.get(name, name): value or _NONE for name, value in asdict(host).items()}
    accelerator = {"accelerator": facts.accelerator or _NONE} if facts else {}
    return {**told, "memory": units.memory(host.memory_bytes), **accelerator}
