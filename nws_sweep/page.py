"""What the HTML report says, as one frozen value: every figure is text already, so that drawing it decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nws_sweep import cells, formats, per_rank, units
from nws_sweep.analysis import ConfigurationSummary, Summary, best_settings
from nws_sweep.certainty import certainty
from nws_sweep.data_table import Table, rounded
from nws_sweep.effects import Effect, effects
from nws_sweep.records import Trial

# Each with its sentences and snippets; of more configurations these are told, and the table has them all.
MOST_ANSWERS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """Text to be pasted, and where."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was found for one configuration.

    Attributes:
        label: The configuration.
        setting: What to set, such as ``num_workers=4``; empty if nothing could be measured.
        pace: How fast that is, with its interval.
        gains: What it gains, a phrase each.
        why: What limits it, the most important sentence first.
        certainty: How sure the answer is.
        snippets: The settings, ready to paste.
        warnings: What puts it into question.
        error: Why there is none; empty if there is one.
        ranks: A row for each rank; none for one alone.
        rank_header: The titles of its columns.
    """

    label: str
    setting: str
    pace: str
    gains: tuple[str, ...]
    why: tuple[str, ...]
    certainty: str
    snippets: tuple[Snippet, ...]
    warnings: tuple[str, ...]
    error: str
    ranks: tuple[tuple[str, ...], ...] = ()
    rank_header: tuple[str, ...] = per_rank.HEADER


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The report of a run or a grid.

    Attributes:
        title: What it is of.
        measured: When and where, in a line.
        answer: The answer of a run; of a grid the configuration that loads the most samples per second. None if
            nothing could be measured.
        configurations: How many there are.
        answers: Those that are told one by one, in the order of measuring.
        best: The table of best settings.
        effects: What each varying setting changes.
        trials: Every trial.
        failures: A line each.
        warnings: Those that concern all configurations, a line each.
        facts: About the host and the circumstances: name and text.
        limits: What the method cannot tell, a sentence each.
    """

    title: str
    measured: str
    answer: Answer | None
    configurations: int
    answers: tuple[Answer, ...]
    best: Table
    effects: tuple[Effect, ...]
    trials: Table
    failures: tuple[str, ...]
    warnings: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    limits: tuple[str, ...]


def page(summary: Summary) -> Page:
    """All that is said of a run or a grid."""
    best = summary.fastest
    chosen = _chosen(summary)
    return Page(
        title=summary.title,
        measured=_measured(summary),
        answer=_answer(best) if best else None,
        configurations=len(summary.configurations),
        answers=tuple(_answer(configuration) for configuration in chosen),
        best=_best_table(summary),
        effects=effects(summary),
        trials=_trials(summary),
        failures=summary.failures,
        warnings=summary.warnings,
        facts=tuple(_facts(summary)),
        limits=LIMITS,
    )


def _chosen(summary: Summary) -> list[ConfigurationSummary]:
    """All configurations, or of many the fastest, in the order of measuring."""
    fastest = sorted(summary.configurations, key=lambda c: c.best_rate, reverse=True)[:MOST_ANSWERS]
    kept = set(map(id, fastest))
    return [configuration for configuration in summary.configurations if id(configuration) in kept]


def _answer(configuration: ConfigurationSummary) -> Answer:
    result, best = configuration.run.result, configuration.best
    settings = best_settings(configuration)
    return Answer(
        label=configuration.label,
        setting=_setting(best, configuration) if best else "",
        pace=_pace(best, configuration) if best else "",
        gains=tuple(_gains(configuration)),
        why=configuration.explanation,
        certainty=certainty(configuration),
        snippets=tuple(_snippets(configuration)) if settings else (),
        warnings=(*configuration.warnings, *formats.left_out(configuration)),
        error=result.error or ("" if best else "no candidate could be measured"),
        ranks=tuple(per_rank.rows(best.measurement.ranks)) if best and best.measurement else (),
    )


def _setting(best: Trial, configuration: ConfigurationSummary) -> str:
    besides, each = configuration.found_besides, configuration.configuration.of_each
    return f"num_workers={best.num_workers} {besides}".rstrip() + each


def _pace(best: Trial, configuration: ConfigurationSummary) -> str:
    shown = cells.of_trial(best, configuration.configuration)
    parts = (
        f"{shown.rate} samples/s" if shown.rate != units.NOTHING else "",
        f"{shown.batch} a batch" if shown.batch != units.NOTHING else "",
        f"{shown.epoch} an epoch" if shown.epoch != units.NOTHING else "",
    )
    return ", ".join(part for part in parts if part)


def _gains(configuration: ConfigurationSummary) -> Iterator[str]:
    best, reference = configuration.best, configuration.configuration.search.reference
    if best is None:
        return
    if configuration.gain_over_zero is not None and best.num_workers:
        yield f"{configuration.gain_over_zero} as fast as without workers"
    if configuration.gain_over_reference is not None and best.num_workers != reference:
        rule = "CPUs" if configuration.configuration.ranks == 1 else "CPUs / ranks"
        yield f"{configuration.gain_over_reference} as fast as with the usual rule, num_workers = {rule} ({reference})"


def _snippets(configuration: ConfigurationSummary) -> Iterator[Snippet]:
    settings = best_settings(configuration) or {}
    yield Snippet(name="DataLoader", text=formats.kwargs(settings))
    yield Snippet(name="Hydra overrides", text=formats.overrides_in_place(settings, configuration))


def _best_table(summary: Summary) -> Table:
    rows = tuple(tuple(formats.best_cells(summary, c)) for c in summary.configurations)
    keys = tuple(_best_keys(summary, c) for c in summary.configurations)
    header = tuple(formats.best_header(summary))
    return Table(header=header, rows=rows, keys=keys)


def _best_keys(summary: Summary, configuration: ConfigurationSummary) -> tuple[float | None, ...]:
    columns, best = configuration.configuration.columns, configuration.best
    identity = [_number(columns.get(name)) for name in summary.varying]
    found = best.measurement if best else None
    figures = [
        float(best.num_workers) if best else None,
        *([None] if summary.searched_besides else []),
        found.samples_per_s if found else None,
        found.batch_s.value if found and found.batch_s else None,
        found.epoch_s if found else None,
        *(gain.value if gain else None for gain in (configuration.gain_over_zero, configuration.gain_over_reference)),
    ]
    return (*identity, *map(rounded, figures))


def _trials(summary: Summary) -> Table:
    """Of a single configuration without its name, which the page has told."""
    first = 0 if len(summary.configurations) > 1 else 1
    rows, keys = [], []
    for configuration in summary.configurations:
        for trial in configuration.trials:
            rows.append((configuration.label, *_trial_row(trial, configuration))[first:])
            keys.append((None, *map(rounded, _trial_keys(trial)))[first:])
    return Table(header=_TRIALS[first:], rows=tuple(rows), keys=tuple(keys))


_TRIALS = (
    "configuration", "num_workers", "per batch", "samples/s", "start-up", "epoch", "waiting", "memory", "bursts",
    "state",
)  # fmt: skip


def _trial_row(trial: Trial, configuration: ConfigurationSummary) -> tuple[str, ...]:
    shown = cells.of_trial(trial, configuration.configuration)
    return (
        shown.candidate, shown.batch, shown.rate, shown.startup, shown.epoch, shown.waiting, shown.memory, shown.bursts,
        shown.state,
    )  # fmt: skip


def _trial_keys(trial: Trial) -> tuple[float | None, ...]:
    found = trial.measurement
    if found is None:
        return (trial.num_workers, *[None] * (len(_TRIALS) - 2))
    return (
        trial.num_workers, found.batch_s.value if found.batch_s else None, found.samples_per_s, found.startup_s,
        found.epoch_s, found.stall_fraction, found.memory_bytes, found.batch_s.n if found.batch_s else 0, None,
    )  # fmt: skip


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _measured(summary: Summary) -> str:
    began = min((run.result.started_at for run in summary.stored.runs), default="")
    return f"{began[:16].replace('T', ' ')} on {summary.hosts[0].hostname}".strip()


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    host = summary.hosts[0]
    yield "host", host.hostname
    yield "CPUs", f"{host.cpu_model}, {host.usable_cpus} usable of {host.cpu_count}"
    yield "memory", units.memory(host.memory_bytes)
    yield "system", host.platform
    yield (
        "versions",
        (f"Python {host.python}, torch {host.torch}, torchvision {host.torchvision}, nws_sweep {host.nws_sweep}"),
    )
    for other in summary.hosts[1:]:
        yield (
            "another host",
            f"{other.hostname}: {other.cpu_model}, {other.usable_cpus} usable of {other.cpu_count} CPUs",
        )
    yield from (("fastest on", line) for line in formats.fastest_lines(summary))
    yield from _disturbances(summary)
    cost_s = sum(run.result.cost_s for run in summary.stored.runs)
    yield "cost", f"searching took {units.seconds(cost_s)} in all"


def _disturbances(summary: Summary) -> Iterator[tuple[str, str]]:
    noises = [trial.noise for c in summary.configurations for trial in c.trials if trial.noise]
    if not noises:
        return
    other, steal, throttled = (max(getattr(n, name) for n in noises) for name in ("other_cpus", "steal", "throttled"))
    yield (
        "noise",
        (
            f"while a candidate was measured, other programs used up to {other:.1f} CPUs, the hypervisor took up to "
            f"{units.share(steal)} of the CPU time, and the CPU quota throttled up to {units.share(throttled)} of it"
        ),
    )


LIMITS = (
    "An interval (±) is of 95 %, over bursts of batches; with fewer than three bursts there is none. It tells how well "
    "the pace was measured on this machine and on this day, and nothing about others.",
    "The recommended candidate has the fewest workers among those that are not slower than the fastest by more than "
    "search.tolerance.",
    "The files were in the page cache unless measure.cache says otherwise: a first epoch from a disk takes longer.",
    "Training was stood in for by the configured consumer; other things that a training step does at the same time, on "
    "the CPUs or on the way to an accelerator, are not in these figures.",
)
