"""Pictures are drawn by two processes, and all of them arrive."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from nws_sweep import drawing, easels
from nws_sweep.illustrations import Illustration

NAMES = ["a", "b", "c", "d"]


def note(folder: Path, name: str) -> Figure:
    (folder / f"{name}.pid").write_text(str(os.getpid()))
    return drawing.sheet(1.0, name)


def pictures(folder: Path, names: list[str]) -> list[Illustration]:
    return [
        Illustration(name=name, title=name, alt=name, draw=lambda name=name: note(folder, name))  # type: ignore[misc]
        for name in names
    ]


def drawn_by(folder: Path, names: list[str]) -> list[int]:
    found = easels.save(pictures(folder, names), folder)
    assert found == [(folder / f"{name}.png", folder / f"{name}.svg") for name in names]
    assert all(path.is_file() for paths in found for path in paths)
    return [int((folder / f"{name}.pid").read_text()) for name in names]


def test_another_process_draws_every_second_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(easels, "usable_cpus", lambda: 2)
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # pytest-xdist has one of its own
    pids = drawn_by(tmp_path, NAMES)
    assert pids[0] == pids[2] == os.getpid() != pids[1] == pids[3]


@pytest.mark.parametrize("cpus", [1, 2])
def test_few_pictures_and_a_single_cpu_need_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: int
) -> None:
    monkeypatch.setattr(easels, "usable_cpus", lambda: cpus)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert set(drawn_by(tmp_path, NAMES[: 4 if cpus == 1 else 2])) == {os.getpid()}


def test_beside_threads_nothing_is_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(easels, "usable_cpus", lambda: 2)
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert set(drawn_by(tmp_path, NAMES)) == {os.getpid()}


def test_what_the_other_one_could_not_draw_is_drawn_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(easels, "usable_cpus", lambda: 2)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(easels, "_save_all", lambda chosen, folder: os._exit(3))
    assert set(drawn_by(tmp_path, NAMES)) == {os.getpid()}


def test_a_picture_that_cannot_be_drawn_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    broken = Illustration(name="x", title="x", alt="x", draw=lambda: (_ for _ in ()).throw(ValueError("no ink")))
    with pytest.raises(ValueError, match="no ink"):
        easels.save([*pictures(tmp_path, NAMES[:3]), broken], tmp_path)
