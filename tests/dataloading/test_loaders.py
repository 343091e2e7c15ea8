import math
import multiprocessing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import nws_sweep
from nws_sweep.dataloading import loaders
from nws_sweep.dataloading.inputs import DATALOADER_DEFAULTS, loader_input_of
from nws_sweep.dataloading.loaders import Source
from nws_sweep.errors import ConfigurationError, DatasetError
from nws_sweep.records import LoaderSettings
from tests.user_datasets import Endless, Plain, SizedStream, Stream

DATA = TensorDataset(torch.arange(40))


def collate(samples: list[Any]) -> list[int]:
    return [int(value) for (value,) in samples]


def full(**changed: Any) -> DataLoader[Any]:
    keywords: dict[str, Any] = {
        "batch_size": 4, "shuffle": True, "num_workers": 2, "collate_fn": collate, "drop_last": True, "timeout": 60.0,
        "worker_init_fn": print, "generator": torch.Generator().manual_seed(3), "prefetch_factor": 3,
        "persistent_workers": True, "multiprocessing_context": "fork", "pin_memory": False,
    }  # fmt: skip
    return DataLoader(DATA, **{**keywords, **changed})


def changed_copy(loader: Any, **changed: Any) -> Any:
    return loaders.with_settings(
        loader, replace(loaders.settings_of(loader), **changed).canonical()
    )


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (RandomSampler(DATA), True), (WeightedRandomSampler([1.0] * 40, 40), True), (SequentialSampler(DATA), False),
        (DistributedSampler(DATA, 1, 0), True), (DistributedSampler(DATA, 1, 0, shuffle=False), False),
        ([3, 1, 2], False),
    ],
)  # fmt: skip
def test_only_random_samplers_of_torch_are_known_to_shuffle(
    sampler: Any, expected: bool
) -> None:
    loader = DataLoader(DATA, batch_size=4, sampler=sampler)
    assert loaders.is_shuffled(loader) == expected
    settings = loaders.settings_of(loader)
    assert Source(loader, 0).is_shuffled(settings) == expected
    assert Source(DATA, 0).is_shuffled(replace(settings, shuffle=True))
    assert not Source(Stream(8), 0).is_shuffled(settings)


@pytest.mark.parametrize(
    ("length", "problem"), [(-1, "should return >= 0"), (10**30, "cannot fit 'int'")]
)
@pytest.mark.parametrize("kind", [Plain, SizedStream])
def test_a_length_that_python_refuses_is_an_error_in_one_line(
    kind: type, length: int, problem: str
) -> None:
    dataset = kind(length)
    for given in (dataset, DataLoader(dataset)):
        with pytest.raises(
            DatasetError,
            match=f"^{kind.__name__}.__len__.*{problem}.*must return an integer from 0",
        ):
            loader_input_of(given, DATALOADER_DEFAULTS)
    assert (
        loaders.length(dataset) is None
    )  # autotune and watch leave the error to the program


@pytest.mark.parametrize("size", [math.nan, 0, 2.5, True, "8"])
def test_a_batch_size_out_of_range_is_an_error_of_ours(size: Any) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"^batch_size=.*: must be null or an integer of at least 1$",
    ):
        loader_input_of(DATA, {**DATALOADER_DEFAULTS, "batch_size": size})


@pytest.mark.parametrize(
    ("loader", "reason"),
    [
        (DataLoader(DATA, shuffle=True), ""),
        (DataLoader(DATA), "its order is fixed"),
        (
            DataLoader(
                DATA, batch_size=None, sampler=WeightedRandomSampler([1.0] * 40, 8)
            ),
            "",
        ),
        (DataLoader(DATA, sampler=DistributedSampler(DATA, 2, 0)), ""),
        (
            DataLoader(DATA, sampler=DistributedSampler(DATA, 2, 0, shuffle=False)),
            "its order is fixed",
        ),
        (DataLoader(DATA, batch_sampler=[[3, 4], [1, 2]]), ""),  # unknown
        (
            DataLoader(
                DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), 2, False)
            ),
            "its order is fixed",
        ),
        (DataLoader(Stream(4)), ""),
    ],
)
def test_a_loader_with_a_fixed_order_is_not_that_of_a_training(
    loader: DataLoader[Any], reason: str
) -> None:
    assert loaders.reason_not_training(loader) == reason
    with torch.no_grad():
        assert loaders.reason_not_training(loader) == "gradients are disabled"


def test_a_copy_shares_all_but_the_settings_and_the_loader_is_unchanged() -> None:
    loader = full()
    before = dict(vars(loader))
    other = changed_copy(loader, num_workers=1, prefetch_factor=7)
    changed = {name for name, value in vars(other).items() if value is not before[name]}
    assert {name for name in changed if "multiprocessing" not in name} == {
        "num_workers",
        "prefetch_factor",
    }
    assert other.multiprocessing_context.get_start_method() == "fork"
    other = changed_copy(loader, batch_size=3, num_workers=0)
    assert (other.prefetch_factor, other.persistent_workers, other.timeout) == (
        None,
        False,
        0,
    )
    assert (other.multiprocessing_context, other.sampler) == (None, loader.sampler)
    settings = loaders.settings_of(loader)
    assert loaders.settings_of(loaders.with_settings(other, settings)) == settings
    assert (len(other), other.batch_size, other.drop_last) == (13, 3, True)
    assert {len(batch) for batch in other} == {3}
    assert vars(loader) == before


def test_the_samples_come_in_the_same_order() -> None:
    loader = full(persistent_workers=False)
    expected = list(loader)
    for num_workers in (0, 1):
        loader.generator.manual_seed(3)
        assert list(changed_copy(loader, num_workers=num_workers)) == expected
    some: DataLoader[Any] = DataLoader(
        DATA, batch_sampler=BatchSampler([5, 3, 4], 2, False), collate_fn=collate
    )
    assert list(changed_copy(some, batch_size=3)) == [[5, 3, 4]]


def test_a_kept_iterator_is_made_again_but_not_without_workers() -> None:
    loader = Endless(DATA, batch_size=8)
    next(loader.iterator)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    without_workers = loaders.without_workers(loader)
    assert torch.equal(torch.get_rng_state(), before)
    assert (without_workers.num_workers, type(without_workers.iterator).__name__) == (
        0,
        "KeptIterator",
    )
    again = loaders.with_settings(without_workers, loaders.settings_of(loader))
    torch.manual_seed(3)
    for other in (changed_copy(loader, num_workers=1), again):
        assert torch.equal(torch.get_rng_state(), before)
        assert [batch.tolist()[0] for (batch,) in other] == [0, 8]
    assert [batch.tolist()[0] for (batch,) in loader] == [8, 16]


def test_a_copy_as_it_was_before_tuning_keeps_no_iterator_alive() -> None:
    tuned: Any = nws_sweep.autotune(
        Endless(DATA, batch_size=8), reuse="never", progress=False
    )
    assert [batch.tolist()[0] for (batch,) in tuned] == [0, 8]
    assert (type(tuned.plain().iterator), tuned.plain().dataset) == (
        loaders.KeptIterator,
        DATA,
    )


@pytest.mark.parametrize("base", [SimpleNamespace, Stream, Plain])
def test_a_dataset_is_that_of_the_loader_in_an_object_that_wraps_it_and_is_no_map_style_dataset(
    base: Any,
) -> None:
    wrapper = type("Own", (base,), {})()
    wrapper.pipeline = [DataLoader(DATA, batch_size=8)]
    found = Source(wrapper, seed=0)
    given: Any = loader_input_of(wrapper, DATALOADER_DEFAULTS)
    if base is Plain:
        assert (found.dataset, found.settings, given.loader.dataset) == (
            wrapper,
            None,
            wrapper,
        )
    else:
        assert (found.dataset, found.settings, given.loader.dataset) == (
            DATA,
            given.settings,
            DATA,
        )


class ThreadContext(multiprocessing.context.SpawnContext):
    _name = "processthread"  # as of MONAI's ThreadDataLoader


def test_a_context_stays_the_object_that_it_was_and_one_without_processes_is_refused() -> (
    None
):
    own = type("Own", (multiprocessing.context.SpawnContext,), {})()
    loader: DataLoader[Any] = DataLoader(
        DATA, num_workers=1, multiprocessing_context=own
    )
    assert changed_copy(loader, num_workers=2).multiprocessing_context is own
    loader.multiprocessing_context = ThreadContext()
    with pytest.raises(
        ConfigurationError, match=r"are not processes .*'processthread'.*; must be fork"
    ):
        loaders.settings_of(loader)


# A batch sampler of the user.
GROUPED = type("Grouped", (BatchSampler,), {})(SequentialSampler(DATA), 5, False)


@pytest.mark.parametrize("keywords", [{"batch_sampler": GROUPED}, {"batch_size": None}])
def test_the_batch_size_of_a_batch_sampler_cannot_be_changed(
    keywords: dict[str, Any],
) -> None:
    loader: DataLoader[Any] = DataLoader(DATA, **keywords)
    settings = loaders.settings_of(loader)
    assert settings.batch_size is None
    assert len(loaders.with_settings(loader, replace(settings, num_workers=1))) == len(
        loader
    )
    with pytest.raises(ConfigurationError, match=r"batch_size=8: .* makes the batches"):
        loaders.with_settings(loader, replace(settings, batch_size=8))


class Wrapping:
    """Like the loaders of accelerate, which forward attributes to the DataLoader inside."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)  # infinite recursion without one


class Pipeline:
    """Like the WebLoader of webdataset."""

    def __init__(self, *stages: Any) -> None:
        self.pipeline = list(stages)


@pytest.mark.parametrize("wrap", [Wrapping, lambda loader: Pipeline(loader, len)])
def test_the_dataloader_in_a_wrapper_gets_the_settings(wrap: Any) -> None:
    wrapper = wrap(full())
    other = loaders.with_settings(
        wrapper, replace(loaders.settings_of(full()), num_workers=1)
    )
    assert (type(other), loaders.is_loader(other)) == (type(wrapper), True)
    assert (
        loaders.unwrapped(other).num_workers,
        loaders.unwrapped(wrapper).num_workers,
    ) == (1, 2)
    assert vars(wrapper).keys() == vars(other).keys()
    assert getattr(other, "pipeline", [len])[-1] is len


def test_a_loader_in_an_attribute_of_a_loader_is_ignored_and_several_in_a_wrapper_are_refused() -> (
    None
):
    loader: DataLoader[Any] = DataLoader(DATA, batch_size=8)
    vars(loader)["validation"] = full()
    assert loaders.unwrapped(loader) is loader
    with pytest.raises(
        ConfigurationError,
        match=r"Pipeline has 2 DataLoaders \(pipeline\): tune each of them",
    ):
        loaders.unwrapped(Pipeline(full(), full()))
    with pytest.raises(
        ConfigurationError,
        match="int: must be a DataLoader, or an object that wraps one; search",
    ):
        loaders.unwrapped(3)


DATASET = TensorDataset(torch.arange(10))
ONE = LoaderSettings(batch_size=1)


def loader(
    made: Any,
    rank: int = 0,
    ranks: int = 3,
    settings: LoaderSettings = ONE,
    seed: int = 5,
) -> DataLoader[Any]:
    return Source(made, seed, rank, ranks).loader(settings, None)


def seen(loader: DataLoader[Any]) -> list[int]:
    return [
        int(value)
        for (batch,) in loader
        for value in torch.as_tensor(batch).reshape(-1)
    ]


def test_the_seed_decides_the_order_of_a_dataset() -> None:
    shuffled = LoaderSettings(batch_size=4, shuffle=True, drop_last=True)
    first, again, other = (
        seen(Source(DATASET, seed).loader(shuffled, None)) for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len(first) == 8
    assert list(Source(Stream(6), 1).loader(shuffled, lambda samples: samples)) == [
        [0, 1, 2, 3]
    ]


def test_ranks_get_the_samples_of_distributed_sampler_and_shuffling_ones_every_sample_once() -> (
    None
):
    for number in range(3):
        found = loader(DATASET, number, settings=LoaderSettings(batch_size=2))
        assert seen(found) == [*DistributedSampler(DATASET, 3, number, shuffle=False)]
        assert len(found) == 2
    first, second = (
        seen(loader(DataLoader(DATASET, shuffle=True), number, 2, seed=1))
        for number in range(2)
    )
    assert sorted(first + second) == list(range(10))
    assert first == [*DistributedSampler(DATASET, 2, 0, shuffle=True, seed=1)]


@pytest.mark.parametrize(
    ("own", "samples"),
    [
        (DataLoader(Stream(10)), None),
        (DataLoader(DATASET, sampler=WeightedRandomSampler([1.0] * 10, 6)), None),
        (
            DataLoader(DATASET, sampler=DistributedSampler(DATASET, 3, 1)),
            None,
        ),  # of this rank
        (
            DataLoader(
                DATASET,
                batch_sampler=BatchSampler(
                    SequentialSampler(DATASET), 5, drop_last=False
                ),
            ),
            None,
        ),
        (DataLoader(DATASET, batch_size=2, drop_last=True), [1, 4]),
        (DataLoader(DATASET, batch_size=None), [1, 4, 7, 0]),
        (
            DataLoader(
                DATASET, sampler=DistributedSampler(DATASET, 1, 0, shuffle=False)
            ),
            [1, 4, 7, 0],
        ),  # of another one
    ],
)
def test_ranks_share_the_samples_unless_the_user_shares_them(
    own: DataLoader[Any], samples: list[int] | None
) -> None:
    found = loader(own, 1, settings=loaders.settings_of(own))
    assert found.sampler is own.sampler if samples is None else seen(found) == samples


@pytest.mark.parametrize(
    ("made", "samples", "alone"),
    [
        (DATASET, 10, 10),
        (DataLoader(DATASET, sampler=RandomSampler(DATASET, num_samples=7)), 7, 7),
        (DataLoader(DATASET, sampler=DistributedSampler(DATASET, 5, 0)), 10, 2),
        (DataLoader(DATASET, batch_sampler=BatchSampler(range(4), 2, False)), 4, 4),
        (DataLoader(DATA, batch_sampler=GROUPED), None, None),
        (DataLoader(SizedStream(5)), 5, 5),
        (Stream(5), None, None),
    ],
)
def test_the_number_of_samples_is_that_of_all_ranks(
    made: Any, samples: int | None, alone: int | None
) -> None:
    assert Source(made, 0, ranks=3).samples == samples
    assert Source(made, 0).samples == alone
