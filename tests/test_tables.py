from __future__ import annotations

import csv
import io

import pandas as pd
import pytest

from nws_sweep import storage, tables
from nws_sweep.analysis import Summary
from nws_sweep.tables import Rows
from tests.factories import (
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
    rules = search_rules((0, 2, 8), reference=8)
    columns = {"batch_size": 256, "dataset.sizes": [500, 375]}
    first = search_result(
        trial(8, 4.0),
        failed_trial(0),
        trial(2, 4.0625, settings=settings),
        configuration=configuration(columns, search=rules),
    )
    return summary_of_grid(first, search_result(columns={"batch_size": 64}, error="it, too", stop_reason=""))


def read_back(table: Rows) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text_of(table)))


def text_of(table: Rows) -> str:
    return storage.csv_text(table.columns, table.rows)


def test_trials_have_the_columns_of_their_configuration_first_and_those_of_timings_csv_next() -> None:
    assert list(tables.trials(grid()).columns) == [
        "dataset",
        "batch_size",
        "pin_memory",
        "prefetch_factor",
        "patience",
        "dataset.sizes",
        *storage.TIMING_COLUMNS,
    ]


def test_the_trials_of_all_configurations_are_rows_in_the_order_of_measuring() -> None:
    frame = read_back(tables.trials(summary_of_grid(
        search_result(trial(8, 4.0), failed_trial(0), columns={"batch_size": 256}),
        search_result(trial(1, 2.0), columns={"batch_size": 64}),
    )))  # fmt: skip
    assert frame[["batch_size", "num_workers", "state"]].to_numpy().tolist() == [
        [256, 8, "ok"],
        [256, 0, "failed"],
        [64, 1, "ok"],
    ]
    assert frame["epoch_s"].iloc[[0, 2]].tolist() == [4.0, 2.0]
    assert frame["epoch_s"].isna().tolist() == [False, True, False]


def test_integers_stay_integers_beside_empty_cells() -> None:
    found = summary_of_grid(
        search_result(trial(0, 8.0), columns={"prefetch_factor": None}),
        search_result(trial(0, 8.0), columns={"prefetch_factor": 4}),
    )
    text = text_of(tables.trials(found))
    frame = tables.trials(found).frame()
    assert frame["prefetch_factor"].dtype == "Int64"
    assert list(frame.columns) == text.splitlines()[0].split(",")
    assert [line.split(",")[:6] for line in text.splitlines()] == [
        ["dataset", "batch_size", "pin_memory", "prefetch_factor", "patience", "num_workers"],
        ["photos", "64", "False", "", "3", "0"],
        ["photos", "64", "False", "4", "3", "0"],
    ]
    best = list(csv.DictReader(io.StringIO(text_of(tables.best(grid())))))
    assert [(row["num_workers"], row["fastest_num_workers"]) for row in best] == [("2", "8"), ("", "")]


def test_times_are_written_with_all_their_digits() -> None:
    third = endless_trial(0, 1 / 3)
    frame = read_back(tables.trials(summary_of_grid(search_result(third))))
    assert frame["batch_s"].tolist() == [1 / 3]
    assert frame["epoch_s"].isna().tolist() == [True]


def test_a_list_among_the_columns_is_written_as_text() -> None:
    frame = read_back(tables.best(grid()))
    assert frame["dataset.sizes"].tolist()[0] == "[500, 375]"
    assert frame["dataset.sizes"].isna().tolist() == [False, True]


def test_the_best_have_the_columns_of_their_configuration_first_then_setting_times_and_gains() -> None:
    assert list(tables.best(grid()).columns) == [
        "dataset", "batch_size", "pin_memory", "prefetch_factor", "patience", "dataset.sizes",
        "num_workers", "persistent_workers",
        "startup_s", "batch_s", "batch_s_low", "batch_s_high", "samples_per_s", "stall_fraction", "epoch_s",
        "gain_over_zero", "gain_over_cpu_count", "fastest_num_workers", "limits", "stop_reason", "error",
    ]  # fmt: skip


def test_the_best_of_each_configuration_is_read_back_as_it_was_found() -> None:
    first, second = read_back(tables.best(grid())).to_dict("records")
    assert first["num_workers"] == 2
    assert first["persistent_workers"] is True
    assert first["epoch_s"] == 4.0625
    assert (first["batch_s_low"], first["batch_s_high"]) == (0.75 * 4.0625 / 128, 1.5 * 4.0625 / 128)
    assert first["gain_over_cpu_count"] == pytest.approx(4.0 / 4.0625)
    assert first["fastest_num_workers"] == 8
    assert pd.isna(first["gain_over_zero"])
    assert first["stop_reason"] == "all 4 candidates were measured"
    assert (second["batch_size"], second["error"]) == (64, "it, too")
    assert all(pd.isna(second[name]) for name in ("num_workers", "persistent_workers", "epoch_s", "stop_reason"))
