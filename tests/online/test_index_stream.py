"""Index lists that are drawn ahead, of samplers that wait for the training loop."""

import contextlib
import itertools
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

from nws_sweep.online import index_stream
from nws_sweep.online.index_stream import GivenUpError, IndexStream
from tests.conftest import becomes
from tests.online.test_iterator import Items, scripted

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.usefixtures("forked_workers"),
]


class Told(Sampler[int]):
    """Gives the numbers that it has been told; waits for them; the last one is None."""

    def __init__(self, *numbers: int | None) -> None:
        self.numbers: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        for number in numbers:
            self.numbers.put(number)

    def __iter__(self) -> Iterator[int]:
        while (number := self.numbers.get()) is not None:
            yield number


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_stream, "_PATIENCE_S", 0.05)


def begun(sampler: Any, due: int = 0) -> IndexStream:
    stream = IndexStream(sampler)
    stream.begin()
    stream.due = due
    return stream


@pytest.mark.usefixtures("impatient")
def test_a_list_that_takes_too_long_ahead_is_given_up_and_is_the_next_one() -> None:
    sampler = Told(0, 1)
    stream = begun(sampler, due=1)
    assert [stream.draw(), stream.draw()] == [0, 1]
    with pytest.raises(GivenUpError):
        stream.draw()
    assert stream.was_given_up
    for number in (2, 3, None):
        sampler.numbers.put(number)
    stream.due = 4
    assert [stream.draw(), stream.draw()] == [2, 3]
    with pytest.raises(StopIteration):
        stream.draw()


def test_a_thread_ends_with_its_list() -> None:
    before = {*threading.enumerate()}
    begun(Told(0)).draw()
    assert becomes(lambda: {*threading.enumerate()} <= before)


@pytest.mark.usefixtures("impatient")
def test_the_end_and_errors_of_a_sampler_come_where_they_would_without_a_thread() -> (
    None
):
    def failing() -> Iterator[int]:
        yield 0
        raise TimeoutError("no such server")

    stream = begun(BatchSampler(failing(), 1, drop_last=False))
    assert stream.draw() == [0]
    with pytest.raises(TimeoutError, match="no such server"):
        stream.draw()
    ended = begun(Told(None))
    with pytest.raises(StopIteration):
        ended.draw()


@pytest.mark.parametrize(
    "inner", [RandomSampler(range(4)), SequentialSampler(range(4)), [0, 1, 2, 3]]
)
def test_samplers_that_wait_for_nothing_are_drawn_without_a_thread(
    inner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_stream, "_draw_in_thread", None)
    stream = begun(BatchSampler(inner, 2, drop_last=False))
    assert sorted(stream.draw() + stream.draw()) == [0, 1, 2, 3]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("workers", "change"), [(0, 0), (1, 0), (0, 4)])
def test_a_training_whose_sampler_waits_for_the_loop_ends_with_its_own_workers(
    workers: int, change: int
) -> None:
    """The plain loader draws two batches ahead with one worker."""
    sampler = Told(*range(2 + 4 * workers))
    tuned = scripted(
        DataLoader(Items(300), 2, sampler=sampler, num_workers=workers),
        {(0, change): 3},
    )
    # far longer than workers take to start in the middle of the epoch
    count = 300 if change else 40
    taken: list[int] = []
    for indices, _ in tuned:
        taken += indices.tolist()
        following = len(taken) + 4 * workers
        for number in range(following, following + 2):
            sampler.numbers.put(number if number < count else None)
    assert taken == list(range(count))
    assert tuned.num_workers == workers
    assert tuned.tuning.reason.startswith(
        "its sampler gives the next indices only after the training loop has used"
    )


@pytest.mark.parametrize("begins", ["zip", "dropped", "between"])
def test_workers_of_a_program_without_any_draw_the_order_when_the_first_batch_is_requested(
    begins: str,
) -> None:
    def orders(*, is_tuned: bool) -> list[Any]:
        torch.manual_seed(0)
        loaders: list[Any] = [DataLoader(Items(12), 2, shuffle=True) for _ in range(2)]
        if is_tuned:
            loaders = [scripted(loader, {(1, 0): 2, (2, 0): 3}) for loader in loaders]
        found: list[Any] = []
        for _ in range(3):
            if begins == "zip":
                found += [
                    (one.tolist(), other.tolist())
                    for (one, _), (other, _) in zip(*loaders, strict=True)
                ]
                continue
            if begins == "dropped":
                iter(loaders[0])
            batches = iter(loaders[0])
            found.append(torch.rand(()).item())
            found += [indices.tolist() for indices, _ in batches]
        return found

    assert orders(is_tuned=True) == orders(is_tuned=False)


class EndlessLoader(DataLoader[Any]):
    """Takes all epochs from one iterator, as the InfiniteDataLoader of ultralytics."""

    kept: Any = None

    def __iter__(self) -> Any:
        self.kept = self.kept or self._get_iterator()
        for _ in range(6):
            yield next(self.kept)

    def reset(self) -> None:
        self.kept = None


class Endless(Sampler[list[int]]):
    def __init__(self) -> None:
        self.orders = RandomSampler(range(12))

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            yield from BatchSampler(self.orders, 2, drop_last=False)

    def __len__(self) -> int:
        return 6


@pytest.mark.parametrize("is_reset", [False, True])
def test_an_epoch_of_an_endless_iterator_is_drawn_when_the_program_without_workers_begins_it(
    is_reset: bool,
) -> None:
    def drawn(*, is_tuned: bool) -> list[Any]:
        torch.manual_seed(0)
        loader: Any = EndlessLoader(Items(12), batch_sampler=Endless())
        if is_tuned:
            loader = scripted(loader, {(0, 2): 2, (0, 14): 3, (1, 0): 2})
        numbers: list[Any] = []
        for _ in range(4):
            numbers += [indices.tolist() for indices, _ in loader]
            numbers.append(torch.rand(()).item())
            if is_reset:
                loader.reset()
        return numbers

    assert drawn(is_tuned=True) == drawn(is_tuned=False)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("due", [3, 20, 21])
def test_the_generator_of_an_epoch_that_is_left_is_as_without_lists_drawn_ahead(
    due: int, replacement: bool
) -> None:
    """20 batches of 8; at their end a sampler of torch draws once more."""

    def sampler_of(generator: torch.Generator) -> Any:
        order = RandomSampler(
            range(160), replacement, num_samples=160, generator=generator
        )
        return BatchSampler(order, 8, drop_last=False)

    plain, ahead = (torch.Generator().manual_seed(3) for _ in range(2))
    assert len(list(itertools.islice(sampler_of(plain), due))) == min(due, 20)
    stream = IndexStream(sampler_of(ahead))
    stream.begin()
    stream.due = due
    with contextlib.suppress(StopIteration):
        for _ in range(40):
            stream.draw()
    if due < 20:
        assert not torch.equal(plain.get_state(), ahead.get_state())
    stream.leave()
    assert torch.equal(plain.get_state(), ahead.get_state())


def test_a_generator_from_which_others_have_drawn_is_not_set_back() -> None:
    generator = torch.Generator().manual_seed(3)
    order = RandomSampler(range(16), generator=generator)
    stream = IndexStream(BatchSampler(order, 8, drop_last=False))
    stream.begin()
    with contextlib.suppress(StopIteration):
        for _ in range(3):
            stream.draw()
    torch.rand(1, generator=generator)
    state = generator.get_state()
    stream.leave()
    assert torch.equal(generator.get_state(), state)
