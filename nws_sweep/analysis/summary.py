"""Summarises results as one frozen value, from which terminal, Markdown, HTML, plots
and tables are rendered."""

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nws_sweep.analysis import accounts, advice, answers, caveats, rates, what_if
from nws_sweep.analysis.advice import Advice
from nws_sweep.analysis.answers import Answer
from nws_sweep.analysis.diagnosis import Diagnosis, diagnose
from nws_sweep.analysis.stage_savings import stages_of, with_workers
from nws_sweep.analysis.time_ratios import Ratio, ratio_of
from nws_sweep.model import choice
from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.stages import Stage
from nws_sweep.records import (
    Configuration,
    Host,
    ProjectFacts,
    SearchRecord,
    Status,
    Trial,
    TrialState,
    varying_columns,
)
from nws_sweep.records.storage import Stored, StoredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusions:
    """What the records of the batches of a configuration say, without the records,
    which need much memory.

    Attributes:
        diagnosis: Of the only configuration, with its records; None for one of several.
        bottlenecks: The most important first; None if batches were not recorded.
        answer: What is shown of the configuration everywhere.
        kind: What is equal for configurations that need the same: the settings, the
            cause and the remedies without figures.
        details: What else is known about the time of an epoch.
        warnings: Lines that question the answer or suggest how to improve it, besides
            its note.
    """

    diagnosis: Diagnosis | None
    bottlenecks: tuple[Bottleneck, ...] | None
    answer: Answer
    kind: tuple[str, ...]
    details: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)  # without slots, for cached properties
class ConfigurationSummary:
    """The results of one configuration; what could not be measured is None."""

    run: StoredRun
    # its values of the columns that vary in the grid, such as ``batch_size=64
    # pin_memory=true``
    label: str
    # the fastest trial so far, if workers cost a price; see ``answer``
    best: Trial | None
    # names of the DataLoader settings that were searched, or that vary in the grid
    searched: tuple[str, ...]
    is_only: bool = False  # no other configuration was measured

    @property
    def heading(self) -> str:
        """The line above its answer: its label, if there are other configurations."""
        return "" if self.is_only else f"{self.label}\n"

    @functools.cached_property
    def conclusions(self) -> Conclusions:
        """What the records of batches say; they are read from the disk, and not kept
        for several configurations."""
        recorded, best = self.run.recorded, self.best
        diagnosis = diagnose(recorded, best)
        predictions = diagnosis.predictions if diagnosis else None
        advised = Advice()
        remedies: tuple[str, ...] = ()
        details: list[str] = []
        if best and diagnosis:
            stages = stages_of(recorded, best, diagnosis.replayed)
            advised = advice.of(diagnosis, stages)
            details += advice.details(diagnosis)
            remedies = answers.to_decide(recorded, diagnosis.predictions)
            remedies = remedies or tuple(map(str, advised.remedies))
        has_step = recorded.configuration.has_step
        details.append(accounts.line(best, has_step=has_step))
        details += advice.on_samples(recorded)
        if self.is_only and predictions and not predictions.step_s:
            details.append(advice.fed_steps(predictions.feeding()))
        if recorded.stop_reason:
            details.append(f"stopped: {recorded.stop_reason}")
        settings = answers.settings_of(recorded, best) if best else ""
        return Conclusions(
            diagnosis=diagnosis if self.is_only else None,
            bottlenecks=diagnosis.bottlenecks if diagnosis else None,
            answer=Answer(
                answer=answers.line_of_search(recorded, best, predictions),
                note="; ".join(caveats.notes(recorded, best)),
                why=advised.cause,
                remedies=remedies,
                cost=answers.cost_of(recorded, best),
            ),
            kind=(settings, *advised.kind),
            details=tuple(filter(None, details)),
            warnings=tuple(caveats.on(recorded, best, diagnosis)),
        )

    @property
    def conclusion(self) -> Answer:
        """The answer, why, and what next: what is shown of it everywhere."""
        return self.conclusions.answer

    @property
    def details(self) -> tuple[str, ...]:
        """What ``-v``, the report and the page show besides: figures, then warnings."""
        warnings = (f"warning: {line}" for line in self.conclusions.warnings)
        return (*self.conclusions.details, *warnings)

    @property
    def status(self) -> Status | None:
        """How the answer was found; None if no candidate was measured."""
        return self.run.result.status

    @property
    def answer(self) -> Trial | None:
        """The recommended trial; None if nothing was measured, or only the candidates
        that are measured first."""
        if self.status is Status.UNDECIDED:
            return None
        return self.best

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The bottlenecks at the best setting; None if batches were not recorded."""
        if self.is_only:
            return self.conclusions.diagnosis
        return diagnose(self.run.recorded, self.best)

    @functools.cached_property
    def stages(self) -> tuple[Stage, ...]:
        """What makes a sample expensive, with the epoch without it, the most expensive
        first; empty if none were timed.

        It takes many replays.
        """
        if self.best is None:
            return ()
        diagnosis = self.diagnosis
        if diagnosis is None:
            return stages_of(self.run.recorded, self.best, None)
        stages = stages_of(self.run.recorded, self.best, diagnosis.replayed)
        return tuple(with_workers(stage, diagnosis) for stage in stages)

    @property
    def configuration(self) -> Configuration:
        """The settings that were held fixed."""
        return self.run.result.configuration

    @property
    def project(self) -> ProjectFacts | None:
        """The project config from which the loader was made; None if there is none."""
        if self.run.result.facts:
            return self.run.result.facts.project
        return None

    @property
    def best_rate(self) -> float:
        """Samples per second of the best, as in tables and pictures; 0 if unknown."""
        if self.best is None:
            return 0.0
        rate = rates.rate(self.best, self.run.result)
        return rate.value if rate else 0.0

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials, ascending by num_workers."""
        trials = self.run.result.trials
        return tuple(sorted(trials, key=lambda trial: trial.num_workers))

    @property
    def worker_trials(self) -> tuple[Trial, ...]:
        """The trials of the search of num_workers, without those of settings searched
        after it."""
        return what_if.worker_trials(self.run.result)

    def gain_over(self, num_workers: int | None) -> Ratio | None:
        """Its time / the time of the best, such as over no workers or over the
        reference, the usable CPUs; None without either time."""
        for trial in self.worker_trials:
            if self.best and trial.num_workers == num_workers:
                return ratio_of(self.best, trial)
        return None

    @property
    def changed_settings(self) -> str:
        """Settings of the best that differ from the configuration, other than
        num_workers, as ``key=value``."""
        if self.best:
            return self.configuration.differing(self.best.settings)
        return ""


@dataclass(frozen=True, kw_only=True)  # without slots, for cached properties
class Summary:
    """The results of all configurations of a run or a grid, in the order of
    measuring."""

    stored: Stored
    configurations: tuple[ConfigurationSummary, ...]
    # identifying columns whose values differ between configurations, and ``dataset``
    varying: tuple[str, ...]
    warnings: tuple[str, ...]  # lines that concern all configurations
    # a line with each reason why trials or a configuration could not be measured
    failures: tuple[str, ...]

    @functools.cached_property
    def hosts(self) -> tuple[Host, ...]:
        """The distinct hosts, in the order of measuring."""
        return tuple(dict.fromkeys(run.result.host for run in self.stored.runs))

    @functools.cached_property
    def fastest(self) -> ConfigurationSummary | None:
        """The configuration whose answer loads the most samples per second; of
        undecided ones if there is no answer.

        None if nothing was measured.
        """
        return fastest_of(self.configurations)

    @property
    def rate_unit(self) -> str:
        """The unit of ``ConfigurationSummary.best_rate``: of an epoch, unless the length of
        one is unknown."""
        trials = (trial for c in self.configurations for trial in c.worker_trials)
        measured = (trial for trial in trials if trial.objective_s is not None)
        has_lengths = all(trial.batches for trial in measured)
        return f"samples per second{' of an epoch' if has_lengths else ''}"

    @functools.cached_property
    def distinguishing(self) -> tuple[str, ...]:
        """The varying columns, without a dataset that all configurations share."""
        columns = [c.configuration.columns for c in self.configurations]
        if len({str(values.get("dataset")) for values in columns}) > 1:
            return self.varying
        return tuple(name for name in self.varying if name != "dataset")

    @property
    def of_datasets(self) -> tuple[str, ...]:
        """The columns that distinguish datasets, such as ``dataset.root``: times of two
        datasets are never compared."""
        return tuple(
            name for name in self.distinguishing if name.partition(".")[0] == "dataset"
        )

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """Warnings of the run, then those of each configuration with its label."""
        lines = [*self.warnings]
        for c in self.configurations:
            lines += [f"{c.label}: {line}" for line in c.conclusions.warnings]
        return tuple(lines)

    def labelled(
        self, lines_of: Callable[[ConfigurationSummary], Iterable[str]]
    ) -> list[str]:
        """The lines about all configurations; of several, with their labels."""
        lines = []
        for c in self.configurations:
            label = "" if len(self.configurations) == 1 else f"{c.label}: "
            lines += [f"{label}{line}" for line in lines_of(c)]
        return lines

    @property
    def identities(self) -> tuple[str, ...]:
        """The columns that tell the rows of a table apart; the dataset of a single
        configuration."""
        return self.distinguishing or self.varying

    @property
    def load(self) -> str:
        """What other programs used of the CPUs; empty if it was next to nothing."""
        return answers.load([run.result for run in self.stored.runs])

    @property
    def unlike_machines(self) -> str:
        """A line if the results come from machines whose times cannot be compared;
        empty if not."""
        return caveats.unlike_machines([run.result for run in self.stored.runs])

    @property
    def succeeded(self) -> bool:
        """Whether every configuration was measured to an answer without a failure."""
        answered = all(
            c.run.result.complete and c.status is not Status.UNDECIDED
            for c in self.configurations
        )
        return answered and not self.failures and not self.stored.unreadable

    @property
    def title(self) -> str:
        """``Grid`` or ``Run``, and the name of the folder."""
        return f"{'Grid' if self.stored.is_grid else 'Run'} {self.stored.folder.name}"


def summarise_record(record: SearchRecord) -> Summary:
    """Summarises one search that has no folder."""
    here = Path(os.devnull)  # a folder without files
    runs = (StoredRun(folder=here, result=record),)
    return summarise(Stored(folder=here, is_grid=False, runs=runs))


def summarise(stored: Stored) -> Summary:
    """Summarises the stored results of a run or a grid."""
    results = [run.result for run in stored.runs]
    varying = varying_columns([result.configuration for result in results])
    configurations = tuple(_configuration(run, varying, stored) for run in stored.runs)
    return Summary(
        stored=stored,
        configurations=configurations,
        varying=varying,
        warnings=(*caveats.on_all(results), *stored.unreadable, *stored.set_aside),
        failures=tuple(
            line for result in results for line in _failures(result, varying)
        ),
    )


def fastest_of(
    configurations: Iterable[ConfigurationSummary],
) -> ConfigurationSummary | None:
    """Selects the configuration whose answer loads the most samples per second; of
    undecided ones if there is no answer. None if nothing was measured."""
    measured = (c for c in configurations if c.best)
    return max(
        measured, key=lambda c: (c.answer is not None, c.best_rate), default=None
    )


def best_of(result: SearchRecord) -> Trial | None:
    """Selects the recommended trial: by the verdict of the search, or by
    ``model.choice`` if it did not finish."""
    by_settings = {trial.settings: trial for trial in result.trials}
    if result.verdict is not None:
        return by_settings.get(result.verdict.recommended)
    costs_s = {
        trial.settings: trial.objective_s
        for trial in result.trials
        if trial.objective_s is not None
    }
    if not costs_s:
        return None
    return by_settings[choice.choose(costs_s, result.configuration.search.tolerance)]


def _configuration(
    run: StoredRun, varying: Sequence[str], stored: Stored
) -> ConfigurationSummary:
    result = run.result
    best = best_of(result)
    return ConfigurationSummary(
        run=run,
        label=result.configuration.label_of(varying),
        best=best,
        searched=(
            *(result.configuration.search.settings or ()),
            *varying,
            *stored.axes,
        ),
        is_only=len(stored.runs) == 1,
    )


def _failures(result: SearchRecord, varying: Sequence[str]) -> Iterable[str]:
    label = result.configuration.label_of(varying)
    if result.error:
        yield f"{label}: {result.error}"
    numbers: dict[str, dict[int, None]] = {}  # by the reason
    for trial in result.trials:
        if trial.state is not TrialState.OK:
            reason = f"{trial.state.value}: {trial.reason}"
            numbers.setdefault(reason, {})[trial.num_workers] = None
    for reason, failed in numbers.items():
        yield f"{label} num_workers={', '.join(map(str, failed))}: {reason}"
