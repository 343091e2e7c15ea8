"""Compares two runs or grids, A and B: frozen values, ready to be rendered. Pure.

A ratio of A and B is the time of B / the time of A.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from nws_sweep import units
from nws_sweep.analysis import caveats
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Change, Quantity, Times, change_of, times_of
from nws_sweep.errors import ConfigurationError, one_line
from nws_sweep.records import Status, Trial, shown

_LONGEST_VALUE = 80
_NONE = "none"  # for facts that a host lacks, such as torchvision

ALARMS = ("slower", "faster", "changed")  # the values of --fail-if


class Difference(NamedTuple):
    """The distinct values of ``batch_size``, ``dataset.count`` or ``cpu_model`` that
    differ between A and B."""

    name: str
    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One configuration in A and in B."""

    label: str
    a: ConfigurationSummary
    b: ConfigurationSummary
    # of the best setting in A (``base``) and in B (``compared``); None without a
    # common quantity
    times: Times | None
    change: Change | None  # None if one of them has no best setting
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs or grids side by side."""

    a: Summary
    b: Summary
    within: float  # times that differ by no more than this share count as the same
    # the configurations in both, at least one, in the order of A
    pairs: tuple[Pair, ...]
    only_a: tuple[str, ...]  # labels of the others
    only_b: tuple[str, ...]
    settings: tuple[Difference, ...]  # other differences over all pairs
    hosts: tuple[Difference, ...]

    def alarming(self, alarm: str) -> tuple[Pair, ...]:
        """Selects the pairs that match one of ``ALARMS``; pairs that failed in B match
        ``slower`` and ``changed``."""
        changes = (
            (Change.SLOWER, Change.FASTER) if alarm == "changed" else (Change(alarm),)
        )
        alarming = []
        for pair in self.pairs:
            change = pair.change if pair.b.best else Change.SLOWER
            if pair.a.best and change in changes:
                alarming.append(pair)
        return tuple(alarming)


def compare(a: Summary, b: Summary, within: float) -> RunComparison:
    """Compares the best settings of each configuration that is in both.

    Configurations are paired by their values of the columns that vary in A or in B.
    Columns that are constant in A and in B may differ between them and are reported as
    differences, so two single runs are always paired. If A or B comes from unlike
    machines, only configurations of like machines are paired. Times that differ by no
    more than the share ``within`` (0.03 for 3 %) count as the same.

    Raises:
        ConfigurationError: If no combination is in both.
    """
    columns = tuple(dict.fromkeys((*a.distinguishing, *b.distinguishing)))
    apart = bool(a.unlike_machines or b.unlike_machines)
    in_a, in_b = _by_values(a, columns, apart), _by_values(b, columns, apart)
    pairs = tuple(
        _pair(c, in_b[key], columns, within) for key, c in in_a.items() if key in in_b
    )
    if not pairs:
        all_a, all_b = (
            one_line(", ".join(_labels(side.values(), columns)), 200)
            for side in (in_a, in_b)
        )
        raise ConfigurationError(
            f"no combination is in both: A has {all_a}; B has {all_b}"
        )
    return RunComparison(
        a=a,
        b=b,
        within=within,
        pairs=pairs,
        only_a=_labels((c for key, c in in_a.items() if key not in in_b), columns),
        only_b=_labels((c for key, c in in_b.items() if key not in in_a), columns),
        settings=_differences(pairs, _settings_of),
        hosts=_differences(pairs, _host_of),
    )


def _by_values(
    summary: Summary, columns: Sequence[str], apart: bool
) -> dict[tuple[str, ...], ConfigurationSummary]:
    """Indexes the configurations by their values in these columns; a number makes equal
    ones unique.

    With ``apart`` those of each kind of machine are separate.
    """
    by_values: dict[tuple[str, ...], ConfigurationSummary] = {}
    for c in summary.configurations:
        values = [shown(c.configuration.columns.get(name)) for name in columns]
        if apart:
            values.append(caveats.machine(c.run.result))
        number = sum(key[:-1] == tuple(values) for key in by_values)
        key = (*values, str(number))
        by_values[key] = c
    return by_values


def _labels(
    configurations: Iterable[ConfigurationSummary], columns: Sequence[str]
) -> tuple[str, ...]:
    return tuple(
        c.configuration.label_of(columns or ("dataset",)) for c in configurations
    )


def _pair(
    a: ConfigurationSummary,
    b: ConfigurationSummary,
    columns: Sequence[str],
    within: float,
) -> Pair:
    times = times_of(a.answer, b.answer) if a.answer and b.answer else None
    change = Change.UNCLEAR if a.best and b.best else None
    if times is not None:
        change = change_of(times.ratio, within)
    return Pair(
        label=" / ".join(dict.fromkeys(_labels((a, b), columns))),
        a=a,
        b=b,
        times=times,
        change=change,
        notes=tuple(_notes(a, b, times)),
    )


def _notes(
    a: ConfigurationSummary, b: ConfigurationSummary, times: Times | None
) -> Iterator[str]:
    for name, side in (("A", a), ("B", b)):
        if side.best is None:
            yield f"nothing could be measured in {name}"
        elif side.status and side.status is not Status.MEASURED:
            yield f"{name} is {side.status.value}: {side.run.result.doubt}"
    if a.answer is None or b.answer is None:
        return
    if a.answer.num_workers != b.answer.num_workers:
        yield f"the best num_workers differs{_cost_of_keeping(a.answer, b.answer, b)}"
    yield from _about_times(times)


def _about_times(times: Times | None) -> Iterator[str]:
    if times is None:
        yield "A and B have no comparable time"
    elif times.ratio.ends is None:
        yield "inconclusive without intervals in A and B: too little was measured"
    if times and times.quantity is Quantity.SAMPLE:
        yield "the batch sizes differ, so times per sample are compared"


def _cost_of_keeping(then: Trial, now: Trial, b: ConfigurationSummary) -> str:
    """Says how long the best num_workers of A takes in B, if it was measured there."""
    kept = next(
        (trial for trial in b.worker_trials if trial.num_workers == then.num_workers),
        None,
    )
    times = times_of(now, kept) if kept else None
    return (
        f"; in B the value of A takes {times.ratio} times as long as the best"
        if times
        else ""
    )


def _differences(
    pairs: Sequence[Pair], facts_of: Callable[[ConfigurationSummary], Mapping[str, Any]]
) -> tuple[Difference, ...]:
    """Lists the facts whose values differ between A and B, over all pairs."""
    in_a = [facts_of(pair.a) for pair in pairs]
    in_b = [facts_of(pair.b) for pair in pairs]
    differences = []
    for name in dict.fromkeys(itertools.chain(*in_a, *in_b)):
        a, b = _values(name, in_a), _values(name, in_b)
        if a != b:
            differences.append(Difference(name, a, b))
    return tuple(differences)


def _values(name: str, facts: Iterable[Mapping[str, Any]]) -> str:
    values = dict.fromkeys(
        shown(values_of[name]) if name in values_of else units.NOTHING
        for values_of in facts
    )
    return one_line(", ".join(values), _LONGEST_VALUE)


def _settings_of(c: ConfigurationSummary) -> dict[str, Any]:
    """Returns the identifying columns, then everything else that affects the times."""
    configuration, facts = c.configuration, c.run.result.facts
    measure = {"mode": configuration.measure.mode, "cache": configuration.measure.cache}
    parts = {
        "dataset": configuration.dataset,
        "training_step": configuration.training_step,
        "measure": measure,
    }
    settings = dict(configuration.columns)
    for part, values in parts.items():
        settings |= {f"{part}.{name}": value for name, value in values.items()}
    settings |= asdict(replace(configuration.loader, num_workers=0))
    settings |= {"collate_fn": configuration.collate_fn, "ranks": configuration.ranks}
    if facts:
        settings["samples of the dataset"] = facts.samples
    return {**settings, **configuration.columns}


def _host_of(c: ConfigurationSummary) -> dict[str, Any]:
    """Returns facts of the host; memory is rounded, since its last bytes differ from
    boot to boot."""
    host, facts = c.run.result.host, c.run.result.facts
    values = asdict(host) | ({"accelerator": facts.accelerator} if facts else {})
    return {name: value or _NONE for name, value in values.items()} | {
        "memory_bytes": units.memory(host.memory_bytes)
    }
