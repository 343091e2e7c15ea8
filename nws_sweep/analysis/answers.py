"""The answer of a search in the form that every answer has, its first line, and the load
beside it. Pure."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nws_sweep.analysis.time_ratios import ratio_of
from nws_sweep.analysis.what_if import WhatIf
from nws_sweep.model import choice
from nws_sweep.model.known import FEW_CPUS
from nws_sweep.model.time_limit import limit_s, longer_s
from nws_sweep.records import LoaderSettings, SearchRecord, Status, Trial
from nws_sweep.units import ROUGHLY, listed, number, seconds

NOTHING_MEASURED = "nothing could be measured"
MOST_NAMED = 3  # settings that are as fast
_GAP = "   "  # between the settings and what is said about them


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person reads first, whatever was asked: the form of every answer.

    Terminal, Markdown, page, notebook and logs show the same lines. What else was
    measured is shown with ``-v``, on the page and in the record.

    Attributes:
        answer: The settings, their gain with one interval, and what is as fast; also
            that it is not certain.
        note: What takes the answer back, such as other programs; empty if nothing does.
        why: The cause of the largest part of the time, with its evidence; empty if it
            is unknown.
        remedies: What to change next, with what each would save: first about the cause,
            then the largest other one, if it saves more than half as much.
        cost: Seconds and epochs that the answer took; empty if it took none.
    """

    answer: str
    note: str = ""
    why: str = ""
    remedies: tuple[str, ...] = ()
    cost: str = ""

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The lines as pairs of a label and its text; the first has no label."""
        rows = [("", self.answer), ("note", self.note), ("why", self.why)]
        rows += [("next", "; ".join(self.remedies)), ("cost", self.cost)]
        return [(label, text) for label, text in rows if text]

    @property
    def lines(self) -> list[str]:
        """The lines as plain text, at most five."""
        return [line(*row) for row in self.rows]


def line(label: str, text: str) -> str:
    """A row as plain text."""
    return f"{label:<6} {text}" if label else text


def line_of_search(
    result: SearchRecord, best: Trial | None, predictions: WhatIf | None = None
) -> str:
    """The settings, their gain, and what is as fast: ``num_workers=2   1.9 times as fast
    as 0 (1.6 to 2.2), as fast as 4``.

    Args:
        result: Of the search.
        best: The fastest trial so far.
        predictions: Of the search, for the line of an undecided one.
    """
    status = result.status
    if best is None or status is None:
        return NOTHING_MEASURED
    if status is Status.UNDECIDED:
        return _undecided(result, best, predictions)
    line, still_open = settings_of(result, best), what_is_open(result, best)
    if status is Status.PROVISIONAL:
        line = f"{line} so far"
    if status is Status.PROVISIONAL or not is_certain(result, best):
        still_open = f"not certain: {still_open}"
    texts = ", ".join(_gains(result, best)), still_open
    return f"{line}{_GAP}{'; '.join(filter(None, texts))}"


def settings_of(result: SearchRecord, best: Trial) -> str:
    """The recommended settings, such as ``num_workers=4 prefetch_factor=8``."""
    differing = result.configuration.differing(best.settings)
    settings = f"num_workers={best.num_workers} {differing}".rstrip()
    return f"{settings}{result.configuration.rank_suffix}"


def is_certain(result: SearchRecord, best: Trial) -> bool:
    """Whether the gain of the first line is known: its interval is without 1, or no
    wider than the tolerance."""
    baseline = _baseline(result, best)
    gain = ratio_of(best, baseline) if baseline else None
    return gain is None or gain.is_certain(_close(result))


def what_is_open(result: SearchRecord, best: Trial) -> str:
    """Why more measuring, or another search, may change the answer; empty if nothing is
    open.

    Settings that may be as fast are named with the time to decide, unless the search
    may not take that long.
    """
    verdict = result.verdict
    tied = [*verdict.tied] if verdict else []
    if not tied and result.doubt:
        return result.doubt
    baseline = _baseline(result, best)
    more_s = verdict.seconds_to_decide if verdict else None
    if baseline and baseline.settings not in tied and not is_certain(result, best):
        tied.append(baseline.settings)
        more_s = None
    if not tied:
        return ""
    tied.sort(key=choice.size)
    line = f"{_listed(best.settings, tied, 'or')} may be as fast"
    if more_s is None or more_s > limit_s(result.configuration):
        return line
    return f"{line}, about {seconds(more_s, ROUGHLY)} more decide"


def to_decide(result: SearchRecord, predictions: WhatIf) -> tuple[str, ...]:
    """What lets an undecided search measure the number that is predicted to be faster;
    empty if it is decided or none is."""
    if result.status is not Status.UNDECIDED or predictions.promised is None:
        return ()
    again = "the same search again"
    longer = longer_s(result.configuration)
    if result.complete and math.isfinite(longer):
        again = f"a time limit of {longer:g} s"
    promised = predictions.promised
    times = number(promised.speed_up, ROUGHLY)
    predicted = f"which is predicted to be {times} times as fast"
    return (f"{again} measures {promised.num_workers}, {predicted}",)


def cost_of(result: SearchRecord, best: Trial | None) -> str:
    """What a search cost, such as ``6.8 s, 1.5 epochs``; empty if it took no time."""
    if not result.cost_s:
        return ""
    cost = seconds(result.cost_s, ROUGHLY)
    if best and best.measurement and best.measurement.epoch_s:
        epochs = result.cost_s / best.measurement.epoch_s
        cost += f", {number(epochs, ROUGHLY)} epochs"
    return cost


def _gains(result: SearchRecord, best: Trial) -> Iterator[str]:
    """How much faster the best is than the baseline, without a training step at
    loading; then what is as fast, but for what is still open."""
    baseline = _baseline(result, best)
    if baseline is None:
        if not result.doubt:
            yield "nothing else could be measured"
        return
    gain = ratio_of(best, baseline)
    faster = gain and gain.as_fast_as(_beside(best.settings, baseline.settings))
    if faster:
        loads = "" if result.configuration.has_step else "loads "
        yield f"{loads}{faster}"
    others = _others(result, best)
    others.remove(baseline)
    tied = result.verdict.tied if result.verdict else ()
    equal = [
        trial.settings
        for trial in sorted(others, key=lambda trial: trial.num_workers)
        if trial.settings not in tied and _is_as_fast(result, best, trial)
    ]
    if equal:
        yield f"as fast as {_listed(best.settings, equal, 'and')}"


def _others(result: SearchRecord, best: Trial) -> list[Trial]:
    """The trials with a time and other settings than the best."""
    others = []
    for trial in result.trials:
        if trial.objective_s is not None and trial.settings != best.settings:
            others.append(trial)
    return others


def _baseline(result: SearchRecord, best: Trial) -> Trial | None:
    """What the best is compared with: no workers, or else the fastest other settings;
    None if nothing else was measured."""

    def rank(trial: Trial) -> tuple[bool, float]:
        return bool(best.num_workers and trial.num_workers), trial.objective_s or 0.0

    return min(_others(result, best), key=rank, default=None)


def _close(result: SearchRecord) -> float:
    """The tolerance as the logarithm of a ratio."""
    return math.log1p(result.configuration.search.tolerance)


def _is_as_fast(result: SearchRecord, best: Trial, compared: Trial) -> bool:
    """Whether the ratio may be 1, and is 1 but for the tolerance."""
    gain = ratio_of(best, compared)
    if gain is None or gain.half_width is None:
        return False
    return abs(gain.log) <= min(gain.half_width, _close(result))


def _beside(best: LoaderSettings, compared: LoaderSettings) -> str:
    """Names settings by what tells them from the best: the number of workers, or what
    else differs."""
    if compared.num_workers != best.num_workers:
        return str(compared.num_workers)
    return compared.differing(best)


def _listed(best: LoaderSettings, compared: Sequence[LoaderSettings], last: str) -> str:
    """Names settings as ``4, 8 or pin_memory=true``, numbers of workers first."""
    names = [*dict.fromkeys(_beside(best, settings) for settings in compared)]
    names.sort(key=lambda name: not name.isdigit())
    return listed(names, MOST_NAMED, last)


def _undecided(result: SearchRecord, best: Trial, predictions: WhatIf | None) -> str:
    measured = ", ".join(map(str, result.measured_numbers))
    line = f"undecided{_GAP}only num_workers={measured} was measured: {result.doubt}"
    if predictions is None:
        return line
    promised = predictions.promised
    if promised is None:
        return f"{line}; no other is predicted to be faster"
    times = number(promised.speed_up, ROUGHLY)
    faster = f"predicted {times} times as fast as {best.num_workers}"
    return f"{line}; {promised.num_workers} is {faster}"


def load(results: Sequence[SearchRecord]) -> str:
    """What other programs used of the CPUs during searches; empty if it was next to
    nothing."""
    used = [
        trial.noise.other_cpus
        for result in results
        for trial in result.trials
        if trial.noise is not None
    ]
    if not used or max(used) < FEW_CPUS:
        return ""
    share = f"{min(used):.1f} to {max(used):.1f}"
    if max(used) - min(used) < FEW_CPUS:
        share = f"{statistics.fmean(used):.1f}"
    hosts = [result.host for result in results]
    totals = sorted({host.usable_cores or host.usable_cpus for host in hosts})
    numbers = " or ".join(f"{total:g}" for total in totals)
    cpus = f"{numbers} CPU{'' if totals == [1] else 's'}"
    return f"other programs used {share} of {cpus}: measure again without them"
