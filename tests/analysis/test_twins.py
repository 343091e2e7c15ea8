from typing import Any

import pytest

from nws_sweep.analysis import twins
from nws_sweep.records import SearchRecord
from tests.factories import loader_settings, search_result, steady, summary_of_grid


def point(batch_s: float, workers: int = 2, **columns: Any) -> SearchRecord:
    """An answer whose time per batch is within 10 %."""
    size, persist = columns.get("batch_size", 64), columns.get("persistent_workers")
    settings = loader_settings(
        workers, batch_size=size, persistent_workers=bool(persist)
    )
    return search_result(
        steady(workers, batch_s, 0.1, settings=settings), columns=columns
    )


@pytest.mark.parametrize(
    ("points", "labels"),
    [
        # within the intervals of each other
        ([point(1.0, pin_memory=True), point(1.1, pin_memory=False)], ["pin_memory true or false"]),
        ([point(1.0, pin_memory=True), point(1.3, pin_memory=False)], ["pin_memory=true", "pin_memory=false"]),
        ([point(1.0, 2, pin_memory=True), point(1.0, 4, pin_memory=False)], ["pin_memory=true", "pin_memory=false"]),
        # times of batches lack the start of workers
        ([point(1.0, persistent_workers=True), point(1.0, persistent_workers=False)],
         ["persistent_workers=true", "persistent_workers=false"]),
        # batches of other sizes are no twins
        ([point(1.0, batch_size=8), point(1.0, batch_size=16)], ["batch_size=8", "batch_size=16"]),
        ([point(1.0, dataset="a"), point(1.0, dataset="b")], ["dataset=a", "dataset=b"]),
        ([point(float(size), batch_size=size, pin_memory=pinned) for size in (1, 2) for pinned in (True, False)],
         ["batch_size=1, pin_memory true or false", "batch_size=2, pin_memory true or false"]),
    ],
)  # fmt: skip
def test_equal_answers_that_are_as_fast_are_a_row(
    points: list[SearchRecord], labels: list[str]
) -> None:
    found = summary_of_grid(*points)
    rows = twins.as_fast(found)
    assert [row.label(found.distinguishing) for row in rows] == labels


def test_twins_that_no_axes_describe_are_named_by_their_labels() -> None:
    found = summary_of_grid(
        *(
            search_result(
                steady(workers, 1.0), columns={"batch_size": size, "pin_memory": pinned}
            )
            for workers, size, pinned in (
                (2, 8, True), (4, 8, False), (2, 16, True), (2, 16, False), (2, 32, True),
            )
        )
    )  # fmt: skip
    first, second = twins.of_one_kind(found)
    assert first.label(found.distinguishing) == (
        "dataset=photos batch_size=8 pin_memory=true and 3 more"
    )
    assert second.label(found.distinguishing) == "batch_size=8, pin_memory=false"
