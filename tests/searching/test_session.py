from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from nws_sweep.records import SearchRecord
from nws_sweep.searching.session import Session
from nws_sweep.system import host_lock
from tests.factories import configuration, search_result, trial

START = search_result(configuration=configuration(), stop_reason="", verdict=None)
END = search_result(trial(0, 8.0), configuration=configuration())


class Store:
    """Notes what is stored; another process stores the result of the search while this
    one waits."""

    def __init__(self, events: list[str], stored: list[SearchRecord | None]) -> None:
        self._events, self._stored = events, stored

    def find(self, *_: object) -> SearchRecord | None:
        return self._stored.pop(0)

    def add(self, record: SearchRecord, folder: str) -> None:
        self._events.append("stored")


@pytest.mark.parametrize(
    ("stored", "events", "is_stored"),
    [
        ([None, None], ["locked", "measured", "stored", "released"], False),
        ([None, END], ["locked", "released"], True),
        ([END], [], True),
    ],
)
def test_a_result_is_stored_before_a_search_that_waits_looks_for_it(
    stored: list[SearchRecord | None],
    events: list[str],
    is_stored: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    happened: list[str] = []

    @contextmanager
    def held(*_: object) -> Iterator[None]:
        happened.append("locked")
        yield
        happened.append("released")

    def measure(start: SearchRecord) -> SearchRecord:
        happened.append("measured")
        return END

    monkeypatch.setattr(host_lock, "held", held)
    store: Any = Store(happened, stored)
    session = Session(store=store, reuse="fresh", lock_file="lock")
    assert session.run(START, measure, print, print) == (END, is_stored)
    assert happened == events
