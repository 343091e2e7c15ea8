"""Each part of the tuning fails in a training, which has the same batches and ends as without it."""

import functools
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from nws_sweep.online import observation, pool
from nws_sweep.online.loader import autotune
from tests.conftest import rounds
from tests.online.test_iterator import Items

pytestmark = [pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"), pytest.mark.usefixtures("forked_workers")]
PARTS = (
    "online.tuner", "online.observation", "online.decision", "online.plan", "online.worker_probe", "online.loader",
    "dataloading.fingerprints", "dataloading.generators", "dataloading.recording",
    "dataloading.objects", "results.result_cache", "replay.model", "system.host", "system.resources", "system.usage",
    "report.progress", "results.codec", "measurement.trial_progress", "online.iterator", "dataloading.inputs",
    "dataloading.loaders",
)  # fmt: skip
# What a training needs without tuning, and the entries that are tested by the failure of all that they call.
NEEDED = {
    "autotune",
    "plain",
    "leave_out_iterators",
    "_kept_iterators",
    "iterator_of",
    "_report_failure",
    "_get_iterator",
    "_draws",
    "begin_epoch",
}
NEEDED_CLASSES = {"TunedIterator", "Pool", "Pools"}
IN_WORKERS = {"WorkerProbe", "BatchTimer"}


def parts() -> Iterator[tuple[Any, str]]:
    """Functions that modules have or import, and methods of their classes, with their owners."""
    for name in PARTS:
        module = importlib.import_module(f"nws_sweep.{name}")
        owners: list[Any] = [module, *(kind for _, kind in inspect.getmembers(module, inspect.isclass))]
        for owner in owners:
            for one, value in vars(owner).items() if owner.__name__ not in NEEDED_CLASSES else ():
                is_own = inspect.isfunction(value) and value.__module__.startswith("nws_sweep.")
                if is_own and not one.startswith("__") and one not in NEEDED:
                    yield owner, one


def trained(loader: Any) -> list[Any]:
    torch.manual_seed(0)
    return [[indices.tolist() for indices, _ in loader] for _ in range(3)]


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a part is broken")


def called(loader: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, str]]:
    """The parts that a training reaches in this process, and those of workers."""
    reached: dict[tuple[Any, str], None] = {}

    def noting(owner: Any, name: str, function: Any) -> Any:
        @functools.wraps(function)
        def noted(*arguments: Any, **keywords: Any) -> Any:
            reached[owner, name] = None
            return function(*arguments, **keywords)

        return noted

    with monkeypatch.context() as wrapped:
        for owner, name in parts():
            wrapped.setattr(owner, name, noting(owner, name, vars(owner)[name]))
        trained(loader)
    return [(owner, name) for owner, name in parts() if (owner, name) in reached or owner.__name__ in IN_WORKERS]


@pytest.mark.extended
@pytest.mark.parametrize("is_persistent", [False, True])
def test_a_training_ends_with_the_same_batches_whatever_part_fails_at_random(
    is_persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part fails with or without persistent workers, in turn; scripts/soak tries all with both."""

    def loader() -> DataLoader[Any]:
        return DataLoader(Items(20), 2, shuffle=True, num_workers=1, persistent_workers=is_persistent)

    def tuned() -> Any:
        return autotune(loader(), reuse="never", progress=False, max_workers=3)

    monkeypatch.setattr(pool, "_START_WITHIN_S", 0.5)
    for name in ("_LONG_S", "_WINDOW_S"):
        monkeypatch.setattr(observation, name, 0.01)
    expected = trained(loader())
    reached = called(tuned(), monkeypatch)
    assert {name for _, name in reached} > {"choose", "switched", "fingerprint", "model_of", "find", "cut"}
    for owner, name in reached if rounds(1) > 1 else reached[is_persistent::2]:
        with monkeypatch.context() as broken:
            made = tuned()
            broken.setattr(owner, name, fails)
            assert trained(made) == expected, name
