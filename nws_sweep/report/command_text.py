"""What ``compare`` and ``predict`` print: the answer, then a table."""

import math
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nws_sweep import units
from nws_sweep.analysis import what_if
from nws_sweep.analysis.answers import Answer
from nws_sweep.analysis.comparing import Pair, RunComparison
from nws_sweep.analysis.summary import ConfigurationSummary
from nws_sweep.analysis.time_ratios import Change, Ratio
from nws_sweep.analysis.what_if import Predicted, WhatIf
from nws_sweep.errors import ConfigurationError
from nws_sweep.model.queue import QueueSettings
from nws_sweep.records import shown, storage
from nws_sweep.report import page, snippets

_COMPARED = ["", "num_workers", "time of a", "A", "B", "B / A", "verdict"]
_IN_WORDS = {
    Change.SAME: "B is as fast as A",
    Change.SLOWER: "B is slower than A",
    Change.FASTER: "B is faster than A",
    Change.UNCLEAR: "it is not certain whether B is slower or faster than A",
}
# with several prefetch_factor or in_order; of more only the best num_workers of each
_MOST_ROWS = 32
_VARIED = ("prefetch_factor", "in_order")
_SWITCHES = {"true": True, "false": False}


def predictions(configuration: ConfigurationSummary, options: Namespace) -> str:
    """Prints the predictions for a configuration, with the options of ``predict``.

    Raises:
        ConfigurationError: If an option is not allowed, or no costs of batches were
            recorded.
        NotARunError: If costs.csv is missing or cannot be read.
    """
    asked_numbers = numbers("num_workers", options.num_workers)
    prefetches: list[int | None] = [None]
    if options.prefetch_factor:
        prefetches = [*numbers("prefetch_factor", options.prefetch_factor)]
    orders = [None]
    if options.in_order:
        orders = [_SWITCHES.get(text, text) for text in options.in_order.split(",")]
    recorded = what_if.of(storage.with_records(configuration.run), configuration.best)
    if recorded is None:
        raise ConfigurationError(f"{configuration.label}: {what_if.NOTHING_RECORDED}")
    recorded, _ = recorded.asked(training_step=options.training_step)
    variants = []
    for prefetch_factor in prefetches:
        for in_order in orders:
            _, variant = recorded.asked(
                prefetch_factor=prefetch_factor, in_order=in_order, cpus=options.cpus
            )
            variants.append(variant)
    return configuration.heading + _render(recorded, variants, asked_numbers)


def numbers(name: str, text: str) -> list[int]:
    """Reads the numbers of ``2,4,8`` or ``0..64``, ascending."""
    message = f"{name}={text}: must be integers such as 2,4,8 or a range such as 0..16"
    values: set[int] = set()
    for part in text.split(","):
        try:
            ends = [int(end) for end in part.split("..")]
        except ValueError:
            raise ConfigurationError(message) from None
        if ends[0] > ends[-1]:
            raise ConfigurationError(message)
        what_if.check(name, ends[0])
        what_if.check(name, ends[-1])
        values.update(range(ends[0], ends[-1] + 1))
    return sorted(values)


def _render(
    recorded: WhatIf,
    variants: Sequence[QueueSettings],
    asked: Sequence[int],
) -> str:
    trials = recorded.model.trials
    measured = [trial.settings.num_workers for trial in trials]
    numbers = sorted({*what_if.ladder(asked), *measured} & {*asked})
    rows, best_of_variants = [], []
    for variant in variants:
        predicted = [
            recorded.predict(replace(variant, num_workers=number)) for number in numbers
        ]
        rows += predicted
        best_of_variants.append(recorded.recommended(predicted))
    if len(rows) > _MOST_ROWS and len(variants) > 1:
        rows = best_of_variants
    best = recorded.recommended(rows)
    values = {name: {getattr(v, name) for v in variants} for name in _VARIED}
    varied = [name for name in _VARIED if len(values[name]) > 1]
    answer = Answer(
        answer=_predicted(recorded, best, varied),
        why=_source(recorded, best.settings, varied),
        remedies=tuple(_sizing(recorded, best.settings, numbers)),
    )
    return "\n".join([*answer.lines, "", _table(rows, varied)])


def _predicted(recorded: WhatIf, best: Predicted, varied: Sequence[str]) -> str:
    """The settings that take the least time, and how much faster they are than those of
    the search on its CPUs."""
    names = ("num_workers", *varied)
    settings = [f"{name}={shown(getattr(best.settings, name))}" for name in names]
    unit = "an epoch" if best.epoch_s else "a batch"
    line = f"{' '.join(settings)}   {unit} takes {_time(best)}"
    if best.settings == recorded.best:
        return line
    searched = recorded.best
    cpus = units.counted(searched.cpus, "CPU")
    before = recorded.predict(searched)
    before_s = before.cost_s.value
    # on other CPUs a prediction is compared with a prediction
    if before.measured_s is not None and best.settings.cpus == searched.cpus:
        before_s = before.measured_s
    gain = Ratio(
        value=before_s / (best.measured_s or best.cost_s.value), half_width=None
    )
    compared = f"{searched.num_workers} with {cpus}"
    if abs(gain.log) <= math.log1p(recorded.tolerance):
        return f"{line}, about as fast as {compared}"
    return f"{line}, {gain.as_fast_as(compared)}"


def _time(row: Predicted) -> str:
    """The measured time, or the predicted one without it."""
    if row.measured_s is None or row.measured is None:
        return f"{units.interval(row.cost_s)} (predicted)"
    return f"{units.as_exact_as(row.measured_s, row.measured.batch_s)} (measured)"


def _source(recorded: WhatIf, best: QueueSettings, varied: Sequence[str]) -> str:
    """For what it is predicted, and from what."""
    step = "no training step"
    if recorded.step_s:
        step = f"a training step of {units.seconds(recorded.step_s)} a batch"
    conditions = [units.counted(best.cpus, "CPU"), step]
    if best.persistent_workers:
        conditions.append("persistent_workers=true")
    for name in _VARIED:
        if name not in varied:
            conditions.append(f"{name}={shown(getattr(best, name))}")
    trials = recorded.model.trials
    costs = sum(len(trial.records.made) for trial in trials)
    numbers = ", ".join(str(trial.settings.num_workers) for trial in trials)
    return f"{', '.join(conditions)}; from {costs} batches with num_workers={numbers}"


def _table(rows: Sequence[Predicted], varied: Sequence[str]) -> str:
    names = [*varied, "num_workers"]
    times = ["batch, measured", "batch, predicted"]
    times += ["epoch, measured", "epoch, predicted", "samples/s, predicted"]
    table = [[*names, *times]]
    for row in rows:
        measured = row.measured
        table.append(
            [
                *(shown(getattr(row.settings, name)) for name in names),
                units.interval(
                    measured.batch_s if measured and row.is_steady else None
                ),
                units.interval(row.batch_s if row.is_steady else None),
                units.as_exact_as(measured.epoch_s, measured.batch_s)
                if measured
                else units.NOTHING,
                units.interval(row.epoch_s),
                units.number(row.samples_per_s, units.uncertainty(row.cost_s)),
            ]
        )
    told = snippets.without_equal_columns(table, len(names))
    return snippets.markdown_table(told)


def _sizing(
    recorded: WhatIf, best: QueueSettings, numbers: Sequence[int]
) -> Iterator[str]:
    paces = [*recorded.sizing(best, numbers).items()]
    if not paces:
        return
    cpus, (batch_s, num_workers) = paces[-1]
    few = units.counted(cpus, "CPU")
    answer = f"{few} {'keeps' if cpus == 1 else 'keep'} the training step busy"
    if batch_s > recorded.step_s * (1 + recorded.tolerance):
        answer = f"{few} {'is' if cpus == 1 else 'are'} as fast as any, though the training step waits"
    pace = units.seconds(batch_s, units.ROUGHLY)
    line = f"{answer}: {pace} a batch with num_workers={num_workers}"
    if len(paces) > 1:
        _, (slower_s, _) = paces[-2]
        fewer = units.counted(cpus // 2, "CPU")
        line += f", {units.seconds(slower_s, units.ROUGHLY)} on {fewer}"
    yield line


def of_comparison(comparison: RunComparison) -> str:
    """Prints a comparison."""
    table = snippets.markdown_table([_COMPARED, *map(_row, comparison.pairs)])
    verdicts = Counter(map(_verdict, comparison.pairs))
    limit = f"{100 * comparison.within:g} %"
    remedies: tuple[str, ...] = ()
    if Change.UNCLEAR.value in verdicts:
        longer = "strategy=exhaustive num_workers=[N] measure=rigorous"
        remedies = (f"measure longer ({longer}), or allow more with --within",)
    answer = Answer(
        answer=_compared(comparison, verdicts),
        why=f"to be slower or faster, the whole 95 % interval lies beyond {limit}; to be the same, within",
        remedies=remedies,
    )
    return page.rendered(
        "comparison.txt", comparison=comparison, table=table, answer=answer
    )


def _compared(comparison: RunComparison, verdicts: Mapping[str, int]) -> str:
    """The ratio of a single pair; of several, how many have each verdict."""
    if len(comparison.pairs) > 1:
        counts = ", ".join(f"{count} {name}" for name, count in verdicts.items())
        return f"B against A: {counts}"
    (pair,) = comparison.pairs
    if pair.times is None or pair.change is None:
        return f"B against A: {_verdict(pair)}"
    return f"{_IN_WORDS[pair.change]}: it takes {pair.times.ratio.times_as_long}"


def _row(pair: Pair) -> list[str]:
    """Lists the cells of a configuration under ``_COMPARED``."""
    before, after = _setting(pair.a), _setting(pair.b)
    setting = before if before == after else f"{before} -> {after}"
    figures = [units.NOTHING] * 4
    times = pair.times
    if times:
        figures = [
            times.quantity.value,
            units.interval(times.base),
            units.interval(times.compared),
            str(times.ratio),
        ]
    return [pair.label, setting, *figures, _verdict(pair)]


def _setting(configuration: ConfigurationSummary) -> str:
    if configuration.answer is None:
        return units.NOTHING
    return snippets.of_trial(configuration.answer, configuration.run.result).candidate


def _verdict(pair: Pair) -> str:
    if pair.change:
        return pair.change.value
    failed = {"A": pair.a.best is None, "B": pair.b.best is None}
    return f"failed in {' and '.join(name for name in failed if failed[name])}"
