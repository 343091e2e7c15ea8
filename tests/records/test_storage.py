import csv
import io
import shutil
from pathlib import Path

import pandas as pd
import pytest

from nws_sweep.errors import NotARunError
from nws_sweep.records import BatchTime, TrialState, WindowKind, atomic, codec, storage
from tests.factories import (
    failed_trial,
    loader_settings,
    search_result,
    store_grid,
    store_run,
    trial,
    window,
)


def test_timings_csv_has_a_row_for_each_trial_whose_undefined_cells_are_empty(
    tmp_path: Path,
) -> None:
    odd = failed_trial(4, 'ValueError: "a", b', TrialState.OUT_OF_MEMORY)
    folder = store_run(
        tmp_path, search_result(trial(2, 8.0, notes=("one", "two")), odd)
    )
    lines = (folder / "timings.csv").read_text().splitlines()
    assert lines[0] == (
        "dataset,batch_size,pin_memory,prefetch_factor,patience,"
        "num_workers,startup_s,batch_s,batch_s_low,batch_s_high,samples_per_s,wait_s,step_s,stall_fraction,epoch_s,"
        "first_epoch_s,cpu_s,memory_bytes,shm_bytes,memory_growth_bytes,state,reason,windows,bias_bound,cache,disk_bytes,"
        "other_cpus,steal,throttled,cost_s,settings,notes"
    )
    measured, failed = csv.DictReader(lines)
    identity = {
        "dataset": "photos",
        "batch_size": "64",
        "pin_memory": "False",
        "patience": "3",
    }
    assert {name: text for name, text in measured.items() if text} == identity | {
        "num_workers": "2", "startup_s": "4.0", "batch_s": "0.0625", "batch_s_low": "0.046875",
        "batch_s_high": "0.09375", "samples_per_s": "1024.0", "wait_s": "0.046875", "step_s": "0.015625",
        "stall_fraction": "0.75", "epoch_s": "8.0", "state": "ok", "windows": "5", "bias_bound": "0.03125",
        "cache": "auto", "disk_bytes": "0.0", "other_cpus": "0.125", "steal": "0.0", "throttled": "0.0",
        "cpu_s": "0.0078125", "memory_bytes": "1048576", "shm_bytes": "65536",
        "memory_growth_bytes": "1024.0", "cost_s": "1.5", "notes": "one; two",
    }  # fmt: skip
    assert {name: text for name, text in failed.items() if text} == identity | {
        "num_workers": "4", "state": "out_of_memory", "reason": 'ValueError: "a", b', "windows": "0", "cache": "auto",
        "cost_s": "0.5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        *((start + "cmd|' /C calc'!A0", f"'{start}cmd|' /C calc'!A0") for start in "=+-@\t"),
        *((text, text) for text in ("-5", "+1e3", "a=b", "two\nlines")), ("\x1b[31m\rnew,row", "\\x1b[31m\\rnew,row"),
    ],
)  # fmt: skip
def test_no_cell_is_a_formula_and_pandas_reads_it_back(text: str, cell: str) -> None:
    row = {text: 1, "reason": text, "memory_growth_bytes": -5.5}
    frame = pd.read_csv(
        io.StringIO(codec.table_text(row, [row])), dtype={"reason": str}
    )
    assert frame.to_dict("records") == [
        {cell: 1, "reason": cell, "memory_growth_bytes": -5.5}
    ]


def test_batches_are_read_in_order_with_window_and_warm_up(tmp_path: Path) -> None:
    epoch = window(WindowKind.EPOCH, 1, startup_s=0.25, end_s=0.5)
    other = trial(
        2, 8.0, windows=(epoch,), settings=loader_settings(2, prefetch_factor=4)
    )
    folder = store_run(tmp_path, search_result(trial(4, 8.0), failed_trial(1), other))
    assert storage.read_batches(folder) == [
        *(BatchTime(4, 0, index, True, 0.25 + index, 0.125) for index in range(2)),
        *(BatchTime(4, 1, 2 + index, False, 0.25 + index, 0.125) for index in range(3)),
        *(BatchTime(4, 2, 5 + index, False, 0.25 + index, 0.125) for index in range(3)),
        BatchTime(2, 0, 0, False, 0.25, 0.125, "prefetch_factor=4"),
    ]
    assert storage.read_batches(tmp_path) == []
    (folder / "batches.csv").write_text("damaged")
    with pytest.raises(NotARunError, match=r"batches\.csv: cannot be read"):
        storage.read_batches(folder)


def test_a_grid_is_found_in_the_order_of_measuring_with_a_line_for_an_unreadable_result(
    tmp_path: Path,
) -> None:
    folder = store_grid(
        tmp_path,
        *(search_result(trial(0, 8.0), columns={"batch_size": n}) for n in (256, 128)),
    )
    damaged = folder / "plots" / "result.json"
    damaged.parent.mkdir()
    damaged.write_text('{"schema_version": 1, "conf')
    stored = storage.find(folder)
    assert stored.is_grid
    (line,) = stored.unreadable
    assert line.startswith(f"{damaged}: cannot be read (")
    assert [run.result.configuration.columns["batch_size"] for run in stored.runs] == [
        256,
        128,
    ]
    assert [run.folder.parent for run in stored.runs] == [folder, folder]
    assert storage.find(stored.runs[0].folder).is_grid is False


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            None,
            "/run: not a run or a grid of nws_sweep (no result.json in it or in a folder in it)",
        ),
        ("{", "/run/result.json: cannot be read (DecodeError("),
        (b"\xff", "/run/result.json: cannot be read (UnicodeDecodeError("),
        ('{"schema_version": 4}', "schema version 4, this program reads 6"),
    ],
)
def test_a_folder_without_readable_result_is_no_run(
    tmp_path: Path, content: str | bytes | None, message: str
) -> None:
    with pytest.raises(NotARunError) as caught:
        storage.find(tmp_path / "gone")
    (tmp_path / "run").mkdir()
    if content is not None:
        (tmp_path / "run" / "result.json").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
    with pytest.raises(NotARunError) as caught:
        storage.find(tmp_path / "run")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_results_are_found_at_any_depth_and_files_set_aside_are_reported(
    tmp_path: Path,
) -> None:
    assert not storage.holds_results(tmp_path)
    folder = store_run(tmp_path / "grid", search_result(trial(0, 8.0)))
    for _ in range(2):
        storage.set_aside(folder, storage.UNREADABLE)
        storage.save(folder, search_result(trial(0, 8.0)))
    assert storage.holds_results(tmp_path)
    assert [run.folder for run in storage.find(tmp_path).runs] == [folder]
    assert storage.find(tmp_path / "grid").set_aside == tuple(
        f"run/{name}.unreadable-{number}: could not be read, and was set aside"
        for name in ("batches.csv", "costs.csv", "result.json", "timings.csv")
        for number in (1, 2)
    )


def test_a_folder_that_is_removed_while_it_is_written_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, names, write_text = tmp_path / "run", list[str](), atomic.write_text

    def removed_once(path: Path, text: str, *, durable: bool = False) -> None:
        names.append(path.name)
        if names == [storage.TIMINGS, storage.BATCHES, storage.COSTS]:
            shutil.rmtree(folder)
        write_text(path, text, durable=durable)

    monkeypatch.setattr(atomic, "write_text", removed_once)
    storage.save(folder, search_result(trial(1, 10.0)))
    assert {*names} == {path.name for path in folder.iterdir()}
    assert len(storage.load(folder).result.trials) == 1


def test_folders_of_one_second_differ(tmp_path: Path) -> None:
    assert storage.new_folder("runs", "_mine", tmp_path) != storage.new_folder(
        "runs", "_mine", tmp_path
    )
