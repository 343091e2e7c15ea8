"""Whether workers deliver the samples of loading without workers, and whether they
share them."""

import contextlib
import functools
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import nws_sweep
from nws_sweep.errors import WrongSamples
from nws_sweep.records import (
    LoaderSettings,
    MeasureRules,
    SampleMade,
    SamplePart,
    SamplesLogged,
    SamplesSeen,
)
from nws_sweep.searching import sample_check
from nws_sweep.searching.sample_check import MAX_COMPARED, Reference, SampleComparison
from tests.factories import FACTS
from tests.user_datasets import Plain, Repeating, Stream

FOUR = LoaderSettings(batch_size=8, num_workers=4)
STREAM = replace(FACTS, iterable=True)


def made(key: Any, *contents: object, worker: int = 0) -> SampleMade:
    """A sample with a part for each content; None for a part that is not comparable."""
    parts = tuple(
        SamplePart(
            form=f"part {place}".encode(),
            content=None if content is None else str(content).encode(),
        )
        for place, content in enumerate(contents)
    )
    return SampleMade(worker=worker, key=key, parts=parts)


# The samples of each worker as tuples of parts, and how many of them another worker
# delivered too.
STREAMS: list[tuple[list[list[Any]], int]] = [
    # both workers have all samples
    ([[(1,), (2,), (3,), (4,)], [(4,), (3,), (2,), (1,)]], 4),
    ([[(1,), (3,), (5,), (7,)], [(2,), (4,), (6,), (8,)]], 0),
    ([[(1,)], [(1,)]], 1),  # few: the length of an epoch decides
    # two workers have drawn the same shard
    ([[(1,), (2,)], [(1,), (2,)], [(3,), (4,)]], 0),
    ([[(0,)] * 4, [(0,)] * 4], 0),  # a stream repeats one sample
    # Random images are identified by a key, but not by a label.
    ([[(random.random(), f"key {i}") for i in range(40)] for _ in range(3)], 80),
    ([[(random.random(), i % 10) for i in range(40)] for _ in range(3)], 0),
]


@pytest.mark.parametrize(("streams", "repeated"), STREAMS)
def test_samples_of_several_workers_are_counted(
    streams: list[list[Any]], repeated: int
) -> None:
    found = [
        made(0, *parts, worker=number)
        for number, samples in enumerate(streams)
        for parts in samples
    ]
    assert sample_check.repeats_in(found).count == repeated


def test_parts_differ_by_content_form_and_number() -> None:
    reference: Reference = {1: made(1, "a", None, 3).parts}
    other = SamplePart(form=b"another shape", content=b"3")
    # one part is not comparable
    assert sample_check.differing(made(1, "a", "b", 3), reference) == set()
    assert sample_check.differing(made(1, "b", None, 3), reference) == {0}
    assert sample_check.differing(made(1, "a", None), reference) == {2}
    assert sample_check.differing(
        replace(made(1), parts=(*made(1, "a", None).parts, other)), reference
    ) == {2}


Sample = Callable[..., tuple[Any, ...]]
RANDOM: Sample = lambda index, worker=0: (random.random(), index)  # noqa: E731


class World(SampleComparison):
    """Samples by index and worker: loaded without workers (alone), by workers together,
    one by one; epochs' lengths."""

    def __init__(
        self, alone: Sample, together: Sample, one_by_one: Sample | None = None, epochs: Sequence[int] = (),
        check_samples: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(self.answer, check_samples)
        self.alone, self.together, self.one_by_one = (
            alone,
            together,
            one_by_one or (lambda index, worker: alone(index)),
        )
        self.epochs = list(epochs)
        self.loaded: list[int] = []

    def logged(self, *indices: int) -> SamplesLogged:
        return SamplesLogged(
            samples=tuple(
                made(i, *self.together(i, i % 4), worker=i % 4) for i in indices
            )
        )

    def load(
        self, keys: Sequence[Any], limit_s: float | None
    ) -> tuple[SampleMade, ...]:
        self.loaded += keys
        return tuple(made(key, *self.alone(key)) for key in keys)

    def load_one_by_one(
        self, samples: Sequence[SampleMade], settings: LoaderSettings
    ) -> tuple[SampleMade, ...]:
        return tuple(
            made(one.key, *self.one_by_one(one.key, one.worker), worker=one.worker)
            for one in samples
        )

    def samples(
        self, settings: LoaderSettings, most: int, limit_s: float
    ) -> SamplesSeen:
        count = self.epochs.pop(0)
        return SamplesSeen(count=min(count, most), complete=count < most)

    def answer(self, question: Callable[[Any], Any]) -> Any:
        return question(self)

    def seen(self, *indices: int, handles: tuple[str, ...] = ()) -> str:
        return self.compare(
            self.logged(*indices), FOUR, replace(FACTS, handles=handles), 1.0
        )


@pytest.mark.parametrize(
    ("world", "most"),
    [
        (World(lambda i: (i,), lambda i, worker: (i,)), MAX_COMPARED),
        (World(RANDOM, RANDOM, RANDOM), MAX_COMPARED),
        (
            World(
                lambda i: (i,),
                lambda i, worker: (i + worker,),
                lambda i, worker: (i + worker,),
            ),
            MAX_COMPARED,
        ),
        (World(lambda i: (i,), lambda i, worker: (i if i % 16 else -1,)), MAX_COMPARED),
    ],
    ids=["equal", "random", "random by worker", "random erasing"],
)
def test_equal_samples_and_random_parts_are_not_reported_and_few_samples_are_loaded(
    world: World, most: int
) -> None:
    for _ in range(3):
        assert world.seen(*range(16)) == ""
    assert len(world.loaded) <= most


def test_samples_that_are_wrong_when_workers_load_together_are_reported() -> None:
    world = World(lambda i: (i, "label"), lambda i, worker: (0, "label"))
    with pytest.raises(
        WrongSamples,
        match="8 of 8 compared samples differ from those loaded without workers: open",
    ):
        world.seen(*range(1, 17))


def test_with_shared_files_two_wrong_samples_are_enough() -> None:
    world = World(lambda i: (i,), lambda i, worker: (i if i % 8 not in (4, 5) else -1,))
    with pytest.raises(
        WrongSamples, match=r"; forked workers share dataset\.file: open files"
    ):
        world.seen(*range(16), handles=("dataset.file",))
    assert world.seen(*range(16)) == ""
    single = World(lambda i: (i,), lambda i, worker: (i if i % 8 != 4 else -1,))
    assert single.seen(*range(16), handles=("dataset.file",)) == ""  # it may be chance


@pytest.mark.parametrize(
    ("epochs", "wrong"),
    [
        ((40, 160), True),
        ((40, 44), False),  # each worker ends with a shorter batch
        ((40, 40), False),
        # the count has a limit, and samples repeat within each stream
        ((60_000,), False),
    ],
)
def test_streams_with_equal_samples_are_counted(
    epochs: tuple[int, ...], wrong: bool
) -> None:
    world = World(lambda i: (i,), lambda i, worker: (i // 4,), epochs=epochs)
    logged = world.logged(*range(40))
    reported = pytest.raises(
        WrongSamples,
        match="30 of the first 40 samples were delivered by another worker too",
    )
    with reported if wrong else contextlib.nullcontext():
        assert world.compare(logged, FOUR, STREAM, 1.0) == ""
    assert not world.epochs


def test_an_epoch_without_workers_is_counted_once_for_all_candidates() -> None:
    world = World(lambda i: (i,), lambda i, worker: (i // 4,), epochs=(40, 40, 40))
    logged = world.logged(*range(40))
    for settings in (FOUR, replace(FOUR, num_workers=8)):
        assert world.compare(logged, settings, STREAM, 1.0) == ""
    assert not world.epochs


@pytest.mark.parametrize("has_key", [True, False])
def test_without_a_count_only_whole_samples_that_are_all_different_are_proof(
    has_key: bool,
) -> None:
    """Labels repeat in a stream that is right; ids do not."""
    streams = [
        [(f"id {i if has_key else (worker, i)}", i % 10) for i in range(64)]
        for worker in range(4)
    ]
    samples = tuple(
        made(n, *parts, worker=worker)
        for worker, all in enumerate(streams)
        for n, parts in enumerate(all)
    )
    world = World(lambda i: (i,), lambda i, worker: (i,), epochs=(60_000,))
    logged = replace(world.logged(0), samples=samples)
    with (
        pytest.raises(WrongSamples, match="192 of the first 256")
        if has_key
        else contextlib.nullcontext()
    ):
        world.compare(logged, FOUR, STREAM, 1.0)


@pytest.mark.parametrize(
    ("epochs", "settings", "line"),
    [
        ((40, 40), FOUR, ""),
        ((40, 160), FOUR,
         "samples are repeated with num_workers=4: 160 in an epoch instead of 40: the iterable dataset"),
        # each worker ends with a shorter batch
        ((40, 44), replace(FOUR, batch_size=None), ""),
        ((40, 30), FOUR, "samples are lost with num_workers=4: 30 in an epoch instead of 40"),
        ((40, 30), replace(FOUR, drop_last=True), "samples are lost .*drop_last drops a shorter batch of each worker"),
        ((60_000, 60_000), FOUR, "check_samples: no whole epoch of at most 50000 samples could be counted"),
    ],
)  # fmt: skip
def test_samples_of_two_epochs_are_counted_once(
    epochs: tuple[int, ...], settings: LoaderSettings, line: str
) -> None:
    world = World(
        lambda i: (i,), lambda i, worker: (i,), epochs=epochs, check_samples=True
    )
    logged = world.logged(*range(16))
    is_wrong = line.startswith("samples are") and not settings.drop_last
    with (
        pytest.raises(WrongSamples, match=line)
        if is_wrong
        else contextlib.nullcontext()
    ):
        assert re.match(line, world.compare(logged, settings, STREAM, 1.0))
    assert world.compare(logged, settings, STREAM, 1.0) == ""


class SharedFile(Plain):
    """Reads all samples through one open file; the label is the index."""

    def __init__(self, path: Path) -> None:
        super().__init__(600)
        self.file = path.open("rb", buffering=0)

    def __getitem__(self, index: int) -> Any:
        self.file.seek(4 * index)
        time.sleep(0.001)
        return int.from_bytes(self.file.read(4), "little"), index


Search = Callable[..., nws_sweep.SearchResult]


@pytest.fixture
def measured(own_folders: None) -> Search:
    rules = MeasureRules(window_s=0.02, trial_limit_s=1.0)
    return functools.partial(
        nws_sweep.search,
        batch_size=5,
        strategy="exhaustive",
        measure=rules,
        progress=False,
    )


def test_a_stream_that_is_not_shared_is_loaded_without_workers(
    measured: Search,
) -> None:
    with pytest.warns(
        UserWarning,
        match=r"nws_sweep: num_workers=\d is excluded: .*utils\.data\.get_worker_info",
    ):
        result = measured(Repeating(60), num_workers=[0, 2])
    assert result.num_workers == 0
    assert {trial.state.value for trial in result.trials if trial.num_workers} == {
        "wrong_samples"
    }
    loader = DataLoader(Repeating(60), batch_size=5)
    rules = result.record.configuration.measure
    with pytest.warns(UserWarning, match="is excluded"):  # also from a stored result
        tuned = nws_sweep.tune(
            loader, num_workers=[0, 2], strategy="exhaustive", measure=rules
        )
    assert (tuned.num_workers, sum(map(len, tuned))) == (0, 60)


@pytest.mark.usefixtures("forked_workers")
def test_candidates_whose_workers_share_an_open_file_fail(
    measured: Search, tmp_path: Path
) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"".join(index.to_bytes(4, "little") for index in range(600)))
    lines: list[str] = []
    with pytest.warns(
        UserWarning, match="through one open file, whose position all of them move"
    ):
        result = measured(
            lambda: SharedFile(path), num_workers=[1, 3], progress=lines.append
        )
    states = {trial.num_workers: trial.state.value for trial in result.trials}
    assert states == {1: "ok", 3: "wrong_samples"}
    (named,) = (
        line
        for line in lines
        if line.startswith("forked workers share dataset.file (FileIO")
    )
    assert not any("a batch" in line for line in lines[: lines.index(named)])


@pytest.mark.usefixtures("forked_workers")
def test_samples_of_real_workers_are_counted(measured: Search) -> None:
    lines = measured(Stream(60, 3), num_workers=[4], check_samples=True).warnings
    assert not [line for line in lines if "samples are" in line]
    assert "1 of 4 workers got no samples in an epoch" in "".join(lines)


@pytest.mark.parametrize(
    ("drawn", "is_equal"),
    [(lambda worker, n: n, True), (lambda worker, n: (worker, n), False)],
)
def test_equal_draws_of_two_workers_are_noticed_in_random_parts(
    drawn: Any, is_equal: bool
) -> None:
    numbers = [(worker, number) for number in range(4) for worker in range(2)]
    samples = [
        made(2 * n + worker, worker, drawn(worker, n), n % 2, worker=worker)
        for worker, n in numbers
    ]
    assert sample_check.has_equal_draws(samples, {1, 2}) is is_equal
    # a part that differs between workers, one of few values
    assert not sample_check.has_equal_draws(samples, {0, 2})
    # of the first and the last worker
    few = [made(n, value, worker=n // 2) for n, value in enumerate("abbaab")]
    assert not sample_check.has_equal_draws(few, {0})
    assert sample_check.has_equal_draws([few[0], few[1], few[4], few[5]], {0})
    assert not sample_check.has_equal_draws([few[0], few[4]], {0})
