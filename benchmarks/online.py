"""Training runs whose loader tunes itself, compared with fixed settings and hill
climbing."""

import itertools
import os
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks import child, support
from benchmarks.catalogue import Workload
from benchmarks.journal import Journal, Played
from benchmarks.results import Results, Table, bullets
from benchmarks.support import print_line
from benchmarks.targets import percent, verdict
from benchmarks.trainings import CLIMBING, FIXED, ONLINE, Training
from benchmarks.trainings import run as train
from nws_sweep.system import host, host_lock

_CANDIDATES = (0, 1, 2, 4, 8, 16, 32)  # of the oracle
_MOST_FIRST, _MOST_LATER, _MOST_SWITCHES = 0.02, 0.01, 3

_COLUMNS = (
    "training", "method", "start", "first epoch", "after the change", "second epoch", "settled", "longest wait",
    "changes", "end",
)  # fmt: skip
_ABOUT = """\
Training runs of two epochs that begin with a bad num_workers. In each repeat, each method trains once on every
workload and from every start, in random order and in fresh processes:

- best fixed: a plain DataLoader with the num_workers whose first epoch was the shortest, of 0, 1, 2, 4, 8, 16 and 32
  (found once, before the repeats), the first row of each training run;
- fixed: a plain DataLoader with the num_workers of the start, one epoch;
- hill climbing: adds a worker as long as a batch then takes at least 1 % less time;
- autotune: `nws_sweep.autotune`, without a stored answer.

First and second epoch are divided by those of the best fixed num_workers in the same repeat. After the change: the
first epoch from the first change on, divided by the time of the best fixed num_workers for the same batches; the whole
epoch where the change comes at its end, as with too many workers at the start. Settled: batches until the last change.
Longest wait: for one batch, except the first one of an epoch. End: num_workers and prefetch_factor at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the command line."""

    repeats: int  # at least 1
    only: tuple[str, ...]  # names of training runs; empty for all
    output: Path  # the folder of the results
    journal: Path  # raw figures
    resume: bool  # keep the figures of the journal
    command: str  # the command line


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A training run, and the values of num_workers that it begins with."""

    workload: Workload
    starts: tuple[int, ...]
    cpu_step_s: float = 0.0

    @property
    def name(self) -> str:
        """Name of the workload."""
        return self.workload.name

    @property
    def about(self) -> str:
        """What a batch and a step cost."""
        step = f"{1e3 * self.workload.step_s:g} ms of sleep and {1e3 * self.cpu_step_s:g} ms of CPU time a step"
        return (
            f"{self.workload.about}, {step}, {self.workload.batches} batches an epoch"
        )


def _latency(
    name: str, about: str, step_s: float, batches: int, spread: float = 0.0
) -> Workload:
    return Workload(
        name=name, about=about, target="Latency", batch_size=8, batches=batches, step_s=step_s,
        arguments={"mean_s": 0.004, "spread": spread},
    )  # fmt: skip


CASES = (
    Case(workload=_latency("waits", "4 ms of sleep a sample, batch 8", 0.010, 800), starts=(0, 32)),
    Case(
        workload=_latency("waits_cpu_step", "4 ms of sleep a sample, batch 8", 0.0, 800),
        starts=(0, 32), cpu_step_s=0.01,
    ),
    Case(
        workload=_latency("lognormal", "log-normal sleep, mean 4 ms a sample, spread 1.2, batch 8", 0.005, 1000, 1.2),
        starts=(1, 32),
    ),
    Case(
        workload=Workload(
            name="cpu", about="1 ms of CPU a sample, batch 16", target="Arithmetic", batch_size=16, batches=900
        ),
        starts=(0, 16),
    ),
    Case(
        workload=Workload(
            name="memory", about="tensors in memory, 784 values a sample, batch 300", target="InMemory", batch_size=300,
            batches=3000,
        ),
        starts=(0, 8),
    ),
)  # fmt: skip


def run(options: Options) -> None:
    """Measures missing figures and writes the results; errors are those of ``Journal`` and
    ``child.call``."""
    made_with = {
        "benchmark": "online",
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "host": asdict(host.describe()),
    }
    journal = Journal(options.journal, made_with, resume=options.resume)
    support.start_fork_server()
    cases = [case for case in CASES if not options.only or case.name in options.only]
    with host_lock.held(support.LOCK_FILE, print_line):
        best = {case.name: _best(case, journal) for case in cases}
        for repeat, case in itertools.product(range(1, options.repeats + 1), cases):
            played = {
                (playing.training, playing.method, playing.start)
                for playing in journal.of(Played)
                if playing.repeat == repeat
            }
            missing = [
                playing
                for playing in _trainings(case, best[case.name])
                if (case.name, *_key(playing)) not in played
            ]
            random.Random(repeat).shuffle(missing)
            for training in missing:
                _play(training, case.name, repeat, journal)
    played_runs = [
        playing
        for playing in journal.of(Played)
        if playing.training in best and playing.repeat <= options.repeats
    ]
    origin = support.origin(options.command, options.repeats, "repeat")
    results_of(played_runs, cases).write(options.output, origin)
    print_line(f"written to {options.output}")


def _key(training: Training) -> tuple[str, int]:
    return training.method, training.num_workers


def _best(case: Case, journal: Journal) -> int:
    """The number with the shortest first epoch; the runs count as repeat 0."""
    for number in _CANDIDATES:
        if not any(
            (o.training, o.start, o.repeat) == (case.name, number, 0)
            for o in journal.of(Played)
        ):
            training = Training(
                workload=case.workload,
                method=FIXED,
                num_workers=number,
                cpu_step_s=case.cpu_step_s,
                epochs=1,
            )
            _play(training, case.name, 0, journal)
    runs = [
        playing
        for playing in journal.of(Played)
        if (playing.training, playing.repeat) == (case.name, 0)
    ]
    return min(runs, key=lambda playing: playing.epochs_s[0]).start


def _trainings(case: Case, best: int) -> Iterator[Training]:
    common = Training(
        workload=case.workload,
        method=FIXED,
        num_workers=best,
        cpu_step_s=case.cpu_step_s,
    )
    yield common
    for start in case.starts:
        if start != best:
            yield replace(common, num_workers=start, epochs=1)
        yield replace(common, method=CLIMBING, num_workers=start)
        yield replace(common, method=ONLINE, num_workers=start)


def _play(training: Training, name: str, repeat: int, journal: Journal) -> None:
    result = child.call(train, training)
    journal.add(
        Played(
            training=name,
            method=training.method,
            start=training.num_workers,
            repeat=repeat,
            **asdict(result),
        )
    )
    epochs = " ".join(f"{epoch_s:.2f} s" for epoch_s in result.epochs_s)
    print_line(
        f"{repeat} {name} {training.method} from {training.num_workers}: {epochs}, {result.picked} in the end"
    )


def results_of(played_runs: Sequence[Played], cases: Sequence[Case]) -> Results:
    """The training runs, and whether targets are reached."""
    rows = [row for case in cases for row in _rows(case, played_runs)]
    tuned = [row for row in rows if row.method == ONLINE]
    starts = [f"{row.case} from {row.start}" for row in tuned]
    targets = [
        verdict(f"{what} at most {percent(most)} longer than with the best fixed num_workers", pairs, most, percent)
        for what, most, pairs in (
            ("first epoch after the change", _MOST_FIRST, list(zip(starts, (r.rest - 1 for r in tuned), strict=True))),
            ("second epoch", _MOST_LATER, list(zip(starts, (r.second - 1 for r in tuned), strict=True))),
        )
    ] + [
        verdict(f"at most {_MOST_SWITCHES} changes", [(n, r.switches) for n, r in zip(starts, tuned, strict=True)],
                _MOST_SWITCHES, "{:.0f}".format),
    ]  # fmt: skip
    described = bullets(f"{case.name}: {case.about}" for case in cases)
    return Results(
        title="Training runs whose loader tunes itself",
        headline=_headline(tuned),
        about=f"{_ABOUT}\n\nTraining runs:\n\n{described}\n\nTargets:\n\n{bullets(targets)}",
        tables=[Table("runs", _COLUMNS, [row.cells for row in rows])],
    )


def _headline(tuned: "Sequence[Row]") -> str:
    firsts, seconds = (
        [getattr(row, name) for row in tuned] for name in ("first", "second")
    )
    return (
        f"With autotune the first epoch takes {statistics.median(firsts):.2f} times as long as with the best fixed "
        f"num_workers in the median of {len(firsts)} starts, {min(firsts):.2f} to {max(firsts):.2f} times; the second "
        f"{statistics.median(seconds):.2f} times, {min(seconds):.2f} to {max(seconds):.2f} times."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Medians over the repeats; epochs as multiples of those of the best fixed
    num_workers."""

    case: str
    method: str
    start: int
    first: float
    spread: float | None  # largest - least of ``first``; None of a single repeat
    rest: float
    second: float
    settled: float
    longest_wait_s: float
    switches: int
    picked: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Of the row of the table."""
        rest = f"{self.rest:.2f}" if self.method in (CLIMBING, ONLINE) else ""
        first = f"{self.first:.2f}"
        if self.spread is not None:
            first += f" ± {self.spread / 2:.2f}"
        return (
            self.case,
            self.method,
            str(self.start),
            first,
            rest,
            f"{self.second:.2f}" if self.second else "",
            f"{self.settled:.0f}",
            f"{1e3 * self.longest_wait_s:.0f} ms",
            str(self.switches),
            self.picked,
        )


def _rows(case: Case, played_runs: Sequence[Played]) -> Iterator[Row]:
    case_runs = [
        playing
        for playing in played_runs
        if playing.training == case.name and playing.repeat
    ]
    fixed = {
        playing.repeat: playing
        for playing in case_runs
        if playing.method == FIXED and len(playing.epochs_s) > 1
    }
    for method, start in dict.fromkeys(
        (playing.method, playing.start) for playing in sorted(case_runs, key=_order)
    ):
        runs = [
            playing
            for playing in case_runs
            if (playing.method, playing.start) == (method, start)
            and playing.repeat in fixed
        ]
        firsts = [
            playing.epochs_s[0] / fixed[playing.repeat].epochs_s[0] for playing in runs
        ]
        yield Row(
            case=case.name, method=method, start=start, first=statistics.median(firsts),
            spread=max(firsts) - min(firsts) if len(firsts) > 1 else None,
            rest=statistics.median(_rest(playing, fixed[playing.repeat], case.workload.batches) for playing in runs),
            second=statistics.median(_second(playing, fixed[playing.repeat]) for playing in runs),
            settled=statistics.median(playing.settled for playing in runs),
            longest_wait_s=statistics.median(playing.longest_wait_s for playing in runs),
            switches=max(playing.switches for playing in runs),
            picked=statistics.mode(playing.picked for playing in runs),
        )  # fmt: skip


def _order(playing: Played) -> tuple[bool, int, str]:
    return (
        playing.method != FIXED or len(playing.epochs_s) == 1,
        playing.start,
        playing.method,
    )


def _second(playing: Played, fixed: Played) -> float:
    return playing.epochs_s[1] / fixed.epochs_s[1] if len(playing.epochs_s) > 1 else 0.0


def _rest(playing: Played, fixed: Played, batches: int) -> float:
    """The first epoch after the first change, compared with the same share of that of
    the best fixed num_workers."""
    if not playing.first_switch_s or playing.first_batch >= batches:
        return playing.epochs_s[0] / fixed.epochs_s[0]
    return (playing.epochs_s[0] - playing.first_switch_s) / (
        fixed.epochs_s[0] * (1 - playing.first_batch / batches)
    )
