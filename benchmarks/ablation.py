"""What gets worse without each named number of the search: simulated searches with
neutral values in their place."""

import ast
import importlib
import math
import multiprocessing
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import nws_sweep
from benchmarks import support
from benchmarks.curves import CURVES, Curve, best
from benchmarks.simulated import Outcome, high, simulated
from benchmarks.simulated_machine import CONDITIONS

_PACKAGES = ("searching", "model")
QUICK = (
    "peak at 3", "step 20 ms", "4.9 % each", "sorted", "computing", "step computes", "equal",
    "saturating server", "thrashing disk", "slow start", "short epoch", "slow sampler",
)  # fmt: skip
_MACHINES = ("noise 15 %", "neighbour")
# searches that take so many times as long without a number are ended
_LONGER, _LEAST_S = 6.0, 60.0
_CLOSE = 0.01  # answers whose prices differ by at most this share are equally good
_MANY = 10**6
_TINY = 1e-9  # instead of 0 where something is divided by the number
# Values with which a number has no effect, by name, with its module where two have
# the same name. The default for others: nothing, and three times as much.
_NEUTRAL: Mapping[str, tuple[float, ...]] = {
    "_SHORT_WINDOW_S": (0.5,), "_FIRST_STEP": (0, _MANY), "_STEP": (2, _MANY),
    "MOST_PREDICTED": (0, _MANY),
    "_PRIOR_SPREAD": (0.008, 0.075), "FEWEST_ROUNDS": (1, 5), "_FAR_BEHIND": (1.0, math.inf),
    "_DISTURBED": (math.inf, 1.0), "_SHORT_SEARCH_S": (0.0, math.inf), "_ALL_BUT": (1.0,), "_PASSES": (2, 60),
    "_LIMIT_S": (30.0, math.inf),
    "_MOST_TIMED_S": (math.inf,), "SEQUENTIAL": (1.0,), "_MARGIN": (1.0, 1.5),
    "_USUAL_WORKERS": (0, _MANY),
    "_LARGE_GAIN": (0.0, 1.0), "ENDLESS": (10**5,), "USUAL": (_TINY, math.inf),
    "known._NOISE": (_TINY, 0.1), "FEW_CPUS": (0.0, math.inf),
    "_MISFIT": (_TINY, 0.15), "_QUEUES": (1, 9),
    "MOST_EQUAL": (100, 1000), "MOST_BATCHES": (300, 3000), "MOST_ORDERS": (1, 15), "_VARIED": (0.0, math.inf),
    "_SIGNIFICANT": (0.0, math.inf), "_DRAWS": (2, 60),
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Constant:
    """A number that a module names."""

    module: str
    name: str

    @property
    def value(self) -> float:
        """What it is."""
        value: float = vars(importlib.import_module(self.module))[self.name]
        return value

    @property
    def label(self) -> str:
        """The module's own name and the number's, as in ``_NEUTRAL``."""
        return f"{self.module.rpartition('.')[2]}.{self.name}"

    @property
    def neutral(self) -> tuple[float, ...]:
        """The values to try."""
        return (
            _NEUTRAL.get(self.label)
            or _NEUTRAL.get(self.name)
            or (0 * self.value, 3 * self.value)
        )


@dataclass(frozen=True, slots=True)
class Task:
    """The searches that are repeated with each value: curves by name, machines,
    seeds."""

    curves: tuple[str, ...]
    repeats: int

    def run(self) -> list[Outcome]:
        """Simulates all searches."""
        curves = [_curve(name) for name in self.curves]
        machines = [
            condition for condition in CONDITIONS if condition.name in _MACHINES
        ]
        seeds = range(self.repeats)
        return [
            simulated(curve, condition, seed)
            for curve in curves
            for condition in machines
            for seed in seeds
        ]


def _curve(name: str) -> Curve:
    return next(curve for curve in CURVES if curve.name == name)


def run(
    repeats: int, only: Sequence[str], names: Sequence[str], jobs: int, command: str
) -> None:
    """Prints a table of the numbers, and of what changes without them."""
    task = Task(tuple(only) or QUICK, repeats)
    for name in task.curves:
        best(_curve(name))  # the processes have it from here
    began_s = time.perf_counter()
    usual = task.run()
    limit_s = max(_LEAST_S, _LONGER * (time.perf_counter() - began_s))
    wanted = [
        constant for constant in constants() if not names or constant.name in names
    ]
    reached = _reached(task, wanted)
    print(
        f"{support.origin(command, repeats, 'repeat')} {len(usual)} searches with each value.\n"
    )
    print(f"Not reached by these searches: {_listed(set(wanted) - reached)}.\n")
    print("\n".join([*_HEAD, _row("**as it is**", "", usual, usual)]), flush=True)
    tried = [
        (constant, value)
        for constant in wanted
        if constant in reached
        for value in constant.neutral
    ]
    # all numbers once, then further values
    tried.sort(key=lambda pair: pair[0].neutral.index(pair[1]))
    unchanged = {constant for constant, _ in tried}
    for (constant, value), outcomes in _all_outcomes(task, tried, jobs, limit_s):
        if isinstance(outcomes, str) or _changes(usual, outcomes):
            unchanged.discard(constant)
        shown = f"{constant.value:g} → {value:g}"
        print(
            outcomes
            if isinstance(outcomes, str)
            else _row(constant.label, shown, usual, outcomes),
            flush=True,
        )
    print(f"\nNo search changes with other values of {_listed(unchanged)}.")


def constants(packages: Sequence[str] = _PACKAGES) -> list[Constant]:
    """The numbers that modules of packages name; by default those that simulated
    searches use."""
    root = Path(nws_sweep.__file__).parent
    files = [
        file for package in packages for file in sorted((root / package).rglob("*.py"))
    ]
    modules = {
        ".".join(file.relative_to(root.parent).with_suffix("").parts): file
        for file in files
    }
    named = [
        Constant(module, name)
        for module, file in modules.items()
        for name in _named(file)
    ]
    return [constant for constant in named if type(constant.value) in (int, float)]


def _named(file: Path) -> Iterator[str]:
    """The names that a module assigns on its own level."""
    for statement in ast.parse(file.read_text("utf-8")).body:
        if (
            isinstance(statement, ast.Assign | ast.AnnAssign)
            and statement.value is not None
        ):
            targets = (
                statement.targets
                if isinstance(statement, ast.Assign)
                else [statement.target]
            )
            yield from (
                node.id
                for target in targets
                for node in ast.walk(target)
                if isinstance(node, ast.Name)
            )


def _reached(task: Task, wanted: Sequence[Constant]) -> set[Constant]:
    """Those whose name is in code of nws_sweep that the searches execute."""
    codes: set[tuple[str, CodeType]] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            codes.add((frame.f_globals.get("__name__", ""), frame.f_code))

    sys.setprofile(note)
    try:
        Task(task.curves, 1).run()
    finally:
        sys.setprofile(None)
    used = {
        (module, name)
        for module, code in codes
        if module.startswith("nws_sweep")
        for name in code.co_names
    }
    public = {name for _, name in used}
    return {
        constant
        for constant in wanted
        if (constant.module, constant.name) in used
        or (constant.name[0] != "_" and constant.name in public)
    }


def _all_outcomes(
    task: Task, tried: Sequence[tuple[Constant, float]], jobs: int, limit_s: float
) -> Iterator[tuple[tuple[Constant, float], list[Outcome] | str]]:
    """Those of each value, in a process of its own."""
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, context) as pool:
        pending = {
            pool.submit(_outcomes_with, task, *pair, limit_s): pair for pair in tried
        }
        for done in as_completed(pending):
            yield pending[done], done.result()


def _outcomes_with(
    task: Task, constant: Constant, value: float, limit_s: float
) -> list[Outcome] | str:
    """The searches with another value; a row that says why where they fail."""
    usual = constant.value
    shown = f"| {constant.label} | {usual:g} → {value:g} |"
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(math.ceil(limit_s))
    set_value(constant, value)
    try:
        return task.run()
    except TimeoutError:
        return f"{shown} takes over {_LONGER:g} times as long |"
    except Exception as error:  # any may follow from a wrong value
        return f"{shown} {type(error).__name__}: {error} |"
    finally:
        signal.alarm(0)
        set_value(constant, usual)


def _stop(number: int, frame: FrameType | None) -> None:
    raise TimeoutError


def set_value(constant: Constant, value: float) -> None:
    """Sets it in its module, and in those that import it by name."""
    namesakes = {
        number.module for number in constants() if number.name == constant.name
    } - {constant.module}
    usual = constant.value
    for name, module in list(sys.modules.items()):
        is_same = (
            name.startswith("nws_sweep") and vars(module).get(constant.name) is usual
        )
        if is_same and name not in namesakes:
            setattr(module, constant.name, value)


def _changes(usual: Sequence[Outcome], outcomes: Sequence[Outcome]) -> bool:
    return any(before != after for before, after in zip(usual, outcomes, strict=True))


def _row(
    label: str, value: str, usual: Sequence[Outcome], outcomes: Sequence[Outcome]
) -> str:
    """The figures, and by how much they exceed those of ``usual``."""
    figures = zip(_figures(outcomes), _figures(usual), strict=True)
    cells = [f"{figure:.1f} ({figure - before:+.1f})" for figure, before in figures]
    pairs = [*zip(usual, outcomes, strict=True)]
    answers = sum(before.answer != after.answer for before, after in pairs)
    worse = sum(after.regret > before.regret + _CLOSE for before, after in pairs)
    better = sum(after.regret < before.regret - _CLOSE for before, after in pairs)
    searches = sum(before != after for before, after in pairs)
    cells += [f"{answers} ({better} better, {worse} worse)", str(searches)]
    return f"| {label} | {value} | {' | '.join(cells)} |"


def _figures(outcomes: Sequence[Outcome]) -> list[float]:
    regrets, costs_s = (
        [outcome.regret for outcome in outcomes],
        [outcome.cost_s for outcome in outcomes],
    )
    rows = [contains for outcome in outcomes for contains in outcome.rows]
    ratios = [contains for outcome in outcomes for contains in outcome.ratios]
    return [
        100 * statistics.median(regrets), 100 * statistics.fmean(regrets), 100 * high(regrets),
        statistics.fmean(costs_s), max(costs_s), 100 * statistics.fmean(rows or [0]),
        100 * statistics.fmean(ratios or [0]), sum(outcome.impossible for outcome in outcomes),
    ]  # fmt: skip


def _listed(some: set[Constant]) -> str:
    return ", ".join(constant.label for constant in sorted(some)) or "none"


_HEAD = (
    "| name | value | regret, %: median | mean | 95th | cost, s: mean | largest | rows, % | ratios, % | impossible "
    "| other answers | other searches |",
    "|---" * 12 + "|",
)
