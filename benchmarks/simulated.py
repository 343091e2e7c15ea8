"""Whole searches on simulated machines whose best settings are known: regret, cost, and
coverage of intervals."""

import math
import multiprocessing
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import support
from benchmarks.curves import (
    BATCH_SIZE,
    CURVES,
    TOLERANCE,
    Curve,
    best,
    pace_s,
    regret,
    settings_of,
)
from benchmarks.results import Results, Table, bullets
from benchmarks.simulated_machine import (
    CONDITIONS,
    Condition,
    SimulatedMachine,
    machine_of,
)
from nws_sweep import units
from nws_sweep.analysis.time_ratios import times_of
from nws_sweep.records import (
    LoaderSettings,
    MeasureRules,
    SearchRecord,
    SearchRules,
    Trial,
    TrialState,
)
from nws_sweep.searching.search import search
from tests import factories
from tests.simulated import Recorder

# of the least time that a schedule can reach: a row below it is impossible
_BEATS = 0.97
_MEASURE = MeasureRules()
_MOST_WORKERS = 256  # candidates, as of a search without max_workers on a large machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One search, compared with the truth.

    Attributes:
        answer: The recommended settings; those of no workers without an answer.
        regret: By how much their price exceeds the least, as a share.
        cost_s: Simulated seconds.
        is_provisional: Whether the answer is provisional, or there is none.
        rows: Whether each printed interval of a time per batch contains the true time.
        ratios: The same of the ratios to the answer.
        impossible: Rows that beat a physical limit.
    """

    answer: LoaderSettings
    regret: float
    cost_s: float
    is_provisional: bool
    rows: tuple[bool, ...]
    ratios: tuple[bool, ...]
    impossible: int


@dataclass(frozen=True, slots=True)
class Result:
    """The searches of one curve, by machine, and its best settings."""

    best: LoaderSettings
    outcomes: Mapping[Condition, Sequence[Outcome]]


def run(
    repeats: int, only: Sequence[str], jobs: int, output: Path, command: str
) -> None:
    """Simulates ``repeats`` searches of each curve under each condition, and writes the
    results."""
    curves = [curve for curve in CURVES if not only or curve.name in only]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        per_curve = [
            *pool.map(
                _result_of, [curve.name for curve in curves], [repeats] * len(curves)
            )
        ]
    results = results_of(dict(zip(curves, per_curve, strict=True)))
    results.write(output, support.origin(command, repeats, "repeat"))


def _result_of(name: str, repeats: int) -> Result:
    support.print_line(name)
    # its functions cannot be pickled
    curve = next(curve for curve in CURVES if curve.name == name)
    settings, _ = best(curve)
    seeds = range(repeats)
    outcomes = {
        machine: [simulated(curve, machine, seed) for seed in seeds]
        for machine in CONDITIONS
    }
    return Result(settings, outcomes)


def simulated(curve: Curve, condition: Condition, seed: int) -> Outcome:
    """One search with default arguments."""
    machine = machine_of(curve, condition, seed)
    return compared(curve, machine, searched(machine, seed=seed))


def searched(
    machine: SimulatedMachine,
    measure: MeasureRules = _MEASURE,
    seed: int = 0,
    strategy: str = "adaptive",
    candidates: tuple[int, ...] = tuple(range(_MOST_WORKERS + 1)),
) -> SearchRecord:
    """The record of a search on a machine; by default with the default arguments of a
    search."""
    rules = SearchRules(
        strategy=strategy,
        candidates=candidates,
        reference=int(machine.cores),
        tolerance=TOLERANCE,
        settings=None,
    )
    configuration = factories.configuration(
        loader=LoaderSettings(batch_size=BATCH_SIZE),
        measure=measure,
        search=rules,
        seed=seed,
    )
    return search(
        SearchRecord(configuration=configuration, host=factories.HOST),
        machine.environment(),
        _Silent(),
    )


class _Silent(Recorder):
    """Asks for no results between rounds."""

    def round_finished(self, result_so_far: Callable[[], SearchRecord]) -> None:
        pass


def compared(curve: Curve, machine: SimulatedMachine, record: SearchRecord) -> Outcome:
    """A search, compared with the truth."""
    verdict = record.verdict
    answer = verdict.recommended if verdict else settings_of(0)
    trials = {
        trial.settings: trial for trial in record.trials if trial.state is TrialState.OK
    }
    of_answer = trials.get(answer)
    return Outcome(
        answer=answer,
        regret=regret(curve, answer),
        cost_s=record.cost_s,
        is_provisional=verdict is None or verdict.provisional,
        rows=tuple(_rows(curve, machine, trials.values())),
        ratios=tuple(_ratios(curve, of_answer, trials.values())) if of_answer else (),
        impossible=sum(
            _is_impossible(curve, machine, trial) for trial in trials.values()
        ),
    )


def _rows(
    curve: Curve, machine: SimulatedMachine, trials: Iterable[Trial]
) -> Iterator[bool]:
    """The truth is the time in the mean state of the machine during the search."""
    for trial in trials:
        time = trial.measurement.batch_s if trial.measurement else None
        if time and time.low and time.high:
            yield (
                time.low
                <= machine.mean_factor * pace_s(curve, trial.settings)
                <= time.high
            )


def _ratios(curve: Curve, of_answer: Trial, trials: Iterable[Trial]) -> Iterator[bool]:
    for trial in trials:
        times = times_of(of_answer, trial)
        ends = times.ratio.ends if times else None
        if ends and trial.settings != of_answer.settings:
            yield (
                ends[0]
                <= pace_s(curve, trial.settings) / pace_s(curve, of_answer.settings)
                <= ends[1]
            )


def _is_impossible(curve: Curve, machine: SimulatedMachine, trial: Trial) -> bool:
    """Whether a row beats what any schedule can reach in the fastest state in which the
    trial met the machine."""
    time = trial.measurement.batch_s if trial.measurement else None
    fastest = min(machine.factors.get(trial.settings, ()), default=1.0)
    return time is not None and time.value < _BEATS * fastest * curve.limit_s(
        trial.num_workers
    )


def results_of(results: Mapping[Curve, Result]) -> Results:
    """All searches by machine, and those of each machine by curve."""
    everything = list[Outcome]()
    machines, by_curve = [], []
    for machine in CONDITIONS:
        outcomes = list[Outcome]()
        for curve, result in results.items():
            of_curve = [*result.outcomes[machine]]
            names = (machine.name, curve.name, _named(result.best), _answers(of_curve))
            by_curve.append((*names, *_figures(of_curve)))
            outcomes += of_curve
        machines.append((machine.name, *_figures(outcomes)))
        everything += outcomes
    machines.append(("all", *_figures(everything)))
    described = bullets(f"{curve.name}: {curve.about}" for curve in results)
    return Results(
        title="Simulated searches",
        headline=_summary(everything),
        about=f"{_ABOUT}\nCurves:\n\n{described}",
        tables=[
            Table("by_machine", ("machine", *_FIGURES), machines),
            Table(
                "by_curve", ("machine", "curve", "best", "answers", *_FIGURES), by_curve
            ),
        ],
    )


def _summary(outcomes: Sequence[Outcome]) -> str:
    regrets = [outcome.regret for outcome in outcomes]
    return (
        f"Of {len(outcomes)} simulated searches the price of the answer is {units.share(statistics.median(regrets))} "
        f"above the least in the median, {units.share(high(regrets))} at the 95th percentile. Printed "
        f"intervals contain the true time in {_share(o.rows for o in outcomes)} of the rows, the true ratio to the "
        f"answer in {_share(o.ratios for o in outcomes)}; {sum(o.impossible for o in outcomes)} rows beat a limit."
    )


def _figures(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Cells under ``_FIGURES``."""
    regrets, costs_s = [o.regret for o in outcomes], [o.cost_s for o in outcomes]
    regret = (statistics.median(regrets), high(regrets), max(regrets))
    return (
        *(f"{100 * value:.1f}" for value in regret),
        *(f"{value:.1f}" for value in (statistics.median(costs_s), max(costs_s))),
        f"{100 * statistics.fmean(o.is_provisional for o in outcomes):.0f}",
        _share(o.rows for o in outcomes),
        _share(o.ratios for o in outcomes),
        str(sum(o.impossible for o in outcomes)),
    )


def high(values: Iterable[float]) -> float:
    """The 95th percentile, the largest of fewer than twenty."""
    ascending = sorted(values)
    return ascending[math.ceil(0.95 * len(ascending)) - 1]


def _share(printed: Iterable[Sequence[bool]]) -> str:
    """Of printed intervals those that contain the truth."""
    contains = [value for values in printed for value in values]
    return f"{100 * statistics.fmean(contains):.1f} %" if contains else "-"


def _answers(outcomes: Sequence[Outcome]) -> str:
    """The least, the median and the largest number of workers."""
    numbers = sorted(outcome.answer.num_workers for outcome in outcomes)
    return " ".join(map(str, (numbers[0], numbers[len(numbers) // 2], numbers[-1])))


def _named(settings: LoaderSettings) -> str:
    is_usual = settings.prefetched in (None, 2)
    return (
        f"{settings.num_workers}"
        if is_usual
        else f"{settings.num_workers} ({settings.prefetched})"
    )


_FIGURES = (
    "regret (%)", "regret: 95th (%)", "regret: largest (%)", "cost (s)", "cost: largest (s)", "provisional (%)", "rows",
    "ratios", "impossible",
)  # fmt: skip
_ABOUT = f"""
Whole searches with default arguments on simulated machines, where the truth is known. A simulation of torch's
DataLoader that shares no code with nws_sweep (`tests/oracle.py`) is both the loader that a search measures and, over
a whole epoch without noise, the truth. The search's trial processes, windows, pauses, records and clock are simulated;
all that decides is nws_sweep's.

- noise 5, 15, 30 %: each time slice of a candidate takes longer or shorter, log-normally with this standard deviation.
- drift: noise of 5 %, and the machine's speed is a random walk, 5 % a second.
- neighbour: noise of 5 %, and another program comes and goes, about every 3 s, while which all takes twice as long.
- regret: by how much the price of the answer (time per batch of a whole epoch x {1 + TOLERANCE}^log2(1 + workers))
  exceeds the least of all numbers of workers that persist, and of prefetch_factor 1, 4 and 8 at the best and at half of
  it; median,
  95th percentile, largest.
- cost: simulated seconds of the search, median and largest; the time that the search computes is not in it.
- provisional: searches whose time limit ended them.
- rows: printed intervals of a time per batch that contain the true time, in the mean state of the machine during the
  search; ratios: the same of the ratios to the answer. Both should be 95 %.
- impossible: rows faster by 3 % than the CPUs, the workers, the training step or the main process allow for the epoch,
  in the fastest state in which the trial met the machine.
- best: number of workers, with prefetch_factor in brackets if it is not 2; answers: least, median and most workers.
"""
