from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher

from nws_sweep.hydra_app import app

POINTS = [[f"batch_size={size}"] for size in (1, 2, 4, 8, 16)]


class GridState(app.GridState):
    def __init__(self, *finished: int) -> None:
        self.there = [[f"batch_size={size}"] for size in finished]
        self.finished_by_jobs: list[list[str]] = []
        self.lost: list[tuple[Sequence[str], str]] = []

    def ended(self, point: Sequence[str]) -> Any:
        return point in self.finished_by_jobs or None

    def skip_if_final(self, point: Sequence[str]) -> bool:
        return point in self.there

    def record_lost_job(self, point: Sequence[str], error: BaseException) -> None:
        self.lost.append((point, str(error)))


Answer = Callable[[str], "JobReturn | Exception"]


class FakeLauncher(Launcher):
    """Returns the given answers; raises the first exception, as Hydra's launchers
    do."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.got: list[tuple[int, list[str]]] = []

    def setup(self, **_: Any) -> None: ...

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        names = [" ".join(overrides) for overrides in job_overrides]
        self.got.append((initial_job_idx, names))
        answers = [self._answer(name) for name in names]
        for one in answers:
            if isinstance(one, Exception):
                raise one
        return [one for one in answers if isinstance(one, JobReturn)]


def fine(name: str) -> JobReturn:
    return JobReturn(status=JobStatus.COMPLETED)


def failing(which: str) -> Answer:
    return lambda name: RuntimeError(f"{name} died") if name == which else fine(name)


def failed(name: str) -> JobReturn:
    return JobReturn(status=JobStatus.FAILED, _return_value=ValueError("it failed"))


def without_result(name: str) -> JobReturn:
    return JobReturn()


@pytest.mark.parametrize(
    ("finished", "batch_size", "got"),
    [
        ((), 1, [(number, point) for number, point in enumerate(POINTS)]),
        # finished points are skipped and keep their numbers
        ((1, 4, 16), 1, [(1, POINTS[1]), (3, POINTS[3])]),
        ((1,), None, [(1, [text for point in POINTS[1:] for text in point])]),
        (
            (),
            2,
            [
                (0, [*POINTS[0], *POINTS[1]]),
                (2, [*POINTS[2], *POINTS[3]]),
                (4, POINTS[4]),
            ],
        ),
    ],
)
def test_what_is_launched(
    finished: tuple[int, ...], batch_size: int | None, got: list[tuple[int, list[str]]]
) -> None:
    launcher = FakeLauncher(fine)
    app.run_points(POINTS, GridState(*finished), launcher, batch_size)
    assert launcher.got == got


def test_failed_and_lost_jobs_do_not_end_the_grid() -> None:
    answers = {
        "batch_size=2": failed,
        "batch_size=4": without_result,
        "batch_size=8": failing("batch_size=8"),
    }
    launcher, grid_state = (
        FakeLauncher(lambda name: answers.get(name, fine)(name)),
        GridState(),
    )
    app.run_points(POINTS, grid_state, launcher, 1)
    assert len(launcher.got) == 5
    lost = "the launcher failed: RuntimeError: batch_size=8 died"
    missing = "the job returned no result: None"
    assert grid_state.lost == [
        (["batch_size=2"], "it failed"),
        (["batch_size=4"], missing),
        (["batch_size=8"], lost),
    ]


def test_points_are_read_one_at_a_time_and_ctrl_c_ends_the_grid() -> None:
    def interrupted(name: str) -> JobReturn:
        raise KeyboardInterrupt

    points = iter(POINTS)
    with pytest.raises(KeyboardInterrupt):
        app.run_points(points, GridState(), FakeLauncher(interrupted), 1)
    assert next(points) == POINTS[1]


def test_after_an_error_of_the_launcher_unfinished_points_are_lost_and_not_launched_again() -> (
    None
):
    launcher, grid_state = FakeLauncher(failing("batch_size=4")), GridState()
    grid_state.finished_by_jobs = [["batch_size=1"]]
    app.run_points(POINTS[:3], grid_state, launcher, None)
    lost = "the launcher failed: RuntimeError: batch_size=4 died"
    assert grid_state.lost == [(["batch_size=2"], lost), (["batch_size=4"], lost)]
    assert len(launcher.got) == 1
