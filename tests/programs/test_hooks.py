"""Which DataLoader of a program is meant, and how a hook ends; nothing is measured."""

import contextlib
import functools
import gc
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, SubsetRandomSampler

import nws_sweep.api
from nws_sweep.dataloading.loaders import KeptIterator
from nws_sweep.errors import ConfigurationError, UnpicklableError
from nws_sweep.programs.program_hook import ProgramHook, Reporting, SearchEnded
from nws_sweep.programs.search_hook import SearchHook
from nws_sweep.programs.tuning_hook import TrainerHook, TuningHook
from nws_sweep.records import SearchRecord
from nws_sweep.system.processes import Interrupted
from nws_sweep.trials import forking
from tests.user_datasets import Endless, Plain, With, validation_and_training


class Told:
    """What a hook has said and kept."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.kept: list[SearchRecord] = []
        say = self.lines.append
        self.reporting = Reporting(
            announce=say,
            warn=say,
            keep=self.kept.append,
            progress=False,
            option="--loader ",
        )


NONE_SEEN = (
    "train.py ended without iterating over a torch DataLoader in this process: fastai's, and those of processes that "
    "it starts, are not followed"
)


@pytest.fixture
def told() -> Told:
    return Told()


def run(hook: ProgramHook, program: Callable[[], Any]) -> int | None:
    """The exit status with which the program was ended; None if it has ended by
    itself."""
    before = DataLoader._get_iterator
    hook.start()
    try:
        program()
    except SearchEnded as ending:
        return int(ending.code or 0)
    finally:
        hook.end("train.py")
        assert DataLoader._get_iterator is before
    return None


def test_a_search_ends_the_program_at_the_first_batch_of_its_training(
    told: Told, searched: list[Any]
) -> None:
    validation, training = validation_and_training()
    reached: list[Any] = []

    def program() -> None:
        with torch.no_grad():
            reached.append(len(list(validation)))
            reached.append(len(list(DataLoader(Plain(3), shuffle=True))))
        reached.append(len(list(validation)))
        iterator = iter(training)
        reached.append("iter")
        next(iterator)
        reached.append("next")

    keep = told.reporting.keep
    # a candidate failed
    reporting = replace(told.reporting, keep=lambda record: keep(record) or 1)
    assert run(SearchHook(reporting, None), program) == 1
    assert reached == [8, 3, 8, "iter"]
    assert searched == [training]
    assert [record.trials[1].num_workers for record in told.kept] == [2]
    assert len(list(training)) == 8


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (KeyboardInterrupt(), 130, "the search was interrupted"),
        (Interrupted(signal.SIGTERM), 143, "the search was interrupted by SIGTERM"),
    ],
)
def test_a_search_that_is_not_possible_ends_the_program(
    told: Told,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
    line: str,
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(nws_sweep.api, "search", fails)
    _, training = validation_and_training()
    assert run(SearchHook(told.reporting, None), lambda: list(training)) == status
    assert [text[: len(line)] for text in told.lines] == [line]


@pytest.mark.parametrize(
    ("workers", "cause"),
    [
        (
            "fork",
            "no pickle, and forking the program instead is unsafe: thread 7 (beat)",
        ),
        ("spawn", "no pickle"),
    ],
)
def test_a_loader_that_can_neither_be_pickled_nor_forked_ends_the_program_with_the_reason(
    told: Told, monkeypatch: pytest.MonkeyPatch, workers: str, cause: str
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise UnpicklableError("no pickle", "pass a function")

    monkeypatch.setattr(nws_sweep.api, "search", fails)
    monkeypatch.setattr(forking, "obstacle_in_program", lambda: "thread 7 (beat)")
    loader = DataLoader(
        Plain(8), shuffle=True, num_workers=1, multiprocessing_context=workers
    )
    assert run(SearchHook(told.reporting, None), lambda: list(loader)) == 1
    (line,) = told.lines
    assert line.startswith(f"the search failed: {cause}; in the program, open files")


def test_a_search_in_a_thread_ends_the_program_that_waits_for_its_batches(
    told: Told, searched: list[Any]
) -> None:
    """As a loader that reads ahead in a thread does."""
    _, training = validation_and_training()
    batches: queue.Queue[Any] = queue.Queue()
    too_late = threading.Timer(30, batches.put, [None])

    def read_ahead() -> None:
        time.sleep(0.2)  # the program waits already
        with contextlib.suppress(SearchEnded):
            batches.put(list(training))

    def program() -> None:
        for thread in (too_late, threading.Thread(target=read_ahead)):
            thread.start()
        batches.get()

    with pytest.raises(KeyboardInterrupt):
        run(SearchHook(told.reporting, None), program)
    assert too_late.is_alive()
    too_late.cancel()
    assert searched == [training]


def test_a_loader_that_keeps_its_iterator_is_searched_without_it(
    told: Told, searched: list[Any]
) -> None:
    assert (
        run(
            SearchHook(told.reporting, None),
            lambda: list(Endless(Plain(8), shuffle=True)),
        )
        == 0
    )
    assert [type(loader.iterator) for loader in searched] == [KeptIterator]


@pytest.mark.parametrize(("wanted", "index"), [(1, 0), (2, 1), ("Plain", 0)])
def test_a_loader_may_be_named(
    told: Told, searched: list[Any], wanted: int | str, index: int
) -> None:
    both = validation_and_training()

    def program() -> None:
        for loader in (*both, both[0]):
            list(loader)

    assert run(SearchHook(told.reporting, wanted), program) == 0
    assert searched == [both[index]]


@pytest.mark.parametrize(
    ("wanted", "program", "lines"),
    [
        (None, lambda: None, [NONE_SEEN]),
        ("MNIST", lambda: list(validation_and_training()[0]), [
            "train.py ended without iterating over a DataLoader of the class or number MNIST, but over "
            "DataLoader 1 (Plain)",
        ]),
        (None, lambda: list(validation_and_training()[0]), [
            "DataLoader 1 (Plain) is not searched: its order is fixed; --loader 1 searches it",
            "train.py ended without iterating over the DataLoader to search; nothing was searched",
        ]),
    ],
)  # fmt: skip
def test_a_program_without_a_training_ends_with_a_line(
    told: Told, wanted: str | None, program: Callable[[], Any], lines: list[str]
) -> None:
    hook = SearchHook(told.reporting, wanted)
    assert run(hook, program) is None
    assert hook.status == 1
    assert told.lines == lines
    assert told.kept == []


def test_a_forked_process_and_other_ranks_need_no_search(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exit status of 1 would make torchrun end the first rank, which searches."""
    hook = SearchHook(told.reporting, None)
    with monkeypatch.context() as rank:
        rank.setenv("RANK", "1")
        assert hook.status == 0
    monkeypatch.setattr(hook, "_made_in", -1)
    assert hook.status == 0


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (
            lambda told: SearchHook(told, 0),
            "loader=0: must be null, an integer of at least 1, or the name of",
        ),
        (lambda told: TuningHook(told, "a b"), "loader='a b': must be"),
        (
            lambda told: TuningHook(told, None, reuse="often"),
            "reuse='often': must be never or fresh or always",
        ),
        (lambda told: SearchHook(told, True), "loader=True: must be"),
        (
            lambda told: SearchHook(told, None, strategy="fast"),
            "strategy='fast': must be adaptive or",
        ),
        (
            lambda told: TuningHook(told, None, settings=["pin_memory"]),
            "settings=\\['pin_memory'\\]: must be",
        ),
    ],
)
def test_a_wrong_option_is_refused_before_the_program_begins(
    told: Told, make: Callable[[Reporting], ProgramHook], line: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{line}"):
        make(told.reporting)


@pytest.mark.parametrize("make", [Plain, lambda length: list(range(length))])
def test_datasets_that_are_made_for_one_epoch_each_share_a_tuner_and_are_not_kept(
    told: Told, make: Callable[[int], Any]
) -> None:
    """One that was kept would not be taken for one that is gone."""
    hook = TuningHook(told.reporting, None, reuse="never")

    def program() -> None:
        validation = DataLoader(Plain(6), batch_size=2)
        for _ in range(3):
            loader = DataLoader(make(8), batch_size=2, shuffle=True)
            assert [len(list(each)) for each in (loader, validation)] == [4, 3]
            del loader
            gc.collect()

    run(hook, program)
    assert [
        (one.number, one.tuner.epoch, one.tuner.batches) for one in hook._followed
    ] == [(1, 2, 12), (2, 2, 9)]


def test_parts_of_one_dataset_that_are_in_use_together_have_a_tuner_each(
    told: Told,
) -> None:
    dataset = Plain(10)
    parts = [
        DataLoader(dataset, sampler=SubsetRandomSampler(range(*ends)))
        for ends in ((0, 7), (7, 10))
    ]
    hook = TuningHook(told.reporting, None, reuse="never")
    run(hook, lambda: [len(list(part)) for _ in range(2) for part in parts])
    assert [(one.tuner.epoch, one.tuner.batches) for one in hook._followed] == [
        (1, 14),
        (1, 6),
    ]


def test_of_several_trainings_the_longest_is_tuned_and_the_others_are_named(
    told: Told,
) -> None:
    short, long = (
        DataLoader(kind(length), shuffle=True)
        for kind, length in ((Plain, 4), (With, 40))
    )

    def program() -> None:
        with torch.no_grad():
            list(DataLoader(Plain(90)))
        for loader in (short, long):
            list(loader)

    run(TuningHook(told.reporting, None, reuse="never"), program)
    assert [record.configuration.columns["dataset"] for record in told.kept] == ["With"]
    taken = "DataLoader 3 (With) was taken as the training DataLoader, not DataLoader 2 (Plain)"
    assert told.lines == [f"{taken}; --loader 2 chooses another"]
    run(TuningHook(told.reporting, 2, reuse="never"), program)
    assert told.kept[1].configuration.columns["dataset"] == "Plain"


class Slow(Plain):
    def __getitem__(self, index: int) -> Any:
        time.sleep(0.005)
        return super().__getitem__(index)


def test_two_loaders_in_turn_are_both_tuned_and_a_validation_is_not(told: Told) -> None:
    first, second, validation = (
        DataLoader(data, shuffle=True) for data in (Slow(8), Plain(9), Plain(5))
    )
    hook = TuningHook(told.reporting, None, reuse="never")

    def program() -> None:
        pairs = zip(first, second, strict=False)
        next(pairs)
        list(validation)
        list(pairs)

    run(hook, program)
    assert [hook._is_training(followed.tuner) for followed in hook._followed] == [
        True,
        True,
        False,
    ]
    taken = "DataLoader 1 (Slow) was taken as the training DataLoader, not DataLoader 3 (Plain)"
    assert told.lines == [f"{taken}; --loader 3 chooses another"]


def _in_turn(first: DataLoader[Any], second: DataLoader[Any]) -> Iterator[Any]:
    yield from zip(first, second, strict=True)


def test_of_loaders_in_turn_the_slowest_is_selected(told: Told) -> None:
    fast, slow = (DataLoader(dataset, shuffle=True) for dataset in (Plain(8), Slow(8)))
    for first, second in ((fast, slow), (slow, fast)):
        hook = TuningHook(told.reporting, None, reuse="never")
        run(hook, functools.partial(list, _in_turn(first, second)))
        assert hook._training
        assert hook._training.latest() is slow


def test_nothing_to_tune_is_a_line(told: Told) -> None:
    run(TuningHook(told.reporting, None), lambda: None)
    assert told.lines == [NONE_SEEN]
    run(
        TuningHook(told.reporting, "MNIST", reuse="never"),
        lambda: list(DataLoader(Plain(4))),
    )
    wanted = "of the class or number MNIST, but over DataLoader 1 (Plain)"
    assert told.lines[1:] == [
        f"train.py ended without iterating over a DataLoader {wanted}"
    ]


def test_an_answer_that_cannot_be_kept_is_a_line_and_the_program_goes_on(
    told: Told,
) -> None:
    def keep(_: SearchRecord) -> None:
        raise PermissionError("no such folder")

    hook = TuningHook(replace(told.reporting, keep=keep), None, reuse="never")
    run(hook, lambda: list(DataLoader(Plain(8), shuffle=True)))
    assert told.lines == ["PermissionError: no such folder"]


def test_a_forked_process_has_its_own_iterators_and_says_nothing(
    told: Told, monkeypatch: pytest.MonkeyPatch, searched: list[Any]
) -> None:
    hook = SearchHook(told.reporting, None)
    hook.start()
    with monkeypatch.context() as child:
        child.setattr(hook, "_process", -1)
        assert len(list(DataLoader(Plain(8), shuffle=True))) == 8
        hook.end("train.py")
    assert (searched, told.lines) == ([], [])
    hook.end("train.py")


def test_a_loader_that_the_program_tunes_itself_is_searched_as_it_was_and_else_left_alone(
    told: Told, searched: list[Any]
) -> None:
    made = nws_sweep.autotune(
        DataLoader(Plain(8), shuffle=True), reuse=False, progress=False
    )
    assert run(SearchHook(told.reporting, None), lambda: list(made)) == 0
    assert searched == [made]
    run(TuningHook(told.reporting, None), lambda: list(made))
    assert told.lines == ["train.py has tuned its DataLoader itself"]


def test_hooks_may_be_nested(told: Told) -> None:
    outer, inner = (TuningHook(told.reporting, None, reuse="never") for _ in range(2))

    def program() -> None:
        inner.start()
        list(DataLoader(Plain(8), shuffle=True))
        inner.end("training")

    run(outer, program)
    assert "__init_subclass__" not in vars(DataLoader)


def test_the_hook_of_a_trainer_ends_an_earlier_one_and_takes_one_name() -> None:
    with pytest.raises(TypeError, match="speed"):
        TrainerHook(speed=2)
    before = DataLoader._get_iterator
    hook = TrainerHook(settings="prefetch_factor", progress=False)
    hook.begin()
    hook.begin()  # the first training has ended by an exception
    hook.end()
    assert DataLoader._get_iterator is before
