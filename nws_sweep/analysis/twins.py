"""Points of a grid that need not be told apart: equal answers that are as fast, and
equal answers for the same cause. Pure."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Quantity, times_of
from nws_sweep.records import shown

_MOST_LABELS = 3  # of twins that no axes describe


@dataclass(frozen=True, slots=True)
class Twins:
    """Configurations that are shown as one, at least one."""

    configurations: tuple[ConfigurationSummary, ...]

    @property
    def first(self) -> ConfigurationSummary:
        """The one that stands for all."""
        return self.configurations[0]

    def values(self, column: str) -> tuple[str, ...]:
        """Its distinct values of a column, as they are shown; empty if it lacks the
        column."""
        values = []
        for configuration in self.configurations:
            columns = configuration.configuration.columns
            if column in columns:
                values.append(shown(columns[column]))
        return tuple(dict.fromkeys(values))

    def label(self, columns: Sequence[str]) -> str:
        """Names it by the values of these columns, such as ``batch_size=64, pin_memory
        true or false``."""
        values = {column: self.values(column) for column in columns}
        if math.prod(map(len, values.values())) == len(self.configurations):
            return ", ".join(
                f"{column}={texts[0]}"
                if len(texts) == 1
                else f"{column} {' or '.join(texts)}"
                for column, texts in values.items()
            )
        labels = [configuration.label for configuration in self.configurations]
        more = len(labels) - _MOST_LABELS
        named = ", ".join(labels[:_MOST_LABELS])
        return f"{named} and {more} more" if more > 0 else named


def as_fast(summary: Summary) -> list[Twins]:
    """Joins the configurations that differ in the value of a column which does not
    matter: their answers are equal, and the intervals of their times overlap."""
    rows = [Twins((configuration,)) for configuration in summary.configurations]
    columns = [c.configuration.columns for c in summary.configurations]
    for column in summary.distinguishing:
        if column != "dataset" and all(column in names for names in columns):
            others = [name for name in summary.varying if name != column]
            rows = _joined(rows, _Alike(others), are_twins=_are_as_fast)
    return rows


def of_one_kind(summary: Summary) -> list[Twins]:
    """Joins the configurations whose settings, cause and remedies are equal; most
    configurations first."""
    singles = [Twins((c,)) for c in summary.configurations if c.answer is not None]
    joined = _joined(singles, lambda twins: twins.first.conclusions.kind)
    return sorted(joined, key=lambda twins: -len(twins.configurations))


@dataclass(frozen=True, slots=True)
class _Alike:
    """What twins must agree in: the answer, and the values of these columns."""

    columns: Sequence[str]

    def __call__(self, twins: Twins) -> Hashable:
        answer = twins.first.answer
        values = tuple(twins.values(column) for column in self.columns)
        # those without an answer are alike to none
        settings = (
            (answer.num_workers, twins.first.changed_settings) if answer else id(twins)
        )
        return settings, twins.first.status, values


def _joined(
    rows: Iterable[Twins],
    key_of: Callable[[Twins], Hashable],
    are_twins: Callable[[Sequence[ConfigurationSummary]], bool] = lambda _: True,
) -> list[Twins]:
    """Joins the rows with equal keys, unless they are no twins; in the order of the
    first of each."""
    by_key: dict[Hashable, list[Twins]] = {}
    for row in rows:
        by_key.setdefault(key_of(row), []).append(row)
    joined = []
    for alike in by_key.values():
        members = tuple(member for twins in alike for member in twins.configurations)
        if len(alike) > 1 and are_twins(members):
            joined.append(Twins(members))
        else:
            joined += alike
    return joined


def _are_as_fast(configurations: Sequence[ConfigurationSummary]) -> bool:
    """Whether the intervals of the times of all answers overlap, and have one unit."""
    answers = [c.answer for c in configurations if c.answer is not None]
    ends = []
    for answer in answers:
        times = times_of(answers[0], answer)
        if times is None or times.quantity is not Quantity.BATCH:
            return False
        ends.append(times.compared.ends)
    return max(low for low, _ in ends) <= min(high for _, high in ends)
