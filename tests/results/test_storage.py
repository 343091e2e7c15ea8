import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nws_sweep.errors import ConfigurationError, NotARunError
from nws_sweep.results import BatchTime, TrialState, WindowKind, storage
from nws_sweep.results.storage import Stored, select
from tests.factories import (
    failed_trial,
    search_result,
    store_grid,
    store_run,
    summary_of_grid,
    summary_of_run,
    trial,
    window,
)


def test_an_outdated_timings_csv_is_written_again(tmp_path: Path) -> None:
    complete = search_result(trial(0, 8.0), trial(2, 4.0))
    folder = store_run(tmp_path, complete)
    intact, written = (folder / "timings.csv").read_text(), (folder / "timings.csv").stat().st_mtime_ns
    storage.write_timings(folder, complete)
    assert (folder / "timings.csv").stat().st_mtime_ns == written  # unchanged
    (folder / "timings.csv").write_text(intact[:-40])
    storage.write_timings(folder, complete)
    assert (folder / "timings.csv").read_text() == intact


def test_timings_csv_has_a_row_per_trial_with_identifying_columns_and_empty_cells_for_none(tmp_path: Path) -> None:
    odd = failed_trial(4, 'ValueError: "a", b', TrialState.OUT_OF_MEMORY)
    folder = store_run(tmp_path, search_result(trial(2, 8.0, notes=("one", "two")), odd))
    lines = (folder / "timings.csv").read_text().splitlines()
    assert lines[0] == (
        "dataset,batch_size,pin_memory,prefetch_factor,patience,"
        "num_workers,startup_s,batch_s,batch_s_low,batch_s_high,samples_per_s,wait_s,step_s,stall_fraction,epoch_s,"
        "cpu_s,memory_bytes,shm_bytes,memory_growth_bytes,state,reason,windows,bias_bound,cache,disk_bytes,"
        "other_cpus,steal,throttled,outliers,cost_s,settings,notes"
    )
    measured, failed = csv.DictReader(lines)
    identity = {"dataset": "photos", "batch_size": "64", "pin_memory": "False", "patience": "3"}
    assert {name: text for name, text in measured.items() if text} == identity | {
        "num_workers": "2", "startup_s": "4.0", "batch_s": "0.0625", "batch_s_low": "0.046875",
        "batch_s_high": "0.09375", "samples_per_s": "1024.0", "wait_s": "0.046875", "step_s": "0.015625",
        "stall_fraction": "0.75", "epoch_s": "8.0", "state": "ok", "windows": "5", "bias_bound": "0.03125",
        "cache": "as_is", "disk_bytes": "0.0", "other_cpus": "0.125", "steal": "0.0", "throttled": "0.0",
        "outliers": "0", "cpu_s": "0.0078125", "memory_bytes": "1048576", "shm_bytes": "65536",
        "memory_growth_bytes": "1024.0", "cost_s": "1.5", "notes": "one; two",
    }  # fmt: skip
    assert {name: text for name, text in failed.items() if text} == identity | {
        "num_workers": "4", "state": "out_of_memory", "reason": 'ValueError: "a", b', "windows": "0", "cache": "as_is",
        "cost_s": "0.5",
    }  # fmt: skip


def test_batches_are_read_in_order_with_window_and_warm_up(tmp_path: Path) -> None:
    epoch = window(WindowKind.EPOCH, 1, startup_s=0.25, end_s=0.5)
    folder = store_run(tmp_path, search_result(trial(4, 8.0), failed_trial(1), trial(2, 8.0, windows=(epoch,))))
    assert storage.read_batches(folder) == [
        *(BatchTime(4, 0, index, True, 0.25 + index, 0.125) for index in range(2)),
        *(BatchTime(4, 1, 2 + index, False, 0.25 + index, 0.125) for index in range(3)),
        *(BatchTime(4, 2, 5 + index, False, 0.25 + index, 0.125) for index in range(3)),
        BatchTime(2, 0, 0, False, 0.25, 0.125),
    ]
    assert storage.read_batches(tmp_path) == []
    (folder / "batches.csv").write_text("damaged")
    with pytest.raises(NotARunError, match=r"batches\.csv: cannot be read"):
        storage.read_batches(folder)


def test_a_grid_is_found_with_its_configurations_in_the_order_of_measuring(tmp_path: Path) -> None:
    folder = store_grid(tmp_path, *(search_result(trial(0, 8.0), columns={"batch_size": n}) for n in (256, 128)))
    (folder / "plots").mkdir()
    stored = storage.find(folder)
    assert stored.is_grid
    assert [run.result.configuration.columns["batch_size"] for run in stored.runs] == [256, 128]
    assert [run.folder.parent for run in stored.runs] == [folder, folder]
    assert storage.find(stored.runs[0].folder).is_grid is False


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "/run: not a run or a grid of nws_sweep (no result.json in it or in a folder in it)"),
        ("{", "/run/result.json: cannot be read (JSONDecodeError("),
        (b"\xff", "/run/result.json: cannot be read (UnicodeDecodeError("),
        ('{"schema_version": 4}', "schema version 4, this program reads 5"),
    ],
)
def test_a_folder_without_readable_result_is_no_run(tmp_path: Path, content: str | bytes | None, message: str) -> None:
    with pytest.raises(NotARunError) as caught:
        storage.find(tmp_path / "gone")
    (tmp_path / "run").mkdir()
    if content is not None:
        (tmp_path / "run" / "result.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(NotARunError) as caught:
        storage.find(tmp_path / "run")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        (["axis/batch_size=wide"], "default"),
        (["axis/batch_size=wide", "pin_memory=true", "batch_size=64"], "batch_size=64,pin_memory=true"),
        (["pin_memory=False", "dataset.name=Truest", "seed=None"], "dataset.name=Truest,pin_memory=false,seed=none"),
        (["+training_step.ms=5", "~seed", "dataset.ids=[1,2]"], "+training_step.ms=5,dataset.ids=[1,2],~seed"),
    ],
)
def test_a_folder_is_named_after_its_sorted_overrides_without_presets(overrides: list[str], name: str) -> None:
    assert storage.folder_name(overrides) == name


def test_unsafe_characters_in_a_name_are_replaced_and_a_hash_is_added() -> None:
    plain, *names = (storage.folder_name([f"name={name}"]) for name in ("_x_", "<x>", '"x"'))
    assert (plain, len(set(names))) == ("name=_x_", 2)
    assert all(re.fullmatch(r"name=_x_-[0-9a-f]{8}", name) for name in names)


@pytest.mark.parametrize("letter", ["x", "大"])
def test_a_long_name_is_cut_and_stays_unique(tmp_path: Path, letter: str) -> None:
    names = {storage.folder_name([f"dataset.path={letter * 400}{end}"]) for end in "ab"}
    assert len(names) == 2
    for name in names:
        assert name.startswith(f"dataset.path={letter * 10}")
        (tmp_path / name).mkdir()


@pytest.mark.parametrize(
    ("points", "names"),
    [
        ([{}], ["run"]),
        ([{"dataset.length": 0.5, "pin_memory": True}], ["dataset.length-0.5--pin_memory-true"]),
        ([{"x": 1}, {"x": 1}, {"x": "1-2"}, {"x": 1}], ["x-1", "x-1-2", "x-1-2-2", "x-1-3"]),
        ([{"x": "a"}, {"x": "A"}], ["x-a", "x-A-2"]),
    ],
)
def test_options_have_distinct_names_with_their_values(points: list[dict[str, Any]], names: list[str]) -> None:
    assert storage.option_names(points) == names


def test_obsolete_options_are_removed_but_no_files_of_the_user(tmp_path: Path) -> None:
    group = tmp_path / "best"
    storage.write_options(group, {})
    assert not group.exists()
    storage.write_options(group, {"old": "num_workers: 1\n", "x-1": "num_workers: 2\n"})
    (group / "mine.yaml").write_text("num_workers: 3\n")
    storage.write_options(group, {"x-1": "num_workers: 4\n"})
    assert {path.name: path.read_text().splitlines()[-1] for path in group.iterdir()} == {
        "mine.yaml": "num_workers: 3",
        "x-1.yaml": "num_workers: 4",
    }


def test_results_are_found_at_any_depth_and_files_set_aside_are_reported(tmp_path: Path) -> None:
    assert not storage.holds_results(tmp_path)
    folder = store_run(tmp_path / "grid", search_result(trial(0, 8.0)))
    storage.set_aside(folder, storage.UNREADABLE)
    storage.save(folder, search_result(trial(0, 8.0)))
    assert storage.holds_results(tmp_path)
    assert [run.folder for run in storage.find(tmp_path).runs] == [folder]
    assert storage.find(tmp_path / "grid").set_aside == tuple(
        f"run/{name}.unreadable-1: could not be read, and was set aside"
        for name in ("batches.csv", "costs.csv", "result.json", "timings.csv")
    )


@pytest.mark.parametrize("name", ["../../etc/x", "/etc/hosts", "..", ".", ".hidden", "a\0b", "a\nb", "~root", "..\\x"])
def test_no_name_leaves_the_folder_or_is_hidden(tmp_path: Path, name: str) -> None:
    for text in (f"dataset={name}", name, f"batch_size={name}/{name}"):
        path = tmp_path / storage.folder_name([text])
        assert path.resolve().parent == path.parent == tmp_path
        assert not path.name.startswith(".")
        path.mkdir(exist_ok=True)
        (option,) = storage.option_names([{"dataset": text}])
        assert (tmp_path / f"{option}.yaml").resolve().parent == tmp_path
        assert re.fullmatch(r"[\w.-]+", option, re.ASCII)


POINTS: tuple[dict[str, Any], ...] = (
    {"batch_size": 64, "pin_memory": True},
    {"batch_size": 64, "pin_memory": False},
    {"batch_size": 256, "pin_memory": True, "prefetch_factor": 4},
)


def grid() -> Stored:
    return summary_of_grid(*(search_result(trial(0, 8.0), columns=point) for point in POINTS)).stored


@pytest.mark.parametrize(
    ("conditions", "points"),
    [
        ([], [0, 1, 2]),
        (["pin_memory=true"], [0, 2]),
        (["prefetch_factor=null"], [0, 1]),
        (["pin_memory=true", "batch_size=64"], [0]),
    ],
)
def test_configurations_with_all_values_are_selected(conditions: list[str], points: list[int]) -> None:
    stored = grid()
    assert [stored.runs.index(run) for run in select(stored, conditions).runs] == points


def test_a_selected_single_configuration_is_no_grid() -> None:
    assert select(grid(), ["batch_size=64"]).is_grid
    assert not select(grid(), ["batch_size=256"]).is_grid
    assert select(replace(grid(), runs=grid().runs[:1]), []).is_grid
    run = summary_of_run(search_result(trial(0, 8.0))).stored
    assert select(run, ["batch_size=64"]) == run


def test_a_value_may_contain_an_equals_sign_and_a_missing_value_is_not_null() -> None:
    stored = summary_of_grid(*(search_result(columns={"dataset.root": root}) for root in ("a=1", "a"))).stored
    assert select(stored, ["dataset.root=a=1"]).runs == stored.runs[:1]
    stored = summary_of_grid(search_result(), search_result(columns={"seed": None})).stored
    assert select(stored, ["seed=null"]).runs == stored.runs[1:]


@pytest.mark.parametrize(
    ("conditions", "line"),
    [
        (["batch_size=65"], "--where batch_size=65: allowed for batch_size: 64, 256"),
        (["batch_size=256", "pin_memory=false"],
         "--where batch_size=256 --where pin_memory=false: allowed for pin_memory: true"),
        (["bach_size=64"],
         "--where bach_size=64: there is no key bach_size; allowed: dataset (photos), batch_size (64, 256), "
         "pin_memory (true, false), prefetch_factor (null, 4), patience (3)"),
        (["batch_size"], "--where batch_size: allowed is KEY=VALUE, such as batch_size=64"),
        (["a\nb"], "--where a b: allowed is KEY=VALUE, such as batch_size=64"),
    ],
)  # fmt: skip
def test_conditions_without_a_match_are_an_error_with_the_allowed_values(conditions: list[str], line: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(line)}$"):
        select(grid(), conditions)
