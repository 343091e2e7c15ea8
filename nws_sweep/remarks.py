"""Lines that put an answer into question, or help to a better one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nws_sweep import memory, nodes, sample_check, units
from nws_sweep.diagnosis import evidence_of, is_consumer_bound
from nws_sweep.records import SearchRecord, Trial, TrialState, Verdict

# From here on a disturbance is worth a warning: a fifth of a CPU, and shares of the time that an interval of 5 % shows.
_MOST_OTHER_CPUS = 0.2
_MOST_STEAL = 0.05
_MOST_THROTTLED = 0.02


def on(result: SearchRecord, best: Trial | None) -> Iterator[str]:
    """Lines that put the answer of a search into question, or help to a better one.

    Args:
        result: The search.
        best: The recommended trial; None if nothing could be measured.
    """
    if result.provisional:
        yield result.provisional
    if best is not None:
        yield from _about_workers(result.trials)
    yield from _about_verdict(result)
    yield from _about_edge(result, best)
    yield from _about_samples(result, best)
    if best is not None:
        yield from memory.about_objects(result)
    if best is not None:
        yield from _about_ranking(result, best)
    yield from _about_noise(result.trials)
    yield from dict.fromkeys(warning for trial in result.trials for warning in trial.warnings)


def _about_samples(result: SearchRecord, best: Trial | None) -> Iterator[str]:
    """Workers that deliver other samples than loading without workers, and what may come to make them do so."""
    if wrong := next((trial for trial in result.trials if trial.state is TrialState.WRONG_SAMPLES), None):
        yield f"num_workers={wrong.num_workers} is no choice: {wrong.reason}"
    if result.facts and result.facts.handles and best is not None and best.num_workers > 1:
        yield sample_check.about_handles(result.facts)
    if result.sample_check is not None:
        yield from sample_check.remarks(result.sample_check)


def _about_workers(trials: Sequence[Trial]) -> Iterator[str]:
    """That no candidate with workers could be measured: then 0 is the best for want of others."""
    failed = [trial for trial in trials if trial.num_workers and trial.objective_s is None]
    reasons = [trial.reason for trial in failed if trial.reason and trial.state is not TrialState.WRONG_SAMPLES]
    if reasons and len(reasons) == sum(trial.num_workers > 0 for trial in trials):
        yield f"every candidate with workers failed; the first one: {reasons[0]}"


def _about_edge(result: SearchRecord, best: Trial | None) -> Iterator[str]:
    """That more workers may be better, unless the consumer cannot take more."""
    evidence, candidates = evidence_of(result, best), result.configuration.search.candidates
    if evidence is None or is_consumer_bound(evidence) or len(candidates) == 1:
        return
    # Where the CPUs are used up by the batches themselves, more workers have nothing to gain either.
    if evidence.batch_s <= evidence.floor_s * (1 + result.configuration.search.tolerance):
        return
    if evidence.best.num_workers == max(candidates):
        yield (
            f"the best stands at the edge of what was tried (num_workers={evidence.best.num_workers}); "
            f"{result.configuration.search.wider} may find a better one"
        )


def _about_verdict(result: SearchRecord) -> Iterator[str]:
    """What keeps the answer from being certain."""
    verdict = result.verdict
    if verdict is not None and verdict.tied:
        yield about_tie(verdict)


def about_tie(verdict: Verdict) -> str:
    """Which candidates may be as good as the recommended one, and how much longer would tell."""
    others = ", ".join(map(str, sorted({settings.num_workers for settings in verdict.tied})))
    longer = "" if verdict.settle_s is None else f"about {units.seconds(verdict.settle_s)} "
    return (
        f"num_workers={others} may be as good as {verdict.recommended.num_workers} or better: {longer}more of "
        "measuring would tell"
    )


def _about_ranking(result: SearchRecord, best: Trial) -> Iterator[str]:
    """Where the candidate that loads fastest is not the one that trains fastest."""
    loading = [
        (trial.measurement.loading_s, trial.num_workers, trial)
        for trial in result.trials
        if trial.objective_s is not None and trial.measurement and trial.measurement.loading_s
    ]
    least_s, _, quickest = min(loading, key=lambda one: one[:2], default=(None, 0, best))
    own_s = best.measurement.loading_s if best.measurement else None
    if least_s is None or own_s is None or not best.objective_s or not quickest.objective_s:
        return
    beyond = 1 + result.configuration.search.tolerance
    if own_s > beyond * least_s and quickest.objective_s > beyond * best.objective_s:
        slower = quickest.objective_s / best.objective_s - 1
        yield (
            f"loading alone would be fastest with {_of(quickest)} ({units.seconds(least_s)} a batch instead of "
            f"{units.seconds(own_s)}), but training is {units.share(slower)} slower with it"
        )


def _about_noise(trials: Sequence[Trial]) -> Iterator[str]:
    """What disturbed the measurement, with the largest figure and the candidate that met it."""
    seen = [(trial, trial.noise) for trial in trials if trial.noise is not None]
    if not seen:
        return
    trial, noise = max(seen, key=lambda pair: pair[1].other_cpus)
    if noise.other_cpus > _MOST_OTHER_CPUS:
        yield f"other programs used {noise.other_cpus:.1f} CPUs while {_of(trial)} was measured"
    trial, noise = max(seen, key=lambda pair: pair[1].steal)
    if noise.steal > _MOST_STEAL:
        yield f"the hypervisor took {units.share(noise.steal)} of the CPU time from {_of(trial)}"
    trial, noise = max(seen, key=lambda pair: pair[1].throttled)
    if noise.throttled > _MOST_THROTTLED:
        yield f"{_of(trial)} was throttled by its CPU quota {units.share(noise.throttled)} of the time"
    outlying = [(trial, len(noise.outliers)) for trial, noise in seen if noise.outliers]
    if outlying:
        many = ", ".join(f"{count} of {_of(trial)}" for trial, count in outlying)
        yield f"windows far from the others, which count all the same: {many}"


def _of(trial: Trial) -> str:
    return f"num_workers={trial.num_workers}"


def on_all(results: Sequence[SearchRecord]) -> list[str]:
    """Lines that concern all configurations of a grid."""
    lines = []
    if any(r.configuration.loader.pin_memory and r.facts and r.facts.accelerator is None for r in results):
        lines.append("pin_memory=true has no effect here: there is no accelerator; it was measured all the same")
    if nodes.versions_differ(results):
        lines.append(
            "the configurations were measured on hosts of one kind with different systems or versions; "
            "their times do not compare"
        )
    lines += dict.fromkeys(result.forced for result in results if result.forced)
    return lines
