"""The results of ``scripts/benchmark numbers``. Pure."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.catalogue import Workload
from benchmarks.comparisons import (
    Comparison,
    bare_errors,
    comparisons,
    coverage,
    errors,
    has_an_answer,
)
from benchmarks.journal import QUIET, Outcome, Run
from benchmarks.neighbours import ALTERNATING, KINDS, ONE
from benchmarks.oracle import Truth
from benchmarks.results import Results, Table
from benchmarks.scores import quantile
from benchmarks.search_results import ORACLE, oracle_rows
from benchmarks.targets import percent

_FIGURES = ("figure", "beside", "wanted", "reached", "is reached")
_SEARCHES = (
    "workload", "beside", "answers", "J above the least", "cost", "rows against bare loops", "beat a limit",
)  # fmt: skip
_ROWS = (
    "workload", "beside", "repeat", "workers", "printed", "interval", "bare", "off by", "possible",
    "beats the limit",
)  # fmt: skip
_MEASURING = """\
In each repeat every workload is searched by `nws_sweep.search` with default arguments, in a process of its own: beside
each neighbour and on the quiet machine, and then bare loops over a DataLoader take the settings of the rows and those
near the best so far. Before the first search bare loops take a grid. Each bare loop runs in a fresh process; long
epochs are stopped at a whole multiple of the workers and projected.

- a row against bare loops: the seconds per batch that a row prints / the mean of the bare loops with the same settings
  in the same repeat and beside the same neighbour, - 1, without its sign; of the whole epoch where it is too short for
  steady batches. Beside a neighbour that comes and goes there is no steady time to compare with.
- bare loop against bare loop: the same of the second bare loop and the first, so the noise of this machine, which is in
  the errors of rows too.
- a row beats a physical limit if a batch, or the epoch / its batches, takes less than the planted costs allow: the
  making of a batch / workers, the CPU time of a batch / CPUs, the sampler and the training step. 3 % less are
  tolerated, and two standard errors of the mean where costs are random.
- J above the least: J = epoch x 1.03^log2(1 + workers), of the epoch with the answer as bare loops on the quiet machine
  take it / the least J of the oracle's own settings, - 1.
- without an answer: searches that fail, or that measured no candidate with workers.
- coverage: the share of printed 95 % intervals of a batch that contain the mean of the bare loops, whose own noise
  counts against the intervals.
- cost: wall time of the call, with the start of its processes and the import of torch there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured."""

    workloads: Sequence[Workload]
    outcomes: Sequence[Outcome]
    runs: Sequence[Run]
    truths: Mapping[str, Truth]  # by workload, on the quiet machine
    cpus: int

    @property
    def kinds(self) -> list[str]:
        """The neighbours beside which something was searched."""
        return [
            kind
            for kind in KINDS
            if any(outcome.beside == kind for outcome in self.outcomes)
        ]

    def beside(self, kind: str) -> list[Outcome]:
        """The searches beside a neighbour."""
        return [outcome for outcome in self.outcomes if outcome.beside == kind]

    def compared(self, outcomes: Sequence[Outcome]) -> list[Comparison]:
        """The rows of searches."""
        return comparisons(outcomes, self.runs, self.workloads, self.cpus)

    def regrets(self, outcomes: Sequence[Outcome]) -> list[float]:
        """J above the least, of the answers whose bare epoch was measured."""
        regrets = [self._regret(outcome) for outcome in outcomes]
        return [regret for regret in regrets if regret is not None]

    def _regret(self, outcome: Outcome) -> float | None:
        truth = self.truths.get(outcome.workload)
        return truth.regret(outcome.setting) if truth else None


@dataclass(frozen=True, slots=True)
class Line:
    """A figure of the summary, of searches beside a neighbour; ``reached`` has as many
    values as ``most``, whose None stands for no target."""

    figure: str
    beside: str
    most: tuple[float | None, ...]
    reached: tuple[float | None, ...]
    shown: Callable[[float], str]
    least: float | None = None
    about: str = ""

    @property
    def has_target(self) -> bool:
        """Whether a value is wanted."""
        return any(most is not None for most in self.most)

    @property
    def is_missed(self) -> bool:
        """Whether a value is outside its target, or a figure with a target was not
        measured."""
        pairs = zip(self.reached, self.most, strict=True)
        return any(
            most is not None and self._is_outside(value, most) for value, most in pairs
        )

    def _is_outside(self, value: float | None, most: float) -> bool:
        return (
            value is None
            or value > most
            or (self.least is not None and value < self.least)
        )

    @property
    def wanted(self) -> str:
        """The targets."""
        if self.least is not None:
            return f"{self.shown(self.least)} to {self._joined(self.most)}"
        return self._joined(self.most)

    @property
    def text(self) -> str:
        """The values."""
        return f"{self._joined(self.reached)} {self.about}".rstrip()

    def _joined(self, values: Iterable[float | None]) -> str:
        return ", ".join(
            "-" if value is None else self.shown(value) for value in values
        )

    @property
    def row(self) -> tuple[str, ...]:
        """The cells of the figure: what is wanted, if anything, and what is reached."""
        if not self.has_target:
            return self.figure, self.beside, "", self.text, ""
        is_reached = "no" if self.is_missed else "yes"
        return self.figure, self.beside, self.wanted, self.text, is_reached


def lines_of(figures: Figures) -> list[Line]:
    """The summary."""
    return [
        *(_limits(figures, kind) for kind in figures.kinds),
        *(_errors(figures, kind) for kind in figures.kinds if kind != ALTERNATING),
        _noise(figures),
        *(_regrets(figures, kind) for kind in figures.kinds),
        *(_unanswered(figures, kind) for kind in figures.kinds),
        *(_costs(figures, kind) for kind in figures.kinds),
        *(_coverage(figures, kind) for kind in figures.kinds if kind != ALTERNATING),
    ]


def _limits(figures: Figures, kind: str) -> Line:
    compared = [
        comparison
        for comparison in figures.compared(figures.beside(kind))
        if comparison.limit_s
    ]
    count = sum(comparison.beats_the_limit for comparison in compared)
    about = f"of {len(compared)} rows"
    return Line(
        "rows that beat a physical limit", kind, (0,), (count,), _count, about=about
    )


def _errors(figures: Figures, kind: str) -> Line:
    values = errors(figures.compared(figures.beside(kind)))
    most = (0.03, 0.10) if kind == QUIET else (None, None)
    return Line(
        "a row against bare loops: median, 95th percentile",
        kind,
        most,
        _quantiles(values, (0.5, 0.95)),
        percent,
        about=_of(values, "rows"),
    )


def _noise(figures: Figures) -> Line:
    values = bare_errors(run for run in figures.runs if run.beside == QUIET)
    reached = _quantiles(values, (0.5, 0.95))
    about = _of(values, "pairs")
    return Line(
        "a bare loop against a bare loop: median, 95th percentile",
        QUIET,
        (None, None),
        reached,
        percent,
        about=about,
    )


def _regrets(figures: Figures, kind: str) -> Line:
    values = figures.regrets(figures.beside(kind))
    most: tuple[float | None, ...] = {
        QUIET: (0.01, 0.05, 0.08),
        ONE: (0.03, 0.15, None),
    }.get(kind, (None, None, None))
    return Line(
        "J of the answer above the least: median, 95th percentile, worst",
        kind,
        most,
        _quantiles(values, (0.5, 0.95, 1.0)),
        percent,
        about=_of(values, "answers"),
    )


def _unanswered(figures: Figures, kind: str) -> Line:
    outcomes = figures.beside(kind)
    count = sum(not has_an_answer(outcome) for outcome in outcomes)
    about = f"of {len(outcomes)}"
    return Line("searches without an answer", kind, (0,), (count,), _count, about=about)


def _costs(figures: Figures, kind: str) -> Line:
    costs_s = [outcome.cost_s for outcome in figures.beside(kind)]
    most = (5.0, 15.0) if kind == QUIET else (None, None)
    return Line(
        "cost: median, worst", kind, most, _quantiles(costs_s, (0.5, 1.0)), _seconds
    )


def _coverage(figures: Figures, kind: str) -> Line:
    share, count = coverage(figures.compared(figures.beside(kind))) or (None, 0)
    is_target = kind == QUIET
    return Line(
        "coverage of printed 95 % intervals of rows",
        kind,
        (0.97 if is_target else None,),
        (share,),
        percent,
        least=0.93 if is_target else None,
        about=f"of {count} rows" if count else "",
    )


def _quantiles(
    values: Sequence[float], shares: Sequence[float]
) -> tuple[float | None, ...]:
    return tuple(quantile(values, share) for share in shares)


def _of(values: Sequence[float], what: str) -> str:
    return f"of {len(values)} {what}" if values else ""


def _count(value: float) -> str:
    return f"{value:.0f}"


def _seconds(value: float) -> str:
    return f"{value:.1f} s"


def summary(figures: Figures) -> list[str]:
    """A sentence per figure."""
    lines = lines_of(figures)
    return [
        f"{line.figure}, beside {line.beside}: {line.text}{f' (wanted {line.wanted})' if line.is_missed else ''}"
        for line in lines
    ]


def results_of(figures: Figures) -> Results:
    """The summary, and what it is made of."""
    lines = lines_of(figures)
    targets = [line for line in lines if line.has_target]
    missed = sum(line.is_missed for line in lines)
    kinds = "; ".join(f"*{kind}* {KINDS[kind]}" for kind in figures.kinds)
    parts = [
        f"Beside: {kinds}. In searches.csv brackets have the worst of the repeats, and of their rows.",
        _MEASURING,
        "Searches without an answer:\n\n" + _list(_unanswered_lines(figures)),
        "Workloads:\n\n" + "\n".join(workload.line for workload in figures.workloads),
    ]
    return Results(
        title="Rows, answers and costs of searches against bare loops",
        headline=f"{len(targets) - missed} of {len(targets)} targets are reached.",
        about="\n\n".join(parts),
        tables=[
            Table("figures", _FIGURES, [line.row for line in lines]),
            Table("searches", _SEARCHES, _searches(figures)),
            Table("rows", _ROWS, [_row(comparison) for comparison in _all(figures)]),
            Table("oracle", ORACLE, oracle_rows(figures.truths)),
        ],
    )


def _all(figures: Figures) -> list[Comparison]:
    return figures.compared(figures.outcomes)


def _searches(figures: Figures) -> list[tuple[str, ...]]:
    rows = []
    for workload in figures.workloads:
        for kind in figures.kinds:
            outcomes = figures.beside(kind)
            group = [o for o in outcomes if o.workload == workload.name]
            if group:
                rows.append(_search_row(figures, group))
    return rows


def _search_row(figures: Figures, group: Sequence[Outcome]) -> tuple[str, ...]:
    answers = Counter(outcome.label or "none" for outcome in group).most_common()
    compared = figures.compared(group)
    beaten = sum(comparison.beats_the_limit for comparison in compared)
    return (
        group[0].workload,
        group[0].beside,
        ", ".join(
            f"{answer} x{count}" if count > 1 else answer for answer, count in answers
        ),
        _median_and_worst(figures.regrets(group), percent),
        _median_and_worst([outcome.cost_s for outcome in group], _seconds),
        _median_and_worst(errors(compared), percent),
        f"{beaten} of {len(compared)}" if beaten else "",
    )


def _median_and_worst(values: Sequence[float], shown: Callable[[float], str]) -> str:
    return (
        f"{shown(statistics.median(values))} ({shown(max(values))})" if values else ""
    )


def _row(comparison: Comparison) -> tuple[str, ...]:
    row = comparison.row
    has_interval = row.low_s is not None and row.high_s is not None
    is_of_epochs = row.batch_s is None or (
        comparison.bare_batch_s is None and comparison.bare_epoch_s is not None
    )
    printed_s, bare_s = (
        (row.epoch_s, comparison.bare_epoch_s)
        if is_of_epochs
        else (row.batch_s, comparison.bare_batch_s)
    )
    limit_s = comparison.limit_s * (comparison.workload.batches if is_of_epochs else 1)
    return (
        comparison.workload.name,
        comparison.beside,
        str(comparison.repeat),
        str(row.setting),
        _milliseconds(printed_s) + (" an epoch" if is_of_epochs else ""),
        f"{_milliseconds(row.low_s)} to {_milliseconds(row.high_s)}"
        if has_interval and not is_of_epochs
        else "",
        _milliseconds(bare_s),
        "" if comparison.error is None else f"{100 * comparison.error:+.1f} %",
        _milliseconds(limit_s or None),
        "yes" if comparison.beats_the_limit else "",
    )


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.4g} ms"


def _unanswered_lines(figures: Figures) -> list[str]:
    return [
        f"{outcome.workload} beside {outcome.beside}, repeat {outcome.repeat}: {_reason(outcome)}"
        for outcome in figures.outcomes
        if not has_an_answer(outcome)
    ]


def _reason(outcome: Outcome) -> str:
    faults = [
        f"num_workers={row.workers}: {row.fault}" for row in outcome.rows if row.fault
    ]
    return (
        "; ".join((*outcome.crashes, *faults))
        or f"num_workers={outcome.pick} alone was measured"
    )


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "None."
