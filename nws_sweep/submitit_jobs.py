"""submitit's launchers, made to answer for each of their jobs, and to end them when the program is interrupted.

submitit asks Slurm's accounting (sacct) what became of a job. Where there is none it waits for a killed job for ever;
where there is one it asks every ten minutes. Here the queue is asked, which every Slurm has.
"""

from __future__ import annotations

import contextlib
import getpass
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from nws_sweep.errors import LostJob, one_line
from nws_sweep.replacing import replaced

# At first every two seconds, then ever more seldom down to this; whether there is an answer is looked at every second.
_ASK_EVERY_S = 60
# States of a job that will not go on; whatever else Slurm calls a job is one that may.
_ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY REVOKED TIMEOUT".split()  # noqa: SIM905
)
_GONE = "not in the queue"
_RAISED = re.compile(r"[\w.]*(Error|Exception)\b")


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Within the block a job that dies becomes a failed answer, where the launcher would raise and ask no other."""
    from submitit.core import core
    from submitit.slurm import slurm

    jobs: list[Any] = []
    with (
        replaced(slurm.SlurmJob, "watcher", _queue_of(slurm)),
        replaced(core.Job, "results", _answer_of(core.Job.results)),
        replaced(core.Executor, "map_array", _noting(core.Executor.map_array, jobs)),
    ):
        try:
            yield
        except BaseException:
            _cancel(jobs)
            raise


def _answer_of(results: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    def answer(job: Any) -> list[Any]:
        try:
            return results(job)
        except Exception:  # whatever reading an answer may raise
            log = job.paths.stderr.read_text("utf-8", "replace") if job.paths.stderr.is_file() else ""
            lost = LostJob(death(job.job_id, job.state, log))
            return [JobReturn(status=JobStatus.FAILED, _return_value=lost)]

    return answer


def _noting(map_array: Callable[..., list[Any]], jobs: list[Any]) -> Callable[..., list[Any]]:
    def noted(*arguments: Any) -> list[Any]:
        submitted = map_array(*arguments)
        jobs.extend(submitted)
        return submitted

    return noted


def _cancel(jobs: Sequence[Any]) -> None:
    """Ends those that go on: of Slurm by their number, which all jobs of an array share; local ones as Ctrl-C does."""
    going_on = [job for job in jobs if not job.paths.result_pickle.exists()]
    queued = {job.job_id.partition("_")[0] for job in going_on if _is_queued(job)}
    if queued:
        subprocess.run(["scancel", *sorted(queued)], check=False)
    for job in going_on:
        if not _is_queued(job):
            job.cancel(check=False)


def _is_queued(job: Any) -> bool:
    return type(job).__name__ == "SlurmJob"


def death(job_id: str, state: str, log: str) -> str:
    """One line: how a job ended, and what its log has to say about that.

    Args:
        job_id: Its number.
        state: What the queue calls it.
        log: What it, and Slurm, have written to standard error.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)][-1:]
    refused = [line for line in lines if "error:" in line][:1]  # Slurm's own; the first one is the cause
    return one_line(": ".join([f"job {job_id} was lost ({state})", *(raised or refused or lines[-1:])]))


def _queue_of(slurm: Any) -> Any:
    """What submitit takes for its watcher of Slurm's jobs."""

    class Queue(slurm.SlurmInfoWatcher):  # type: ignore[misc] # its base is known only where submitit is installed
        def _make_command(self) -> list[str] | None:
            if not self._registered - self._finished:
                return None
            user = f"--user={getpass.getuser()}"
            return ["squeue", "--noheader", "--array", "--states=all", user, "--format=%i %T %N"]

        def read_info(self, string: bytes | str) -> dict[str, dict[str, str]]:
            text = string if isinstance(string, str) else string.decode()
            return {job: {"State": state} for job, state in states(text, self._registered - self._finished).items()}

    return Queue(delay_s=_ASK_EVERY_S)


def states(queue: str, jobs: Iterable[str]) -> dict[str, str]:
    """What has become of jobs.

    Args:
        queue: What squeue prints: number, state and node of each job, also of those that have ended lately.
        jobs: Their numbers; squeue has been told of all of them.

    Returns:
        For each RUNNING, which submitit knows, or what says to it that the job has ended.
    """
    told = {number: rest for number, *rest in (line.split() for line in queue.splitlines() if line.strip())}
    return {job: _known(*told.get(job, [_GONE])) for job in jobs}


def _known(state: str, node: str = "") -> str:
    if state == _GONE:
        return state
    return (f"{state} on {node}" if node else state) if state in _ENDED else "RUNNING"
