"""Searches workloads with known bottlenecks, and writes their diagnoses."""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import support, sweep_search
from benchmarks.causes import CASES, Case
from benchmarks.results import Results, Table
from nws_sweep.analysis.summary import ConfigurationSummary, summarise_record
from nws_sweep.records import Configuration, LoaderSettings, MeasureRules, SearchRules
from nws_sweep.system import host_lock

_SPIN = "while True: pass"
_COLUMNS = ("case", "workload", "right", "best num_workers", "diagnosis")
_ABOUT = """\
Workloads constructed to have one or two known bottlenecks, searched with prefetch_factor=2 and at most 32 workers
("rising" 16, "spawning" 8), and their diagnoses: the share of an epoch at the recommended setting that is saved if
one thing is taken away (docs: bottlenecks). Each case has a row for each repeat.
A diagnosis is right if its first bottleneck is the expected one, it names the other expected ones, and it says what is
special about the case. Some expectations were corrected after a first run, so the share of right diagnoses does not
carry over to other workloads.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a case."""

    case: Case
    summary: ConfigurationSummary

    @property
    def right(self) -> bool:
        """Whether the diagnosis has the expected bottlenecks, and says what it must."""
        bottlenecks = (
            self.summary.diagnosis.bottlenecks if self.summary.diagnosis else ()
        )
        first = next(iter(bottlenecks), None)
        is_named = first == self.case.expected and set(self.case.besides) <= set(
            bottlenecks
        )
        return is_named and self.case.says in self.sentences

    @property
    def best(self) -> int | None:
        """The recommended num_workers."""
        return self.summary.best.num_workers if self.summary.best else None

    @property
    def sentences(self) -> str:
        """The explanation."""
        rows = [text for label, text in self.summary.conclusion.rows if label]
        return ". ".join([*rows, *self.summary.details]) or "none"


def run(repeats: int, only: Sequence[str], output: Path, command: str) -> None:
    """Searches the cases ``repeats`` times in the same order, and writes the
    results.

    ``only`` has the names of the cases; empty for all.
    """
    cases = [case for case in CASES if not only or case.name in only]
    findings: list[Finding] = []
    with host_lock.held(support.LOCK_FILE, support.print_line):
        support.start_fork_server()
        for number in range(repeats):
            for case in cases:
                finding = _search(case, number)
                findings.append(finding)
                verdict = "right" if finding.right else "WRONG"
                support.print_line(
                    f"{verdict} {case.name}, best {finding.best}: {finding.sentences}"
                )
    results_of(findings).write(output, support.origin(command, repeats, "repeat"))


def _search(case: Case, number: int) -> Finding:
    with tempfile.TemporaryDirectory() as folder, _disturbance(case):
        result = sweep_search.find(
            _configuration(case, number), Path(folder) / "log", lambda _: None
        )
    (summary,) = summarise_record(result).configurations
    return Finding(case=case, summary=summary)


def _configuration(case: Case, number: int) -> Configuration:
    target, arguments = case.dataset
    return Configuration(
        columns={"dataset": case.name},
        dataset={"_target_": f"benchmarks.workloads.{target}", **arguments},
        training_step=case.training_step,
        loader=LoaderSettings(**{"prefetch_factor": 2, "shuffle": True, **case.loader}),
        measure=MeasureRules(**case.measure),
        search=SearchRules(strategy="adaptive", candidates=tuple(range(case.most + 1))),
        seed=number,
    )


@contextlib.contextmanager
def _disturbance(case: Case) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(2 if case.disturbed else 0):
            process = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", _SPIN])
            )
            stack.callback(process.kill)
        yield


def results_of(findings: Sequence[Finding]) -> Results:
    """The diagnoses, right and wrong."""
    rows = [
        (
            finding.case.name,
            finding.case.about,
            "yes" if finding.right else "no",
            str(finding.best),
            finding.sentences,
        )
        for finding in findings
    ]
    right = sum(finding.right for finding in findings)
    return Results(
        title="Diagnoses of workloads with known bottlenecks",
        headline=f"{right} of {len(findings)} diagnoses are right.",
        about=_ABOUT,
        tables=[Table("diagnoses", _COLUMNS, rows)],
    )
