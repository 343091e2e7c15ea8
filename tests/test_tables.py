from __future__ import annotations

import io

import pandas as pd
import pytest

from nws_sweep import storage, tables
from nws_sweep.analysis import Summary
from nws_sweep.tables import Rows
from tests.factories import (
    COLUMNS,
    configuration,
    endless_trial,
    failed_trial,
    loader_settings,
    search_result,
    search_rules,
    summary_of_grid,
    trial,
)


def grid() -> Summary:
    """One configuration with a failed trial, one that has nothing, and a column that only the first one has."""
    settings = loader_settings(2, persistent_workers=True)
    columns = {"batch_size": 256, "dataset.sizes": [500, 375]}
    searched = configuration(columns, search=search_rules((0, 2, 8), reference=8))
    trials = trial(8, 4.0), failed_trial(0), trial(2, 4.0625, settings=settings)
    first = search_result(*trials, configuration=searched)
    return summary_of_grid(first, search_result(columns={"batch_size": 64}, error="it, too", stop_reason=""))


def text_of(table: Rows) -> str:
    return storage.csv_text(table.columns, table.rows)


def read_back(table: Rows) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text_of(table)))


def test_the_trials_of_all_configurations_are_rows_in_the_order_of_measuring_with_all_digits() -> None:
    found = summary_of_grid(
        search_result(trial(8, 4.0), failed_trial(0), columns={"batch_size": 256}),
        search_result(endless_trial(1, 1 / 3), columns={"batch_size": 64}),
    )
    table = tables.trials(found)
    assert table.columns == (*COLUMNS, *storage.TIMING_COLUMNS)
    frame = read_back(table)
    rows = frame[["batch_size", "num_workers", "state"]].to_numpy().tolist()
    assert rows == [[256, 8, "ok"], [256, 0, "failed"], [64, 1, "ok"]]
    assert frame["epoch_s"].isna().tolist() == [False, True, True]
    assert (frame["epoch_s"][0], frame["batch_s"][2]) == (4.0, 1 / 3)
    # Integers stay integers beside empty cells.
    mixed = summary_of_grid(*(search_result(trial(0, 8.0), columns={"prefetch_factor": n}) for n in (None, 4)))
    assert tables.trials(mixed).frame()["prefetch_factor"].dtype == "Int64"
    rows = [line.split(",")[1:6] for line in text_of(tables.trials(mixed)).splitlines()[1:]]
    assert rows == [["64", "False", "", "3", "0"], ["64", "False", "4", "3", "0"]]


def test_the_best_of_each_configuration_is_read_back_as_it_was_found() -> None:
    first, second = read_back(tables.best(grid())).to_dict("records")
    assert list(first)[: len(COLUMNS) + 2] == [*COLUMNS, "dataset.sizes", "num_workers"]
    expected = {
        "num_workers": 2,
        "persistent_workers": True,
        "epoch_s": 4.0625,
        "batch_s_low": 0.75 * 4.0625 / 128,
        "batch_s_high": 1.5 * 4.0625 / 128,
        "gain_over_cpu_count": pytest.approx(4.0 / 4.0625),
        "fastest_num_workers": 8,
        "stop_reason": "all 4 candidates were measured",
        "dataset.sizes": "[500, 375]",
    }
    assert {name: first[name] for name in expected} == expected
    assert pd.isna(first["gain_over_zero"])
    assert (second["batch_size"], second["error"]) == (64, "it, too")
    empty = ("num_workers", "persistent_workers", "epoch_s", "stop_reason", "dataset.sizes")
    assert all(pd.isna(second[name]) for name in empty)
