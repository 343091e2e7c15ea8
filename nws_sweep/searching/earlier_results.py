"""What a search takes from earlier results: a first guess, equal trials, and where an earlier search ended. Pure."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from operator import attrgetter

from nws_sweep.results import Configuration, LoaderSettings, SearchRecord, Trial, TrialState

# What must be equal for batches to take the same time, and for times to be measured the same way.
_LOADING = attrgetter("dataset", "training_step", "collate_fn", "services")
_MEASURING = attrgetter("measure", "seed", "ranks")


def first_guess(configuration: Configuration, earlier: Iterable[SearchRecord]) -> int | None:
    """The best num_workers of the most similar configuration of the same dataset and training step; None for none."""
    mine = asdict(configuration.loader).items()
    similar = [r for r in earlier if r.verdict and _LOADING(r.configuration) == _LOADING(configuration)]
    nearest = max(similar, key=lambda r: len(mine & asdict(r.configuration.loader).items()), default=None)
    return nearest.verdict.recommended.num_workers if nearest and nearest.verdict else None


def continued(start: SearchRecord, earlier: SearchRecord) -> SearchRecord:
    """The start of a search that goes on where an earlier search of the same configuration ended before its answer.

    Trials that are a result are not measured again; the others are.
    """
    trials = {trial.settings: trial for trial in (*start.results, *earlier.results)}
    return replace(
        start,
        facts=earlier.facts or start.facts,
        trials=tuple(trials.values()),
        started_at=earlier.started_at,
        cost_s=earlier.cost_s,
    )


def measured_once(configuration: Configuration, earlier: Iterable[SearchRecord]) -> SearchRecord | None:
    """A final result of a configuration that does the same, as that of this configuration; None if there is none.

    Identifying columns may differ, and pinned memory changes nothing without an accelerator. The stop reason says where
    it was measured.
    """
    own, is_searched = configuration.loader.pin_memory, "pin_memory" in (configuration.search.settings or ())
    for known in (record for record in earlier if record.is_final):
        there = known.configuration
        loader = there.loader
        if known.facts and not known.facts.accelerator and not is_searched:
            loader = replace(loader, pin_memory=own)
        if replace(there, loader=loader, columns=configuration.columns) == configuration:
            same = known if loader == there.loader else _with_pinning(known, own)
            reason = f"{known.stop_reason} (measured once, as {there.label_of(there.columns)})"
            return replace(same, configuration=configuration, stop_reason=reason, cost_s=0.0)
    return None


def _with_pinning(known: SearchRecord, pinned: bool) -> SearchRecord:
    def changed(settings: LoaderSettings) -> LoaderSettings:
        return replace(settings, pin_memory=pinned)

    verdict = known.verdict and replace(
        known.verdict,
        recommended=changed(known.verdict.recommended),
        fastest=changed(known.verdict.fastest),
        tied=tuple(map(changed, known.verdict.tied)),
    )
    trials = (replace(trial, settings=changed(trial.settings)) for trial in known.trials)
    return replace(known, trials=tuple(trials), verdict=verdict)


def same_trials(configuration: Configuration, earlier: Iterable[SearchRecord]) -> tuple[Trial, ...]:
    """Trials of other configurations that apply here, such as num_workers=0 under another prefetch_factor.

    A note in each trial names the configuration that it was measured under, whose cost contains that of the trial.
    """
    found: dict[int, Trial] = {}
    for result in earlier:
        other = result.configuration
        if _LOADING(other) != _LOADING(configuration) or _MEASURING(other) != _MEASURING(configuration):
            continue
        for trial in result.trials:
            wanted = configuration.loader.with_workers(trial.num_workers)
            usable = trial.state is TrialState.OK and trial.finished and trial.settings == wanted
            if usable and trial.num_workers in configuration.search.candidates:
                notes = (*trial.notes, f"measured once, as {other.label_of(other.columns)}")
                found.setdefault(trial.num_workers, replace(trial, notes=notes, cost_s=0.0))
    return tuple(found.values())
