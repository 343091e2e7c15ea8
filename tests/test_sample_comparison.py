"""Whether samples that workers made are those of loading without workers; which samples are asked for."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from nws_sweep import sample_check
from nws_sweep.errors import WrongSamples
from nws_sweep.records import LoaderSettings, SampleMade, SamplePart, SamplesLogged, SamplesSeen
from nws_sweep.sample_check import Reference, SampleWatch
from tests.factories import FACTS

FOUR = LoaderSettings(batch_size=8, num_workers=4)
STREAM = replace(FACTS, iterable=True)


def made(key: Any, *contents: object, worker: int = 0) -> SampleMade:
    """A sample with a part for each content; None for one that cannot be compared."""
    parts = tuple(
        SamplePart(form=f"part {place}".encode(), content=None if content is None else str(content).encode())
        for place, content in enumerate(contents)
    )
    return SampleMade(worker=worker, key=key, parts=parts)


def stream(worker: int, *samples: Any) -> list[SampleMade]:
    return [made(place, *(s if isinstance(s, tuple) else (s,)), worker=worker) for place, s in enumerate(samples)]


STREAMS: list[tuple[list[list[Any]], int]] = [
    ([[1, 2, 3, 4], [1, 2, 3, 4]], 4),  # both have all
    ([[1, 2, 3, 4], [4, 3, 2, 1]], 4),  # in another order
    ([[1, 3, 5, 7], [2, 4, 6, 8]], 0),
    ([[1, 2, 3, 4]], 0),  # of one worker
    ([[1], [1]], 0),  # too few
    ([[0, 0, 0, 0], [0, 0, 0, 0]], 0),  # a stream has the same one again and again
    ([[random.random(), i] for i in range(4)], 0),
    # Random images: the key tells, but labels do not, and few samples neither.
    ([[(random.random(), f"key {i}") for i in range(40)] for _ in range(3)], 80),
    ([[(random.random(), i % 10) for i in range(40)] for _ in range(3)], 0),
    ([[(random.random(), i % 10) for i in range(8)] for _ in range(3)], 0),
]


@pytest.mark.parametrize(("streams", "repeated"), STREAMS)
def test_samples_that_several_workers_deliver_are_counted(streams: list[list[Any]], repeated: int) -> None:
    found = [sample for worker, samples in enumerate(streams) for sample in stream(worker, *samples)]
    assert sample_check.repeated(found)[0] == repeated


def test_the_latest_samples_of_a_few_workers_are_compared_first() -> None:
    logged = [made(key, worker=key % 6) for key in range(18)]
    assert [sample.key for sample in sample_check.candidates(logged)] == [12, 13, 14, 15, 6, 7, 8, 9, 0, 1, 2, 3]


def test_a_part_differs_by_its_content_its_form_and_by_being_there() -> None:
    reference: Reference = {1: made(1, "a", None, 3).parts}
    other = SamplePart(form=b"another shape", content=b"3")
    assert sample_check.differing(made(1, "a", "b", 3), reference) == set()  # one cannot be compared
    assert sample_check.differing(made(1, "b", None, 3), reference) == {0}
    assert sample_check.differing(made(1, "a", None), reference) == {2}
    assert sample_check.differing(replace(made(1), parts=(*made(1, "a", None).parts, other)), reference) == {2}


class World:
    """A dataset as a process without workers sees it, as workers do beside each other, and one at a time.

    Each is a function of the index and of the worker.
    """

    def __init__(
        self,
        alone: Callable[[Any], tuple[Any, ...]],
        beside: Callable[[Any, int], tuple[Any, ...]],
        in_turn: Callable[[Any, int], tuple[Any, ...]] | None = None,
        epochs: Sequence[int] = (),
    ) -> None:
        self.alone, self.beside, self.in_turn = alone, beside, in_turn or (lambda index, worker: alone(index))
        self.epochs = list(epochs)
        self.loaded: list[int] = []

    def logged(self, *indices: int) -> SamplesLogged:
        return SamplesLogged(samples=tuple(made(i, *self.beside(i, i % 4), worker=i % 4) for i in indices))

    def load(self, keys: Sequence[Any], limit_s: float | None) -> tuple[SampleMade, ...]:
        self.loaded += keys
        return tuple(made(key, *self.alone(key)) for key in keys)

    def load_in_turn(self, samples: Sequence[SampleMade], settings: LoaderSettings) -> tuple[SampleMade, ...]:
        return tuple(made(one.key, *self.in_turn(one.key, one.worker), worker=one.worker) for one in samples)

    def samples(self, settings: LoaderSettings, most: int, limit_s: float) -> SamplesSeen:
        count = self.epochs.pop(0)
        return SamplesSeen(digests=(b"",) * min(count, most), workers=frozenset(), complete=count < most)

    def ask(self, question: Callable[[Any], Any]) -> Any:
        return question(self)

    def check(self, watch: SampleWatch, *indices: int, handles: tuple[str, ...] = ()) -> str:
        return watch.check(self.logged(*indices), FOUR, replace(FACTS, handles=handles), 1.0, self.ask)


def test_samples_that_are_the_same_cost_two_of_them_once() -> None:
    world, watch = World(lambda i: (i,), lambda i, worker: (i,)), SampleWatch()
    for _ in range(3):
        assert world.check(watch, *range(16)) == ""
    assert len(world.loaded) == 2


def test_samples_that_are_wrong_only_beside_others_are_reported() -> None:
    world = World(lambda i: (i, "label"), lambda i, worker: (0, "label"))
    with pytest.raises(WrongSamples, match="8 of 8 compared samples differ from those loaded without workers: open"):
        world.check(SampleWatch(), *range(1, 17))


@pytest.mark.parametrize(
    "world",
    [
        World(
            lambda i: (random.random(), i), lambda i, worker: (random.random(), i), lambda i, w: (random.random(), i)
        ),
        World(lambda i: (i,), lambda i, worker: (i + worker,), lambda i, worker: (i + worker,)),  # by the worker's seed
        World(lambda i: (i,), lambda i, worker: (i if i % 16 else -1,)),  # seldom, as random erasing
    ],
    ids=["random", "worker", "seldom"],
)
def test_parts_that_differ_for_other_reasons_are_not_reported(world: World) -> None:
    watch = SampleWatch()
    for _ in range(3):
        assert world.check(watch, *range(16)) == ""
    assert len(world.loaded) <= sample_check.MOST_COMPARED


def test_with_shared_files_two_wrong_samples_are_enough() -> None:
    world = World(lambda i: (i,), lambda i, worker: (i if i % 8 not in (4, 5) else -1,))
    assert world.check(SampleWatch(), *range(16)) == ""
    with pytest.raises(WrongSamples, match=r"; forked workers share dataset\.file: open files"):
        world.check(SampleWatch(), *range(16), handles=("dataset.file",))


def test_what_cannot_be_loaded_again_is_not_judged() -> None:
    world = World(lambda i: (i,), lambda i, worker: (0,))
    world.load_in_turn = lambda samples, settings: ()  # type: ignore[method-assign]
    assert world.check(SampleWatch(), *range(16)) == ""


def test_a_file_whose_position_several_workers_move_is_enough() -> None:
    moved = SamplesLogged(moved_files=("data.bin",))
    with pytest.raises(WrongSamples, match=r"the workers read data\.bin through one open file, whose position all"):
        SampleWatch().check(moved, FOUR, FACTS, 1.0, lambda question: None)
    SampleWatch().check(moved, replace(FOUR, num_workers=1), FACTS, 1.0, lambda question: None)


@pytest.mark.parametrize(
    ("epochs", "wrong"),
    [
        ((40, 160), True),
        ((40, 44), False),  # each worker ends with a part of a batch: they are equal by chance
        ((40, 40), False),
        ((20_000,), True),  # nobody waits for its end
    ],
)
def test_streams_that_seem_to_be_the_same_are_counted(epochs: tuple[int, ...], wrong: bool) -> None:
    world = World(lambda i: (i,), lambda i, worker: (i // 4,), epochs=epochs)
    logged = world.logged(*range(40))
    if wrong:
        with pytest.raises(WrongSamples, match="30 of the first 40 samples were delivered by another worker too"):
            SampleWatch().check(logged, FOUR, STREAM, 1.0, world.ask)
    else:
        assert SampleWatch().check(logged, FOUR, STREAM, 1.0, world.ask) == ""
    assert not world.epochs


def test_of_random_streams_it_is_said_that_nothing_can_be_seen() -> None:
    noise = World(lambda i: (random.random(),), lambda i, worker: (random.random(),))
    assert (
        SampleWatch()
        .check(noise.logged(*range(40)), FOUR, STREAM, 1.0, noise.ask)
        .startswith("whether the workers share the samples of the iterable dataset cannot be seen")
    )
    plain = World(lambda i: (i,), lambda i, worker: (i,))
    assert SampleWatch().check(plain.logged(*range(40)), FOUR, STREAM, 1.0, plain.ask) == ""
