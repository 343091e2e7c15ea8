"""Open files and connections that forked workers would share."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nws_sweep import handles

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells")


class Holding:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(10_000))
    return path


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def found(before: dict[int, str], dataset: object) -> tuple[str, ...]:
    new = [path for number, path in handles.open_files().items() if number not in before]
    return handles.in_words(new, dataset)


def test_files_are_named_by_the_attribute_that_holds_them(path: Path, stack: contextlib.ExitStack) -> None:
    before = handles.open_files()
    binary, text = stack.enter_context(path.open("rb")), stack.enter_context(path.open())
    dataset = Holding(parts=[Holding(file=binary)], index=text)
    assert found(before, dataset) == (
        f"dataset.parts[0].file (BufferedReader of {path})",
        f"dataset.index (TextIOWrapper of {path})",
    )
    assert found(before, Holding()) == (f"the open file {path}",)  # it is somewhere else


def test_databases_are_known_by_their_kind(path: Path, stack: contextlib.ExitStack) -> None:
    connection = stack.enter_context(contextlib.closing(sqlite3.connect(path.with_suffix(".db"))))
    assert handles.in_words((), Holding(table=connection)) == ("dataset.table (sqlite3.Connection)",)


def test_what_processes_can_share_is_left_out(path: Path, stack: contextlib.ExitStack) -> None:
    before = handles.open_files()
    mapped = np.memmap(path, mode="r")
    log = stack.enter_context(path.with_suffix(".log").open("a"))
    closed = path.open("rb")
    closed.close()
    assert found(before, Holding(mapped=mapped, closed=closed, array=np.zeros(3))) == ()
    assert log.writable()


def test_a_position_is_that_of_the_next_read(path: Path, stack: contextlib.ExitStack) -> None:
    before = handles.open_files()
    file = stack.enter_context(path.open("rb", buffering=0))
    (number,) = handles.open_files().keys() - before.keys()
    files = {number: str(path)}
    assert handles.positions(files) == {number: 0}
    file.seek(123)
    assert handles.positions(files) == {number: 123}
    file.close()
    assert handles.positions(files) == {}
