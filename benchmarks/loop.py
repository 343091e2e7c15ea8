"""Runs programs that train slowly for a known reason, alone and under ``nws-sweep
watch`` and TraceML, and writes the results."""

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import rivals, support
from benchmarks.loop_cases import CASES, QUICK, Case
from benchmarks.results import Results, Table
from nws_sweep import units
from nws_sweep.records import Part
from nws_sweep.system import host_lock

_ROOT = Path(__file__).parent.parent
_PACKAGE = "benchmarks.programs"
_LIMIT_S = 300.0
_PAIRS = 1  # of runs with the remedy and without
_OF_CHEAP = {"cheap_batches": "1 ms", "cheap_long_batches": "10 ms"}
_SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_TIME = r"([\d.]+) (µs|ms|s|min)\b"
_SAVES = re.compile(r"saves?(?: up to)? (\d+) %")
_LASTED = re.compile(rf"^  where {_TIME} went", re.MULTILINE)
_PREDICTED = re.compile(
    r"num_workers=(\d+)( in_order=False)? saves \d+ % \(predicted\)"
)
_LINE = re.compile(r"^(?:nws_sweep: |  next   )(.*?)(?:   \(.*\))?$", re.MULTILINE)
_ROW = re.compile(rf"^  ({'|'.join(part.value for part in Part)}) +(\d+) % ")
_COLUMNS = (
    "program", "report", "planted cause", "verdict of watch", "part", "share", "bare", "off (points)", "not seen",
    "gain", "by hand", "TraceML", "advice of TraceML",
)  # fmt: skip
_ABOUT = """\
Programs of `benchmarks/programs`, each after a public report of slow training, run as they are and under `nws-sweep
watch`, a row for each repeat. *Share* is that of the planted part in the first epoch, as watch prints it, and *bare*
the same by a stopwatch in the program, of the same epoch. *TraceML* is the verdict of TraceML 0.5.0 on the program,
its steps marked. *Off* is the largest difference of any part. *Gain* is what the verdict says that its remedy saves
of an epoch, and *by hand* what it saved: the program with that number of workers if the verdict predicts one, else
with the planted cause mended; medians of all epochs but the first, of {pairs} pair of runs. The stopwatch runs under
watch too: what watching takes of a call, some 40 µs a batch, it counts as main process, and watch in no part.
"""
_ABOUT_OVERHEAD = """\

What watch costs: a training step that sleeps and batches that are ready, two workers, {rounds} pairs of runs in turn:
the time of an epoch under watch / without it, the median and the range. Watch records the first epoch, or a minute.
Later epochs, of 4 s each, contain what it takes once to conclude when the second one begins, a quarter of a second.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What watch printed.

    Attributes:
        verdict: Its first line, and what to change next.
        shares: Of the parts of the first epoch, from 0 to 1.
        saved_s: Seconds of an epoch that the remedy saves; None if it does not say.
        workers: For which it predicts an epoch in the order of the sampler; None for
            none.
    """

    verdict: str
    shares: Mapping[Part, float]
    saved_s: float | None
    workers: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One run of a case in each way."""

    case: Case
    watched: Watched
    bare: Mapping[Part, float]  # shares of the parts, of the same epoch
    by_hand_s: float  # what the remedy saved of an epoch
    traceml: rivals.Diagnosis

    @property
    def off(self) -> float:
        """The largest difference between watch and the stopwatch, of the parts that
        both have."""
        parts = tuple(Part) if self.case.times_all else (self.case.part,)
        return max(
            abs(self.watched.shares.get(part, 0.0) - self.bare.get(part, 0.0))
            for part in parts
        )

    @property
    def row(self) -> tuple[str, ...]:
        """Of the table."""
        part, watched = self.case.part, self.watched
        return (
            self.case.name,
            self.case.address,
            self.case.about,
            watched.verdict,
            part.value,
            units.share(watched.shares.get(part, 0.0)),
            units.share(self.bare.get(part, 0.0)),
            f"{100 * self.off:.0f}",
            units.share(watched.shares.get(Part.UNSEEN, 0.0)),
            units.seconds(watched.saved_s),
            _signed(self.by_hand_s),
            self.traceml.verdict,
            self.traceml.advice,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Times of epochs under watch / without it, pair by pair."""

    step: str
    first: Sequence[float]
    later: Sequence[float]

    @property
    def row(self) -> tuple[str, ...]:
        """Of the table."""
        first, later = map(_median_and_range, (self.first, self.later))
        return self.step, first, later


def run(
    repeats: int,
    rounds: int,
    only: Sequence[str],
    output: Path,
    command: str,
    *,
    quick: bool,
) -> None:
    """Runs the cases ``repeats`` times and ``rounds`` pairs for the overhead, and
    writes the results."""
    names = only or (QUICK if quick else [case.name for case in CASES])
    rivals.install()
    with host_lock.held(support.LOCK_FILE, support.print_line):
        findings = []
        for _ in range(repeats):
            for case in CASES:
                if case.name in names:
                    findings.append(finding := _find(case))
                    support.print_line(" | ".join(finding.row))
        overheads = [
            _measure_overhead(name, 1 if quick else rounds) for name in _OF_CHEAP
        ]
    results = results_of(findings, overheads)
    results.write(output, support.origin(command, repeats, "repeat"))


def _find(case: Case) -> Finding:
    text = _run(case.name, "--bare", watches=True)
    watched = read(text)
    remedy = (
        ["--mended"] if watched.workers is None else ["--workers", str(watched.workers)]
    )
    plain_s, mended_s = list[float](), list[float]()
    for _ in range(_PAIRS):
        plain_s += _times_s(_run(case.name))[1:]
        mended_s += _times_s(_run(case.name, *remedy))[1:]
    by_hand_s = statistics.median(plain_s) - statistics.median(mended_s)
    return Finding(
        case=case,
        watched=watched,
        bare=shares_of(_epochs(text)[0]),
        by_hand_s=by_hand_s,
        traceml=rivals.traceml(case.name, _LIMIT_S),
    )


def _measure_overhead(name: str, rounds: int) -> Overhead:
    first, later = [], []
    for number in range(rounds):
        watched_first = number % 2 == 1
        runs = {
            watches: _times_s(_run(name, watches=watches))
            for watches in sorted((False, True), reverse=watched_first)
        }
        first.append(runs[True][0] / runs[False][0])
        later.append(sum(runs[True][1:]) / sum(runs[False][1:]))
    overhead = Overhead(step=_OF_CHEAP[name], first=first, later=later)
    support.print_line(" | ".join(overhead.row))
    return overhead


def _run(name: str, *arguments: str, watches: bool = False) -> str:
    """What a program prints, on both streams."""
    watch = ["nws_sweep", "watch", "-m"] if watches else []
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        *watch,
        f"{_PACKAGE}.{name}",
        *arguments,
    ]
    environment = os.environ | {"PYTHONPATH": str(_ROOT)}
    return subprocess.run(
        command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=_LIMIT_S, check=True,
    ).stdout  # fmt: skip


def _epochs(text: str) -> list[Mapping[str, float]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _times_s(text: str) -> list[float]:
    return [
        float(line.removesuffix(" s"))
        for line in text.splitlines()
        if re.fullmatch(r"[\d.]+ s", line)
    ]


def shares_of(epoch: Mapping[str, float]) -> Mapping[Part, float]:
    """The shares of the parts of an epoch that a program printed; what no part has is
    making."""
    parts = {part: epoch.get(part.value, 0.0) / epoch["epoch_s"] for part in Part}
    return parts | {
        Part.MAKING: 1
        - sum(share for part, share in parts.items() if part is not Part.MAKING)
    }


def read(text: str) -> Watched:
    """What watch says in the output of a program."""
    verdict = "; ".join(_LINE.findall(text)) or "nothing"
    rows = [row for line in text.splitlines() if (row := _ROW.match(line))]
    predicted, lasted = _PREDICTED.search(verdict), _LASTED.search(text)
    saves, saved_s = _SAVES.search(verdict), None
    if saves and lasted:
        saved_s = int(saves[1]) / 100 * _seconds(*lasted.groups())
    return Watched(
        verdict=verdict,
        shares={Part(row[1]): int(row[2]) / 100 for row in rows},
        saved_s=saved_s,
        workers=int(predicted[1]) if predicted and not predicted[2] else None,
    )


def _seconds(value: str, unit: str) -> float:
    return float(value) * _SECONDS[unit]


def _signed(saved_s: float) -> str:
    return f"{'-' * (saved_s < 0)}{units.seconds(abs(saved_s))}"


def _median_and_range(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def results_of(findings: Sequence[Finding], overheads: Sequence[Overhead]) -> Results:
    """The runs of the programs, and what watch costs."""
    near = sum(finding.off <= 0.035 for finding in findings)  # both shares are rounded
    rounds = max(len(overhead.first) for overhead in overheads)
    return Results(
        title="Where an epoch goes: public reports, rebuilt",
        headline=f"All parts are within 3 points of the stopwatch in {near} of {len(findings)} runs.",
        about=_ABOUT.format(pairs=_PAIRS) + _ABOUT_OVERHEAD.format(rounds=rounds),
        tables=[
            Table("programs", _COLUMNS, [finding.row for finding in findings]),
            Table(
                "overhead",
                ("step", "first epoch", "later epochs"),
                [overhead.row for overhead in overheads],
            ),
        ],
    )
