"""Stages of a batch: the clock with known times, the names, and calls of real functions."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial, wraps
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import (
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    default_collate,
)
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

from nws_sweep.dataloading import recording
from nws_sweep.dataloading.clocks import Clocks, read_clocks
from nws_sweep.dataloading.stages.clock import Stage, StageClock
from nws_sweep.dataloading.stages.functions import StageFunctions, public_name
from nws_sweep.dataloading.stages.timing import StageSlots, StageTimer
from nws_sweep.records import StageKind, StageTime


class Hands:
    """Clocks that a test sets forward; reading them takes ``reading_s`` before and after the moment that is read."""

    def __init__(self, reading_s: float) -> None:
        self.now, self._reading_s = Clocks(0.0, 0.0, 0.0), reading_s

    def read(self) -> Clocks:
        self.forward(self._reading_s)
        found = self.now
        self.forward(self._reading_s)
        return found

    def forward(self, cpu_s: float, wait_s: float = 0.0, delay_s: float = 0.0) -> None:
        wall_s, own_s, all_s, delayed_s, _ = self.now
        self.now = Clocks(
            wall_s + cpu_s + wait_s + delay_s,
            own_s + cpu_s,
            all_s + 2 * cpu_s,
            delayed_s + delay_s,
        )


def timed(reading_s: float = 0.0) -> tuple[Hands, StageClock]:
    hands = Hands(reading_s)
    clock = StageClock(Stage("batch"), hands.read, lambda: hands.now.cpu_s)
    clock.begin()
    return hands, clock


def push(
    clock: StageClock,
    stage: Stage,
    key: object,
    look_up: Callable[[], None] = lambda: None,
) -> None:
    clock.enter()
    look_up()
    clock.push(stage, key)
    clock.leave()


def pop(clock: StageClock, key: object) -> None:
    clock.enter()
    clock.pop(key)
    clock.leave()


def test_calls_have_their_times_with_what_they_call_and_without_delays() -> None:
    hands, clock = timed()
    outer, inner = Stage("outer"), Stage("inner")
    for _ in range(2):
        push(clock, outer, outer)
        hands.forward(0.1)
        push(clock, inner, inner)
        hands.forward(0.2, wait_s=0.3, delay_s=5.0)
        pop(clock, inner)
        pop(clock, outer)
    hands.forward(0.05)
    clock.end()
    batch, first, second = clock.times()
    assert [batch.parent, first.parent, second.parent] == [-1, 0, 1]
    assert (batch.cpu_s, batch.wait_s) == pytest.approx((0.65, 0.6))
    assert (first.calls, first.cpu_s, first.wait_s, first.all_cpu_s) == pytest.approx(
        (2, 0.6, 0.6, 1.2)
    )
    assert (second.calls, second.cpu_s, second.wait_s) == pytest.approx((2, 0.4, 0.6))


def test_the_calls_of_one_function_are_kept_apart_by_their_callers() -> None:
    hands, clock = timed()
    shared = Stage("shared")
    for stage, seconds in ((Stage("a"), 0.1), (Stage("b"), 0.3)):
        push(clock, stage, stage)
        push(clock, shared, shared)
        hands.forward(seconds)
        pop(
            clock, stage
        )  # with what it has called, as after an exception that no one noticed
    clock.end()
    _, *others = clock.times()
    assert [(one.name, one.parent) for one in others] == [
        ("a", 0),
        ("shared", 1),
        ("b", 0),
        ("shared", 3),
    ]
    assert [one.cpu_s for one in others] == pytest.approx([0.1, 0.1, 0.3, 0.3])


def test_of_a_recursion_the_outermost_call_counts() -> None:
    hands, clock = timed()
    itself = Stage("itself")
    keys = [object() for _ in range(3)]
    for key in keys:
        push(clock, itself, key)
        hands.forward(0.1)
    for key in reversed(keys):
        pop(clock, key)
    clock.end()
    _, found = clock.times()
    assert found.calls == 1
    assert found.cpu_s == pytest.approx(0.3)


def test_what_timing_costs_is_known_beside_the_calls() -> None:
    """The looking up of the stage costs 3 us, each reading 4 us: half of the latter lies within the call."""
    hands, clock = timed(reading_s=2e-6)
    inner = Stage("inner")
    for _ in range(10):
        push(clock, inner, inner, lambda: hands.forward(3e-6))
        hands.forward(1e-4, wait_s=1e-3)
        pop(clock, inner)
    clock.end()
    batch, found = clock.times()
    assert (found.overhead_s, found.cpu_s) == pytest.approx((10 * 4e-6, 10 * 1.04e-4))
    assert (batch.overhead_s, batch.cpu_s) == pytest.approx(
        (10 * 11e-6 + 4e-6, 10 * 1.11e-4 + 4e-6)
    )
    assert inner.wall_s == pytest.approx(10 * 1.1e-3)


def test_cheap_calls_are_parts_of_their_caller() -> None:
    hands, clock = timed()
    cheap = Stage("cheap")
    for _ in range(100):
        if not cheap.is_cheap:
            push(clock, cheap, cheap)
            hands.forward(5e-6)
            pop(clock, cheap)
    assert cheap.calls < 100
    clock.end()
    assert [one.name for one in clock.times()] == ["batch"]


def busy(milliseconds: float) -> int:
    until_s, count = time.thread_time() + milliseconds * 1e-3, 0
    while time.thread_time() < until_s:
        count += 1
    return count


class Busy:
    def __init__(self, milliseconds: float) -> None:
        self.milliseconds = milliseconds

    def __call__(self, sample: Any) -> Any:
        busy(self.milliseconds)
        return sample


def failing(sample: Any) -> Any:
    raise ValueError("bad sample")


class Samples(Dataset[Any]):
    def __init__(self, *transforms: Callable[[Any], Any]) -> None:
        self.transforms = transforms

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> Any:
        sample = torch.zeros(3, 64, 64)
        for transform in self.transforms:
            sample = transform(sample)
        return sample


def stages_of(
    dataset: Any, samples: int = 4, make: Callable[[], Any] | None = None
) -> dict[str, StageTime]:
    timer = StageTimer(dataset, default_collate, partial(read_clocks, lambda: 0.0))
    try:
        make() if make else default_collate(
            [dataset[index] for index in range(samples)]
        )
    finally:
        found = timer.stop()
    return {one.name: one for one in found}


def test_functions_and_objects_of_a_dataset_are_stages_with_their_places() -> None:
    one, other = Busy(4), Busy(2)
    dataset = Samples(
        one, other, partial(_scaled, factor=2.0), v2.GaussianBlur(5), _slept
    )
    found = stages_of(dataset)
    here = "tests.dataloading.test_stages"
    root = found[f"{here}.Samples.__getitem__"]
    assert root.parent == -1
    assert found[f"{here}.Busy"].cpu_s == pytest.approx(0.016, rel=0.3)
    assert found[f"{here}.Busy #2"].cpu_s == pytest.approx(0.008, rel=0.5)
    assert {f"{here}._scaled", "torchvision.transforms.v2.GaussianBlur"} <= found.keys()
    assert found[f"{here}._slept"].wait_s >= 0.004
    assert found[f"{here}._slept"].cpu_s < 0.002
    busy_stage = found[f"{here}.busy"]
    assert (busy_stage.file, busy_stage.line) == (
        __file__,
        busy.__code__.co_firstlineno,
    )


def _scaled(sample: Any, factor: float) -> Any:
    busy(1)
    return factor * sample


def _slept(sample: Any) -> Any:
    time.sleep(1e-3)
    return sample


HELPERS = ModuleType("helpers")
vars(HELPERS)["compute"] = busy


class Reading(Samples):
    def __getitem__(self, index: int) -> Any:
        HELPERS.compute(1)
        return functional.gaussian_blur(super().__getitem__(index), [5, 5])


def test_functions_that_are_called_as_attributes_of_modules_are_stages() -> None:
    found = stages_of(Reading())
    assert found["tests.dataloading.test_stages.busy"].cpu_s == pytest.approx(
        0.004, rel=0.3
    )
    assert found["torchvision.transforms.v2.functional.gaussian_blur"].calls == 4
    assert (
        found["tests.dataloading.test_stages.Reading.__getitem__"].kind
        is StageKind.DATASET
    )


def test_a_cheap_object_hides_no_dear_one_with_its_code_or_place() -> None:
    found = stages_of(
        Samples(Busy(0), Busy(0.2), abs, partial(_scaled, factor=1.0)), samples=100
    )
    here = "tests.dataloading.test_stages"
    assert (found[f"{here}.Busy #2"].calls, found[f"{here}._scaled"].calls) == (
        100,
        100,
    )


def _decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


def _call(self: Any, sample: Any) -> Any:
    busy(1)
    return sample


DECORATORS: tuple[Any, ...] = (
    torch.no_grad(),
    _decorated,
    lambda function: wraps(function)(_decorated(function)),
)
DECORATED = [
    type(f"Kind{number}", (), {"__call__": one(_call)})
    for number, one in enumerate(2 * DECORATORS)
]


class Decorated(Samples):
    @torch.no_grad()
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)


def _closing(factor: float = 1.0) -> Callable[[Any], Any]:
    def closed(sample: Any, *, more: float = 1.0) -> Any:
        busy(1)
        return sample * factor * more

    return closed


def test_functions_with_one_code_are_stages_under_their_own_names() -> None:
    found = stages_of(
        Decorated(*(kind() for kind in DECORATED), _closing(), _closing())
    )
    here = "tests.dataloading.test_stages"
    assert [name for name, one in found.items() if one.parent == -1] == [
        f"{here}.Decorated.__getitem__"
    ]
    assert [found[f"{here}.{kind.__name__}"].calls for kind in DECORATED] == [4] * 6
    assert (
        next(one.calls for name, one in found.items() if name.endswith("closed")) == 8
    )


def test_everything_has_its_own_code_again() -> None:
    functions = (
        busy,
        _slept,
        _scaled,
        Busy.__call__,
        Samples.__getitem__,
        v2.GaussianBlur.forward,
    )
    before = [function.__code__ for function in functions]
    stages_of(
        Samples(Busy(1), partial(_scaled, factor=1.0), v2.GaussianBlur(3)), samples=1
    )
    assert [function.__code__ for function in functions] == before
    assert sys.getprofile() is None


def test_an_exception_of_a_transform_is_the_same_but_for_one_frame_a_function() -> None:
    dataset = Samples(failing)
    with pytest.raises(ValueError, match="bad sample") as plain:
        dataset[0]
    with pytest.raises(ValueError, match="bad sample") as found:
        stages_of(dataset, 1)
    names = [frame.name for frame in traceback.extract_tb(plain.value.__traceback__)][
        1:
    ]
    with_stages = [
        frame.name for frame in traceback.extract_tb(found.value.__traceback__)
    ]
    assert [name for name in with_stages if name in names] == names
    assert with_stages.count("_timed") == (
        0 if sys.version_info >= (3, 12) else len(names)
    )


def test_calls_in_other_threads_are_not_timed() -> None:
    dataset = Samples(Busy(5))

    def make() -> None:
        thread = threading.Thread(target=dataset.__getitem__, args=(0,))
        thread.start()
        thread.join()
        dataset[1]

    found = stages_of(dataset, make=make)
    assert found["tests.dataloading.test_stages.Busy"].calls == 1


def test_libraries_are_asked_for_their_threads_where_other_threads_compute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(getNumThreads=lambda: 7))

    def waits() -> None:
        thread = threading.Thread(target=busy, args=(20,))
        thread.start()
        thread.join()

    with_threads, without = (
        stages_of(Samples(), make=make) for make in (waits, lambda: busy(20))
    )
    place = "tests.dataloading.test_stages.Samples.__getitem__"
    assert "cv2 7" in with_threads[place].pools
    assert not without[place].pools


def test_generators_and_closures_work_as_before() -> None:
    class Stream(IterableDataset[Any]):
        transform = staticmethod(_closing(3.0))

        def __iter__(self) -> Iterator[Any]:
            for _ in range(4):
                yield self.transform(torch.ones(2))

    stream = Stream()
    batches: list[Any] = []
    found = stages_of(stream, make=lambda: batches.extend(stream))
    assert torch.stack(batches).unique().tolist() == [3.0]
    assert any(name.endswith("closed") for name in found)
    assert [one.name for one in found.values() if one.parent == -1] == [
        "tests.dataloading.test_stages.Stream.__iter__"
    ]


def test_a_dataset_without_python_code_is_one_stage() -> None:
    class Inside:
        __getitem__ = [torch.zeros(1)].__getitem__

        def __len__(self) -> int:
            return 1

    assert StageFunctions(Inside()).root.name.startswith(
        "inside tests.dataloading.test_stages."
    )


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script.*:FutureWarning",
    "ignore:.*torch.jit.script.*:DeprecationWarning",
)
def test_scripted_modules_and_classes_are_left_alone() -> None:
    functions = StageFunctions(Samples(torch.jit.script(torch.nn.ReLU()), Busy))
    names = {
        function.__qualname__
        for function in functions.always_stages
        if isinstance(function, FunctionType)
    }
    assert "ScriptModule.forward" not in names
    assert "Samples.__getitem__" in names


def test_datasets_inside_others_are_stages() -> None:
    outer = Subset(Samples(Busy(2)), range(4))
    assert list(stages_of(outer, make=lambda: None)) == [
        "torch.utils.data.Subset.__getitems__"
    ]
    found = stages_of(outer, make=lambda: outer.__getitems__([0, 1]))
    assert "tests.dataloading.test_stages.Samples.__getitem__" in found


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (v2.Resize, "torchvision.transforms.v2.Resize"),
        (TensorDataset, "torch.utils.data.TensorDataset"),
        (default_collate, "torch.utils.data.default_collate"),
        (recording.BatchLog, "nws_sweep.dataloading.recording.BatchLog"),
        (
            SimpleNamespace(__module__="__main__", __qualname__="main.<locals>.load"),
            "load",
        ),
    ],
)
def test_names_are_those_that_a_package_exports(value: Any, name: str) -> None:
    assert public_name(value.__module__, value.__qualname__, value) == name


def test_of_too_many_stages_the_first_are_kept() -> None:
    slots = StageSlots(1)
    slots.write(
        0,
        0,
        tuple(
            StageTime(name=f"stage {number}", parent=number - 1)
            for number in range(2000)
        ),
    )
    found = slots.read(0, 0)
    assert 50 < len(found) < 2000
    assert [one.parent for one in found] == list(range(-1, len(found) - 1))
    assert slots.read(0, 1) == ()
