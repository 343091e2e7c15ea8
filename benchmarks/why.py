"""Searches the cases of known cause, and writes what is said of each beside what was put in."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from benchmarks import ours, stage
from benchmarks.causes import Case
from nws_sweep import advice, host, hostlock
from nws_sweep.analysis import best_and_fastest
from nws_sweep.diagnosis import Diagnosis, diagnose
from nws_sweep.nursery import Nursery
from nws_sweep.records import Configuration, LoaderSettings, MeasureRules, SearchRecord, SearchRules
from nws_sweep.runner import search
from nws_sweep.surroundings import Surroundings

_SPIN = "while True: pass"
_INTRODUCTION = """\
Workloads into which a cause was put on purpose, searched with the default rules, and what was said of them. "Right" is
one whose first limit is the one that was put in, and which names the others that were. Rules were mended on these very
cases, so their share says less about others: the first run had 7 of 14 right; four of the rest were mistakes of the
rules, three cases did not hold what they said, and of one something else is expected now.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was said of a case."""

    case: Case
    diagnosis: Diagnosis | None
    best: int | None

    @property
    def right(self) -> bool:
        """Whether it is what was put in."""
        limits = self.diagnosis.limits if self.diagnosis else ()
        return limits[:1] == (self.case.expected,) and set(self.case.besides) <= set(limits)


def run(cases: Sequence[Case], repeats: int, output: Path, arguments: Sequence[str]) -> None:
    """Searches all cases, each repeat in the same order, and writes the page.

    Args:
        cases: What is searched.
        repeats: How often.
        output: The page.
        arguments: The command line that it can be made again with.
    """
    findings = []
    with hostlock.held(stage.LOCK_FILE, "scripts/benchmark why", stage.say):
        stage.start_fork_server()
        for number in range(repeats):
            for case in cases:
                findings.append(_found(case, number))
                stage.say(_line(findings[-1]))
    output.write_text(_page(findings, arguments))


def _line(finding: Finding) -> str:
    verdict = "right" if finding.right else "WRONG"
    said = advice.sentence(finding.diagnosis) if finding.diagnosis else "nothing"
    return f"{verdict} {finding.case.name}, best {finding.best}: {said}"


def _found(case: Case, number: int) -> Finding:
    with tempfile.TemporaryDirectory() as folder, _disturbance(case):
        result = _searched(case, number, Path(folder) / "log")
    best, _ = best_and_fastest(result)
    return Finding(case=case, diagnosis=diagnose(result, best), best=best.num_workers if best else None)


def _searched(case: Case, number: int, log_path: Path) -> SearchRecord:
    target, given = case.dataset
    configuration = Configuration(
        columns={"dataset": case.name},
        dataset={"_target_": f"benchmarks.workloads.{target}", **given},
        consumer=case.consumer,
        loader=LoaderSettings(**{"prefetch_factor": 2, "shuffle": True, **case.loader}),
        measure=MeasureRules(**case.measure),
        search=SearchRules(strategy="adaptive", candidates=tuple(range(case.most + 1))),
        seed=number,
    )
    start = SearchRecord(
        configuration=configuration, host=host.describe(), started_at=datetime.now().astimezone().isoformat()
    )
    with Nursery() as nursery:
        surroundings = Surroundings(open_arm=ours.arm_factory(nursery, log_path))
        return search(start, surroundings, ours.Teller(lambda _: None))


@contextlib.contextmanager
def _disturbance(case: Case) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(2 if case.disturbed else 0):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", _SPIN]))
            stack.callback(process.kill)
        yield


def _page(findings: Sequence[Finding], arguments: Sequence[str]) -> str:
    machine = host.describe()
    rows = [
        f"| {f.case.name} | {f.case.about} | {'yes' if f.right else 'no'} | {f.best} | {_said(f)} |" for f in findings
    ]
    right = sum(finding.right for finding in findings)
    return "\n".join(
        [
            "# Causes that are known, and what is said of them\n",
            _INTRODUCTION,
            f"{right} of {len(findings)} right. Made by `scripts/benchmark {' '.join(arguments)}` on "
            f"{date.today().isoformat()}: {machine.cpu_model}, {machine.usable_cpus} usable CPUs, torch "
            f"{machine.torch}.\n",
            "| case | what was put in | right | best num_workers | what is said |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _said(finding: Finding) -> str:
    return advice.sentence(finding.diagnosis).replace("|", "\\|") if finding.diagnosis else "nothing"
