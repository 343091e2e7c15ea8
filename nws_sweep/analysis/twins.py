"""Points of a grid that need not be told apart: equal answers that are as fast, and
equal answers for the same cause. Pure."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Quantity, times_of
from nws_sweep.records import shown
from nws_sweep.units import listed

T = TypeVar("T")

_MOST_LABELS = 1  # of twins that no axes describe


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
        columns = [c.configuration.columns for c in self.configurations]
        texts = [shown(values[column]) for values in columns if column in values]
        return tuple(dict.fromkeys(texts))

    def label(self, columns: Sequence[str]) -> str:
        """Names it by the values of these columns, such as ``batch_size=64, pin_memory
        true or false``."""
        texts = {c: values for c in columns if (values := self.values(c))}
        if math.prod(map(len, texts.values())) == len(self.configurations):
            return ", ".join(map(_in_words, texts, texts.values()))
        return listed([c.label for c in self.configurations], _MOST_LABELS)


def _in_words(column: str, values: Sequence[str]) -> str:
    """``batch_size=64``, or ``pin_memory true or false``."""
    mark = "=" if len(values) == 1 else " "
    return f"{column}{mark}{' or '.join(values)}"


def as_fast(summary: Summary) -> list[Twins]:
    """Joins the configurations that differ in the value of a column which does not
    matter: their answers are equal, and the intervals of their times overlap."""
    rows = [Twins((configuration,)) for configuration in summary.configurations]
    for column in summary.distinguishing:
        is_of_dataset = column in summary.of_datasets
        if not is_of_dataset and all(row.values(column) for row in rows):
            others = [name for name in summary.varying if name != column]
            rows = _joined(rows, others)
    return rows


def _joined(rows: Sequence[Twins], columns: Sequence[str]) -> list[Twins]:
    """Joins the rows that agree in the answer and in the values of these columns, if
    their times do not tell them apart."""
    joined = []
    for alike in _grouped(rows, partial(_answer, columns)):
        members: list[ConfigurationSummary] = []
        for twins in alike:
            members += twins.configurations
        if _are_as_fast(members):
            joined.append(Twins(tuple(members)))
        else:
            joined += alike
    return joined


def of_one_kind(summary: Summary) -> list[Twins]:
    """Joins the configurations whose settings, cause and remedies are equal; most
    configurations first."""
    answered = [c for c in summary.configurations if c.answer is not None]
    kinds = _grouped(answered, lambda c: c.conclusions.kind)
    return [Twins(tuple(alike)) for alike in sorted(kinds, key=len, reverse=True)]


def _grouped(items: Iterable[T], key_of: Callable[[T], Hashable]) -> list[list[T]]:
    """Groups items with equal keys, in the order of the first of each group."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key_of(item), []).append(item)
    return [*groups.values()]


def _answer(columns: Sequence[str], twins: Twins) -> Hashable:
    """What twins must agree in: the answer, and the values of these columns.

    Times of batches do not tell workers that persist from others.
    """
    first = twins.first
    number = first.answer and first.answer.num_workers
    persist = first.answer and first.answer.settings.persistent_workers
    values = tuple(map(twins.values, columns))
    return number, persist, first.changed_settings, first.status, values


def _are_as_fast(configurations: Sequence[ConfigurationSummary]) -> bool:
    """Whether all have answers for batches of one size, and the intervals of their
    times overlap."""
    answers = [c.answer for c in configurations if c.answer is not None]
    ends = []
    for answer in answers:
        times = times_of(answers[0], answer)
        if times and times.quantity is Quantity.BATCH:
            ends.append(times.compared.ends)
    if len(ends) < len(configurations):
        return False
    return max(low for low, _ in ends) <= min(high for _, high in ends)
