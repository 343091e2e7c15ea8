"""The first line of an answer: how it was found, the settings, and what may change
them; the load beside it. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from nws_sweep.analysis import what_if
from nws_sweep.model.known import FEW_CPUS
from nws_sweep.records import SearchRecord, Status, Trial, Verdict
from nws_sweep.units import ratio, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person reads first, whatever was asked: the form of every answer.

    Terminal, Markdown, page, notebook and logs show the same lines. What else was
    measured is shown with ``-v``, on the page and in the record.

    Attributes:
        answer: The settings, their gain with one interval, and what is as fast; also
            that it is not certain.
        why: The cause of the largest part of the time, with its evidence; empty if it
            is unknown.
        remedies: What to change next, with what each would save, the largest first: at
            most two, the second only if it saves more than half as much.
        cost: Seconds and epochs that the answer took; empty if it took none.
    """

    answer: str
    why: str = ""
    remedies: tuple[str, ...] = ()
    cost: str = ""

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The lines below the first as pairs of a label and its text."""
        rows = [("why", self.why), ("next", "; ".join(self.remedies))]
        rows.append(("cost", self.cost))
        return [(label, text) for label, text in rows if text]

    @property
    def lines(self) -> list[str]:
        """The lines as plain text, at most four."""
        return [self.answer, *(f"{label:<6} {text}" for label, text in self.rows)]


NOTHING_MEASURED = "no candidate could be measured"


def first_line(result: SearchRecord, best: Trial | None, settings: str) -> str:
    """How the answer was found, and the answer: ``best: num_workers=4 (measured)``.

    Args:
        result: Of the search; with the records of its batches, an undecided line has a
            prediction.
        best: The fastest trial so far.
        settings: What the line recommends, such as ``num_workers=4``.
    """
    status = result.status
    if best is None or status is None:
        return NOTHING_MEASURED
    if status is Status.UNDECIDED:
        return _undecided(result, best)
    if status is Status.PROVISIONAL:
        return f"best so far: {settings} (provisional: {what_is_open(result)})"
    return f"best: {settings} (measured)"


def what_is_open(result: SearchRecord) -> str:
    """Why more measuring, or another search, may change the answer, and how much; empty
    if nothing is open."""
    ties = about_ties(result.verdict) if result.verdict and result.verdict.tied else ""
    return "; ".join(filter(None, (result.doubt, ties)))


def about_ties(verdict: Verdict) -> str:
    """Names the candidates that are statistically tied with the recommended one, and
    the time to decide."""
    chosen = verdict.recommended
    ties = sorted({(tied.num_workers, tied.differing(chosen)) for tied in verdict.tied})
    names = ", ".join(f"{number} {differing}".rstrip() for number, differing in ties)
    are = "is" if len(ties) == 1 else "are"
    more = f"about {seconds(verdict.seconds_to_decide or 0.0)} more measurement should decide"
    return f"num_workers={names} {are} statistically tied with {chosen.num_workers}; {more}"


def _undecided(result: SearchRecord, best: Trial) -> str:
    measured = f"num_workers={', '.join(map(str, result.measured_numbers))}"
    reason = f"only {measured} was measured: {result.doubt}"
    recorded = what_if.of(result, best)
    if recorded is None:
        return f"undecided; {reason}"
    number, speed_up = recorded.promising()
    if number in result.measured_numbers:
        return f"undecided; predicted: no gain over {measured}; {reason}"
    gain = f"{ratio(speed_up)} as fast as {best.num_workers}"
    return f"undecided; predicted: num_workers={number}, {gain}; {reason}"


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
    least, most = f"{min(used):.1f}", f"{max(used):.1f}"
    share = (
        f"{statistics.fmean(used):.1f}"
        if max(used) - min(used) < FEW_CPUS
        else f"{least} to {most}"
    )
    totals = sorted(
        {result.host.usable_cores or result.host.usable_cpus for result in results}
    )
    cpus = f"{' or '.join(f'{total:g}' for total in totals)} CPU{'' if totals == [1] else 's'}"
    return f"other programs used {share} of {cpus}: times are of what was left"
