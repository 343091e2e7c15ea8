"""What ``compare`` and ``predict`` print: a table, then lines."""

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nws_sweep import units
from nws_sweep.analysis import what_if
from nws_sweep.analysis.comparing import Pair, RunComparison
from nws_sweep.analysis.summary import ConfigurationSummary
from nws_sweep.analysis.what_if import Predicted, WhatIf
from nws_sweep.errors import ConfigurationError
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.report import page, snippets
from nws_sweep.results import shown, storage

_COMPARED = ["", "num_workers", "time of a", "A", "B", "B / A", "verdict"]
_MOST_ROWS = 32  # with several prefetch_factor or in_order; of more only the best num_workers of each
_VARIED = ("prefetch_factor", "in_order")
_SWITCHES = {"true": True, "false": False}


def predictions(configuration: ConfigurationSummary, options: Namespace) -> str:
    """The predictions for a configuration as printed text, with the options of ``predict``.

    Raises:
        ConfigurationError: If an option is not allowed, or no costs of batches were recorded.
        NotARunError: If costs.csv is missing or cannot be read.
    """
    asked_numbers, ahead = numbers("num_workers", options.num_workers), options.prefetch_factor
    prefetches = numbers("prefetch_factor", ahead) if ahead else [None]
    orders = [_SWITCHES.get(text, text) for text in options.in_order.split(",")] if options.in_order else [None]
    found = what_if.of(storage.with_records(configuration.run), configuration.best)
    if found is None:
        raise ConfigurationError(f"{configuration.label}: {what_if.NOTHING_RECORDED}")
    found, _ = found.asked(training_step=options.training_step)
    asked = (found.asked(prefetch_factor=p, in_order=o, cpus=options.cpus) for p in prefetches for o in orders)
    return _render(configuration.label, found, [settings for _, settings in asked], asked_numbers)


def numbers(name: str, text: str) -> list[int]:
    """The numbers of ``2,4,8`` or ``0..64``, ascending."""
    try:
        ends = [[int(end) for end in part.split("..")] for part in text.split(",")]
    except ValueError:
        ends = []
    ranges = [range(end[0], end[-1] + 1) for end in ends]
    if not ranges or not all(ranges):
        raise ConfigurationError(f"{name}={text}: must be integers such as 2,4,8 or a range such as 0..16")
    for values in ranges:
        what_if.check(name, values[0])
        what_if.check(name, values[-1])
    return sorted(set().union(*ranges))


def _render(label: str, found: WhatIf, variants: Sequence[QueueSettings], asked: Sequence[int]) -> str:
    recorded = [known.settings.num_workers for known in found.model.known]
    numbers = sorted({*what_if.ladder(asked), *recorded} & {*asked})
    groups = [[found.predict(replace(variant, num_workers=number)) for number in numbers] for variant in variants]
    rows = [row for group in groups for row in group]
    if len(rows) > _MOST_ROWS and len(groups) > 1:
        rows = [found.recommended(group) for group in groups]
    best = found.recommended(rows).settings
    varied = [name for name in _VARIED if len({getattr(variant, name) for variant in variants}) > 1]
    chosen = {name: f"{name}={shown(getattr(best, name))}" for name in ("num_workers", *_VARIED)}
    return page.rendered(
        "prediction.txt", label=label, found=found, best=best, recorded=recorded, table=_table(rows, varied),
        costs=sum(len(known.records.made) for known in found.model.known), sizing=_sizing(found, best, numbers),
        fixed=[chosen[name] for name in _VARIED if name not in varied],
        answer=[chosen[name] for name in ("num_workers", *varied)],
    )  # fmt: skip


def _table(rows: Sequence[Predicted], varied: Sequence[str]) -> str:
    measured = ["measured"] * any(row.measured for row in rows)
    header = [*varied, "num_workers", "per batch", *measured, "epoch", *measured, "samples/s"]
    cells = []
    for row in rows:
        found, named = row.measured, [shown(getattr(row.settings, name)) for name in (*varied, "num_workers")]
        batch = [units.interval(found.batch_s if found else None) for _ in measured]
        epoch = [units.seconds(found.epoch_s if found else None) for _ in measured]
        rate = units.number(row.samples_per_s, units.uncertainty(row.batch_s))
        cells.append([*named, units.interval(row.batch_s), *batch, units.interval(row.epoch_s), *epoch, rate])
    return snippets.markdown_table(header, cells)


def _sizing(found: WhatIf, best: QueueSettings, numbers: Sequence[int]) -> Iterator[str]:
    paces = found.sizing(best, numbers)
    if not paces:
        return
    *fewer, (cpus, (batch_s, num_workers)) = paces.items()
    half = f", or {units.seconds(fewer[-1][1][0])} with half of the CPUs" if fewer else ""
    are = f"{units.counted(cpus, 'CPU')} {'is' if cpus == 1 else 'are'}"
    answer = f"{are} enough to keep the training step busy after the start"
    if batch_s > found.step_s * (1 + found.tolerance):
        answer = f"no number of CPUs keeps the training step busy; {are} as fast as any"
    yield f"{answer}: a batch takes {units.seconds(batch_s)} with num_workers={num_workers}{half}"


def of_comparison(comparison: RunComparison) -> str:
    """The comparison as printed text."""
    table = snippets.markdown_table(_COMPARED, [_row(pair) for pair in comparison.pairs])
    verdicts = Counter(map(_verdict, comparison.pairs))
    counts = ", ".join(f"{count} {name}" for name, count in verdicts.items())
    return page.rendered("comparison.txt", comparison=comparison, table=table, counts=counts)


def _row(pair: Pair) -> list[str]:
    """The cells of a configuration under ``_COMPARED``."""
    times = pair.times
    return [
        pair.label,
        " -> ".join(dict.fromkeys((_setting(pair.a), _setting(pair.b)))),
        times.quantity.value if times else units.NOTHING,
        units.interval(times.base if times else None),
        units.interval(times.other if times else None),
        str(times.ratio) if times else units.NOTHING,
        _verdict(pair),
    ]


def _setting(one: ConfigurationSummary) -> str:
    return snippets.of_trial(one.answer, one.configuration).candidate if one.answer else units.NOTHING


def _verdict(pair: Pair) -> str:
    sides = [name for name, one in (("A", pair.a), ("B", pair.b)) if one.best is None]
    return pair.change.value if pair.change else f"failed in {' and '.join(sides)}"
