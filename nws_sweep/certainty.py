"""How sure an answer is, in a sentence."""

from __future__ import annotations

from nws_sweep import contrast, remarks, units
from nws_sweep.analysis import ConfigurationSummary
from nws_sweep.records import Trial


def certainty(configuration: ConfigurationSummary) -> str:
    """What speaks for the recommended candidate against the others; empty if there is none."""
    best, verdict = configuration.best, configuration.run.result.verdict
    if best is None or not best.objective_s:
        return ""
    if verdict is not None and verdict.provisional:
        return "Not sure: the search was ended by its time budget, and this is the best so far."
    if verdict is not None and verdict.tied:
        return f"Not sure: {remarks.about_tie(verdict)}."
    if not configuration.run.result.complete:
        return "Not sure: the search did not finish."
    return _against_others(configuration, best, best.objective_s)


def _against_others(configuration: ConfigurationSummary, best: Trial, best_s: float) -> str:
    others = [t for t in configuration.worker_trials if t.num_workers != best.num_workers and t.objective_s is not None]
    if not others:
        return "Nothing to compare it with: no other number of workers was measured."
    nearest = min(others, key=lambda trial: trial.objective_s or 0.0)
    name, ratio = f"num_workers={nearest.num_workers}", (nearest.objective_s or 0.0) / best_s
    if ratio < 1:
        tolerance = units.share(configuration.configuration.search.tolerance)
        return f"{name} takes {units.percent(1 - ratio)} less time; within {tolerance} fewer workers are preferred."
    return f"{_how_sure(best, nearest)}: the nearest other, {name}, takes {units.percent(ratio - 1)} longer."


def _how_sure(best: Trial, other: Trial) -> str:
    """By the intervals of both; start-up, which counts for an epoch, has none."""
    times = contrast.times_of(best, other)
    if times is None or times.ratio.half_width is None:
        return "Probably (without an interval: too few bursts)"
    return "Sure" if abs(times.ratio.log) > times.ratio.half_width else "Probably (the intervals overlap)"
