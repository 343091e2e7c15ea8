"""Predictions for one configuration as text: a table, then the answers."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from nws_sweep import units
from nws_sweep.analysis import what_if
from nws_sweep.analysis.summary import ConfigurationSummary
from nws_sweep.analysis.what_if import Predicted, WhatIf
from nws_sweep.errors import ConfigurationError
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.report import snippets
from nws_sweep.results import shown, storage

_MOST_ROWS = 32  # with several prefetch_factor or in_order; of more only the best num_workers of each
_VARIED = ("prefetch_factor", "in_order")
_SWITCHES = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What to predict; None for the value of the best setting or of the run.

    Attributes:
        num_workers: Ascending; of many the table has a ladder and those that were measured.
    """

    num_workers: Sequence[int]
    prefetch_factor: Sequence[int | None]
    in_order: Sequence[bool | None]
    cpus: float | None
    consumer_s: float | None


def asked(options: Namespace) -> Asked:
    """Reads the options of ``predict``.

    Raises:
        ConfigurationError: If a value is not allowed.
    """
    for name, value in (("cpus", options.cpus), ("consumer_s", options.consumer)):
        if value is not None:
            what_if.check(name, value)
    return Asked(
        num_workers=_numbers("num_workers", options.num_workers),
        prefetch_factor=_numbers("prefetch_factor", options.prefetch_factor) if options.prefetch_factor else [None],
        in_order=_switches("in_order", options.in_order) if options.in_order else [None],
        cpus=options.cpus,
        consumer_s=options.consumer,
    )


def _numbers(name: str, text: str) -> list[int]:
    """The numbers of ``2,4,8`` or ``0..64``, ascending."""
    values: set[int] = set()
    for part in text.split(","):
        low, dots, high = part.partition("..")
        try:
            ends = int(low), int(high if dots else low)
        except ValueError:
            ends = 1, 0
        if ends[0] > ends[1]:
            raise ConfigurationError(f"{name}={text}: allowed are integers such as 2,4,8 or a range such as 0..16")
        for end in ends:
            what_if.check(name, end)
        values.update(range(ends[0], ends[1] + 1))
    return sorted(values)


def _switches(name: str, text: str) -> list[bool]:
    if not set(parts := text.split(",")) <= {*_SWITCHES}:
        raise ConfigurationError(f"{name}={text}: allowed is true, false or true,false")
    return [_SWITCHES[part] for part in dict.fromkeys(parts)]


def of(configuration: ConfigurationSummary, asked: Asked) -> str:
    """The predictions for a configuration as printed text.

    Raises:
        NwsSweepError: If the costs of its batches are not stored.
    """
    found = what_if.of(storage.with_records(configuration.run), configuration.best)
    if found is None:
        raise ConfigurationError(f"{configuration.label}: {what_if.NOTHING_RECORDED}")
    variants = []
    for prefetch_factor, in_order in product(asked.prefetch_factor, asked.in_order):
        values = {"prefetch_factor": prefetch_factor, "in_order": in_order, "cpus": asked.cpus}
        other, settings = found.asked(**values, consumer_s=asked.consumer_s)
        variants.append(settings)
    return _render(other, variants, asked.num_workers, configuration.label)


def _render(found: WhatIf, variants: Sequence[QueueSettings], asked: Sequence[int], label: str) -> str:
    numbers = [number for number in asked if number in {*what_if.ladder(asked), *found.recorded_workers}]
    settings = [replace(variant, num_workers=number) for variant in variants for number in numbers]
    if len(settings) > _MOST_ROWS and len(variants) > 1:
        settings = [found.best_of(variant, numbers) for variant in variants]
    rows = [found.predict(one) for one in settings]
    best = found.recommended(rows).settings
    varied = [name for name in _VARIED if len({getattr(variant, name) for variant in variants}) > 1]
    answers = "\n".join([_answer(found, best, varied), *_sizing(found, best, numbers)])
    return f"{_heading(found, best, varied, label)}\n\n{_table(rows, varied)}\n{answers}\n"


def _heading(found: WhatIf, settings: QueueSettings, varied: Sequence[str], label: str) -> str:
    consumer_s = found.recorded_s if found.consumer_s is None else found.consumer_s
    fixed = [f"{name}={shown(getattr(settings, name))}" for name in _VARIED if name not in varied]
    consumer = f"a consumer of {units.seconds(consumer_s)} a batch" if consumer_s else "no consumer"
    recorded = ", ".join(map(str, found.recorded_workers))
    return (
        f"{label}: predicted for {', '.join([units.counted(settings.cpus, 'CPU'), consumer, *fixed])}\n"
        f"from the costs of {units.counted(found.batches, 'batch')[:-1] + 'es'} recorded with num_workers={recorded}"
    )


def _table(rows: Sequence[Predicted], varied: Sequence[str]) -> str:
    measured = any(row.measured for row in rows)
    header = [*varied, "num_workers", "per batch", *["measured"] * measured]
    header += ["epoch", *["measured"] * measured, "samples/s"]
    return snippets.markdown_table(header, [_cells(row, varied, measured) for row in rows])


def _cells(row: Predicted, varied: Sequence[str], measured: bool) -> list[str]:
    found, cells = row.measured, [shown(getattr(row.settings, name)) for name in varied]
    batch = [units.interval(found.batch_s if found else None)] * measured
    epoch = [units.seconds(found.epoch_s if found else None)] * measured
    rate = units.number(row.samples_per_s, units.uncertainty(row.batch_s))
    cells += [str(row.settings.num_workers), units.interval(row.batch_s), *batch]
    return [*cells, units.interval(row.epoch_s), *epoch, rate]


def _answer(found: WhatIf, best: QueueSettings, varied: Sequence[str]) -> str:
    settings = " ".join(f"{name}={shown(getattr(best, name))}" for name in ("num_workers", *varied))
    return f"fewest workers within {units.share(found.tolerance)} of the fastest: {settings}"


def _sizing(found: WhatIf, best: QueueSettings, numbers: Sequence[int]) -> Iterator[str]:
    """How many CPUs a node needs."""
    sizing = found.sizing(best, numbers)
    if sizing is None:
        return
    cpus = f"{units.counted(sizing.cpus, 'CPU')} {'is' if sizing.cpus == 1 else 'are'}"
    pace = f"a batch takes {units.seconds(sizing.batch_s)} with num_workers={sizing.num_workers}"
    fewer = f", with half of the CPUs {units.seconds(sizing.fewer_s)}" if sizing.fewer_s else ""
    if sizing.waits:
        yield f"no number of CPUs is enough so that the consumer never waits; {cpus} as fast as any: {pace}{fewer}"
    else:
        yield f"{cpus} enough so that the consumer never waits: {pace}{fewer}"
