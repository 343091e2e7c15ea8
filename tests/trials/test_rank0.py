"""All ranks of a program get the result of rank 0."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn
from torch.utils.data import DataLoader, DistributedSampler

import nws_sweep
from nws_sweep.errors import NwsSweepError, OutOfTime
from nws_sweep.records import MeasureRules
from nws_sweep.system import streams
from nws_sweep.trials import rank0


def joined(monkeypatch: pytest.MonkeyPatch, rank: int, sent: list[Any]) -> Mock:
    """Simulates torch.distributed for one rank of two; ``sent`` holds the broadcast of
    rank 0."""

    def broadcast(values: list[Any], src: int, group: str) -> None:
        assert (src, group) == (0, "group")
        if rank == 0:
            sent[:] = values
        else:
            values[:] = sent

    group = Mock(broadcast_object_list=broadcast)
    group.get_rank.return_value, group.get_world_size.return_value = rank, 2
    group.new_group.return_value = "group"
    monkeypatch.setattr(rank0, "_initialised", lambda: group)
    return group


def never() -> int:
    raise AssertionError("only rank 0 works")


def test_rank_0_runs_the_search_and_all_ranks_get_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert rank0.run_on_rank0(lambda: 3) == 3  # alone
    sent: list[Any] = []
    first = joined(monkeypatch, 0, sent)
    assert rank0.run_on_rank0(lambda: 3) == 3
    second = joined(monkeypatch, 1, sent)
    assert rank0.run_on_rank0(never) == 3
    for group in (first, second):
        group.destroy_process_group.assert_called_once_with("group")
        group.new_group.assert_called_once_with(
            backend="gloo", timeout=timedelta(days=7)
        )


@pytest.mark.parametrize(
    ("error", "elsewhere"),
    [
        (
            NwsSweepError("no room"),
            NwsSweepError("the search failed on rank 0: no room"),
        ),
        (
            KeyboardInterrupt(),
            NwsSweepError("the search failed on rank 0: KeyboardInterrupt"),
        ),
        (OutOfTime("10 s were spent"), OutOfTime("10 s were spent")),
    ],
)
def test_all_ranks_raise(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, elsewhere: NwsSweepError
) -> None:
    def fail() -> int:
        raise error

    sent: list[Any] = []
    joined(monkeypatch, 0, sent)
    with pytest.raises(type(error)):
        rank0.run_on_rank0(fail)
    joined(monkeypatch, 1, sent)
    with pytest.raises(NwsSweepError) as caught:
        rank0.run_on_rank0(never)
    assert repr(caught.value) == repr(elsewhere)


def test_a_waiting_rank_prints_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rank0, "_NOTICE_AFTER_S", 0.01)
    group, printed = joined(monkeypatch, 0, []), threading.Event()

    print_line = streams.print_line

    def print_and_set(line: str) -> None:
        print_line(line)
        printed.set()

    monkeypatch.setattr(streams, "print_line", print_and_set)
    group.new_group = lambda **how: printed.wait(60) and "group"
    assert rank0.run_on_rank0(lambda: 3) == 3
    line = "nws_sweep: rank 0 is waiting for the other ranks: all 2 ranks must call search or tune\n"
    assert capsys.readouterr().err == line


def tune(rank: int, folder: str) -> None:
    """One of two ranks."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    data: Any = range(200)
    loader = DataLoader(
        data, batch_size=10, sampler=DistributedSampler(data, shuffle=False)
    )
    rules = MeasureRules(window_s=0.05, trial_limit_s=0.5)
    tuned = nws_sweep.tune(loader, num_workers=[0, 2], measure=rules, progress=False)
    assert torch.cat(list(tuned)).tolist() == list(range(rank, 200, 2))
    Path(folder, str(rank)).write_text(str(tuned.num_workers))
    distributed.destroy_process_group()


@pytest.mark.extended
@pytest.mark.usefixtures("own_folders")
def test_the_ranks_of_a_real_program_get_the_same_loader(tmp_path: Path) -> None:
    spawn(tune, (str(tmp_path),), 2)
    assert (tmp_path / "0").read_text() == (tmp_path / "1").read_text()
