"""What a search takes from earlier results: a first guess, equal trials, and where an
earlier search ended. Pure."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from operator import attrgetter

from nws_sweep.records import (
    Configuration,
    LoaderSettings,
    SearchRecord,
    Trial,
    TrialState,
)

# What must be equal for batches to take the same time, and for times to be measured
# the same way.
_LOADING = attrgetter("dataset", "training_step", "collate_fn", "services")
_MEASURING = attrgetter("measure", "seed", "ranks")


def first_guess(
    configuration: Configuration, earlier: Iterable[SearchRecord]
) -> int | None:
    """Returns the best num_workers of the most similar configuration of the same
    dataset and training step, if any."""
    loader = asdict(configuration.loader).items()
    guess, most_equal = None, -1
    for record in earlier:
        if record.verdict is None or _LOADING(record.configuration) != _LOADING(
            configuration
        ):
            continue
        equal = len(loader & asdict(record.configuration.loader).items())
        if equal > most_equal:
            guess, most_equal = record.verdict.recommended.num_workers, equal
    return guess


def continued(start: SearchRecord, earlier: SearchRecord) -> SearchRecord:
    """Starts a search that goes on where an earlier search of the same configuration
    ended before its answer.

    Trials that are a result are not measured again; all others are.
    """
    trials = {trial.settings: trial for trial in (*start.results, *earlier.results)}
    return replace(
        start,
        facts=earlier.facts or start.facts,
        trials=tuple(trials.values()),
        started_at=earlier.started_at,
        cost_s=earlier.cost_s,
    )


def measured_once(
    configuration: Configuration, earlier: Iterable[SearchRecord]
) -> SearchRecord | None:
    """Returns a final result of a configuration that does the same, as a result of this
    one; None if there is none.

    Identifying columns may differ, and pinned memory changes nothing without an
    accelerator. The stop reason says where it was measured.
    """
    pin_memory = configuration.loader.pin_memory
    is_pinning_searched = "pin_memory" in (configuration.search.settings or ())
    for record in earlier:
        if not record.is_final:
            continue
        measured = record.configuration
        loader = measured.loader
        has_no_accelerator = record.facts is not None and not record.facts.accelerator
        if has_no_accelerator and not is_pinning_searched:
            loader = replace(loader, pin_memory=pin_memory)
        if (
            replace(measured, loader=loader, columns=configuration.columns)
            == configuration
        ):
            same = (
                record
                if loader == measured.loader
                else _with_pinning(record, pin_memory)
            )
            reason = f"{record.stop_reason} (measured once, as {measured.label_of(measured.columns)})"
            return replace(
                same, configuration=configuration, stop_reason=reason, cost_s=0.0
            )
    return None


def _with_pinning(record: SearchRecord, pin_memory: bool) -> SearchRecord:
    def changed(settings: LoaderSettings) -> LoaderSettings:
        return replace(settings, pin_memory=pin_memory)

    verdict = record.verdict
    if verdict is not None:
        verdict = replace(
            verdict,
            recommended=changed(verdict.recommended),
            fastest=changed(verdict.fastest),
            tied=tuple(map(changed, verdict.tied)),
        )
    trials = tuple(
        replace(trial, settings=changed(trial.settings)) for trial in record.trials
    )
    return replace(record, trials=trials, verdict=verdict)


def same_trials(
    configuration: Configuration, earlier: Iterable[SearchRecord]
) -> tuple[Trial, ...]:
    """Lists trials of other configurations that apply here, such as num_workers=0 under
    another prefetch_factor.

    A note in each trial names the configuration that it was measured under, whose cost
    contains the trial's cost.
    """
    trials: dict[int, Trial] = {}
    for record in earlier:
        measured = record.configuration
        if _LOADING(measured) != _LOADING(configuration) or _MEASURING(
            measured
        ) != _MEASURING(configuration):
            continue
        for trial in record.trials:
            wanted = configuration.loader.with_workers(trial.num_workers)
            is_usable = (
                trial.state is TrialState.OK
                and trial.finished
                and trial.settings == wanted
            )
            if is_usable and trial.num_workers in configuration.search.candidates:
                notes = (
                    *trial.notes,
                    f"measured once, as {measured.label_of(measured.columns)}",
                )
                trials.setdefault(
                    trial.num_workers, replace(trial, notes=notes, cost_s=0.0)
                )
    return tuple(trials.values())
