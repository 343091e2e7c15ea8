from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher

from nws_sweep import launching
from nws_sweep.errors import ConfigurationError

Answer = Callable[[str], "JobReturn | Exception"]


class FakeLauncher(Launcher):
    """Answers as told, and raises the first exception among its answers, as Hydra's launchers do."""

    def __init__(self, *attempts: Answer) -> None:
        self._attempts = list(attempts)
        self.launched: list[tuple[list[str], int]] = []

    def setup(self, **given: Any) -> None:
        pass

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        names = [override for (override,) in job_overrides]
        self.launched.append((names, initial_job_idx))
        answer = self._attempts.pop(0)
        answers = [answer(name) for name in names]
        for one in answers:
            if isinstance(one, Exception):
                raise one
        return [one for one in answers if isinstance(one, JobReturn)]


def fine(name: str) -> JobReturn:
    return JobReturn(status=JobStatus.COMPLETED)


def failing(*names: str) -> Answer:
    return lambda name: RuntimeError(f"{name} died") if name in names else fine(name)


def launch(launcher: Launcher, *finished: str) -> list[str]:
    points = [["a"], ["b"], ["c"]]
    errors = launching.launch_surviving(launcher, points, 10, lambda point: point[0] in finished)
    return ["" if error is None else str(error) for error in errors]


def test_a_batch_that_survives_is_launched_once() -> None:
    launcher = FakeLauncher(fine)
    assert launch(launcher) == ["", "", ""]
    assert launcher.launched == [(["a", "b", "c"], 10)]


def test_when_a_launcher_gives_up_what_is_not_finished_gets_another_chance_by_itself() -> None:
    launcher = FakeLauncher(failing("b"), failing("b"), fine)
    assert launch(launcher, "a") == ["", "b died", ""]
    assert launcher.launched == [(["a", "b", "c"], 10), (["b"], 11), (["c"], 12)]


RAISED = ValueError("no")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (failing("a"), "a died"),  # a single point has had its chance
        (lambda name: JobReturn(status=JobStatus.FAILED, _return_value=RAISED), "no"),
        (lambda name: JobReturn(), "the job came to no end: None"),
    ],
)
def test_what_ended_a_job_is_told(answer: Answer, error: str) -> None:
    launcher = FakeLauncher(answer)
    (found,) = launching.launch_surviving(launcher, [["a"]], 0, lambda point: False)
    assert str(found) == error
    assert len(launcher.launched) == 1


def test_a_launcher_that_answers_for_each_is_not_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(launching._ANSWERING, "tests.test_launching", contextlib.nullcontext)
    with pytest.raises(ConfigurationError, match=r"^hydra/launcher: nothing could be launched: a died$"):
        launch(FakeLauncher(failing("a")))


def test_a_task_of_ray_that_dies_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class RayError(Exception): ...

    def get(task: str) -> str:
        if task == "dead":
            raise RayError("worker crashed")
        return task

    ray = SimpleNamespace(get=get, exceptions=SimpleNamespace(RayError=RayError))
    core = SimpleNamespace(ray=ray)
    monkeypatch.setitem(sys.modules, "hydra_plugins.hydra_ray_launcher._core", core)
    with launching._ray_answers():
        assert core.ray.get("alive") == "alive"
        lost = core.ray.get("dead")
    assert core.ray is ray
    assert lost.status is JobStatus.FAILED
    assert str(lost._return_value) == "the task was lost: RayError: worker crashed"


QUEUE = """
7_0 COMPLETED big
7_1 RUNNING big
7_2 PENDING
7_3 CANCELLED small
8 NODE_FAIL small
9 SUSPENDED small
"""


@pytest.mark.parametrize(
    ("job", "state"),
    [
        ("7_0", "COMPLETED on big"),
        ("7_1", "RUNNING"),
        ("7_2", "RUNNING"),
        ("7_3", "CANCELLED on small"),
        ("8", "NODE_FAIL on small"),
        ("9", "RUNNING"),
        ("5", "not in the queue"),
    ],
)
def test_the_queue_says_what_has_become_of_a_job(job: str, state: str) -> None:
    assert launching.states(QUEUE, [job]) == {job: state}


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("", "job 7 was lost (FAILED)"),
        (
            "something\nsrun: error: big: task 0: Killed\nlast",
            "job 7 was lost (FAILED): srun: error: big: task 0: Killed",
        ),
        (
            "Traceback:\nModuleNotFoundError: No module named 'x'\nsrun: error: big: task 0: Exited with exit code 1",
            "job 7 was lost (FAILED): ModuleNotFoundError: No module named 'x'",
        ),
        ("one\ntwo\n", "job 7 was lost (FAILED): two"),
    ],
)
def test_the_line_of_a_log_that_says_most_is_told(log: str, told: str) -> None:
    assert launching.death("7", "FAILED", log) == told
