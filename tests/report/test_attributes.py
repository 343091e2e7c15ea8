import copy
import pickle
from typing import Any

import pytest

from nws_sweep.report.attributes import SuggestsAttributes
from nws_sweep.report.search_result import SearchResult
from nws_sweep.report.sweep_result import SweepResult
from tests.factories import search_result, summary_of_run, trial

RECORD = search_result(trial(0, 8.0), trial(2, 4.0))
RESULT: Any = SearchResult(RECORD)
GRID: Any = SweepResult(summary_of_run(RECORD))


@pytest.mark.parametrize(
    ("result", "name", "meant"),
    [
        (RESULT, "best", "did you mean best_params?"),
        (RESULT, "best_num_workers", "did you mean num_workers?"),
        (RESULT, "to_pandas", "did you mean to_frame()?"),
        (RESULT, "xyzzy", "it has axes, best_params, "),
        (GRID, "num_workers", "did you mean best_params?"),
        (GRID, "df", "did you mean to_frame()?"),
    ],
)
def test_an_attribute_that_does_not_exist_is_an_error_with_what_was_meant(
    result: Any, name: str, meant: str
) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(result, name)
    expected = f"{type(result).__name__} has no attribute {name}; {meant}"
    assert str(raised.value).startswith(expected)
    assert raised.value.name == name  # else Python would add a suggestion


def test_an_item_is_an_error_with_the_attribute() -> None:
    with pytest.raises(
        TypeError, match=r"has attributes, no items; did you mean num_workers\?$"
    ):
        RESULT["num_workers"]


def test_protocols_do_not_meet_the_suggestions() -> None:
    for again in (copy.deepcopy(RESULT), pickle.loads(pickle.dumps(RESULT))):
        assert again.best_params == RESULT.best_params
    for name in ("_repr_png_", "__array__", "shape"):
        assert not hasattr(RESULT, name)


def test_the_error_of_a_property_stays() -> None:
    class Broken(SuggestsAttributes):
        @property
        def answer(self) -> Any:
            return RECORD.nothing  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'SearchRecord' object has no attribute"):
        _ = Broken().answer
