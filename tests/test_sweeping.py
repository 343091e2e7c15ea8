"""Which jobs a launcher gets, and what becomes of those that come to no end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher

from nws_sweep import sweeping

POINTS = [[f"batch_size={size}"] for size in (1, 2, 4, 8, 16)]


class Ledger(sweeping.Ledger):
    def __init__(self, *finished: int) -> None:
        self.there = [[f"batch_size={size}"] for size in finished]
        self.lost: list[tuple[Sequence[str], str]] = []

    def finished(self, point: Sequence[str]) -> None:
        return None

    def passes(self, point: Sequence[str]) -> bool:
        return point in self.there

    def lose(self, point: Sequence[str], error: BaseException) -> None:
        self.lost.append((point, str(error)))


class FakeLauncher(Launcher):
    """Writes down what it gets; jobs of some points fail, a batch with others never comes to its end."""

    def __init__(self, failing: Sequence[str] = (), breaking: Sequence[str] = ()) -> None:
        self.failing, self.breaking = failing, breaking
        self.got: list[tuple[int, list[str]]] = []

    def setup(self, **_: Any) -> None: ...

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        texts = [" ".join(overrides) for overrides in job_overrides]
        self.got.append((initial_job_idx, texts))
        if set(texts) & set(self.breaking):
            raise OSError("no space left")
        return [self.returned(text) for text in texts]

    def returned(self, text: str) -> JobReturn:
        failed = text in self.failing
        value = ValueError(f"{text} failed") if failed else None
        return JobReturn(status=JobStatus.FAILED if failed else JobStatus.COMPLETED, _return_value=value)


def test_jobs_of_this_process_come_one_by_one_with_their_numbers() -> None:
    launcher = FakeLauncher()
    sweeping.run(POINTS, Ledger(), launcher, 1)
    assert launcher.got == [(number, point) for number, point in enumerate(POINTS)]


def test_what_is_finished_is_left_out_and_the_numbers_stay() -> None:
    launcher = FakeLauncher()
    sweeping.run(POINTS, Ledger(1, 4, 16), launcher, 1)
    assert launcher.got == [(1, ["batch_size=2"]), (3, ["batch_size=8"])]


def test_others_get_all_that_are_left_at_once_or_so_many_at_a_time() -> None:
    launcher = FakeLauncher()
    sweeping.run(POINTS, Ledger(1), launcher, None)
    assert launcher.got == [(1, ["batch_size=2", "batch_size=4", "batch_size=8", "batch_size=16"])]
    launcher = FakeLauncher()
    sweeping.run(POINTS, Ledger(), launcher, 2)
    assert [len(texts) for _, texts in launcher.got] == [2, 2, 1]


def test_a_job_that_fails_and_one_that_never_ends_do_not_end_the_grid() -> None:
    launcher, ledger = FakeLauncher(failing=["batch_size=2"], breaking=["batch_size=8"]), Ledger()
    sweeping.run(POINTS, ledger, launcher, 1)
    assert len(launcher.got) == 5
    assert ledger.lost == [(["batch_size=2"], "batch_size=2 failed"), (["batch_size=8"], "no space left")]


def test_points_are_taken_one_by_one() -> None:
    """Ten thousand of them are never there at once."""
    taken: list[int] = []

    def endless() -> Any:
        for number in range(10_000):
            taken.append(number)
            yield [f"seed={number}"]

    class Stopping(FakeLauncher):
        def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
            if initial_job_idx == 3:
                raise KeyboardInterrupt
            return super().launch(job_overrides, initial_job_idx)

    with pytest.raises(KeyboardInterrupt):
        sweeping.run(endless(), Ledger(), Stopping(), 1)
    assert taken == [0, 1, 2, 3]
