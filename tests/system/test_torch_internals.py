"""The private names of torch: each one exists, and without one a training goes on as it is."""

import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

import nws_sweep
from nws_sweep.system import torch_internals

LOADER, ITERATOR = list(torch_internals.NAMES)[:2]
GONE = f"{ITERATOR.replace(':', '.')}._gone"


def test_each_name_exists_and_is_known_to_exist() -> None:
    loader: Any = DataLoader([1, 2], num_workers=1)  # type: ignore[arg-type]
    iterator = iter(loader)
    instances = {LOADER: loader, ITERATOR: iterator}
    for owner, names in torch_internals.NAMES.items():
        found = instances.get(owner) or pkgutil.resolve_name(owner)
        assert not [name for name in names if not hasattr(found, name)], owner
    list(iterator)
    assert torch_internals.missing_names() == ()
    assert torch_internals.iterator_class() is _BaseDataLoaderIter


@pytest.fixture
def lacks_a_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A torch without one of the names, and without another one's owner."""
    names = {**torch_internals.NAMES, ITERATOR: ("_gone", "_workers"), "torch.gone:Loader": ("_name",)}
    monkeypatch.setattr(torch_internals, "NAMES", names)
    torch_internals.missing_names.cache_clear()
    yield
    torch_internals.missing_names.cache_clear()


@pytest.mark.usefixtures("lacks_a_name")
def test_autotune_leaves_the_loader_as_it_is_and_says_so_in_one_line() -> None:
    lines: list[str] = []
    tuned: Any = nws_sweep.autotune(DataLoader(range(6), batch_size=2), progress=lines.append)  # type: ignore[arg-type]
    iterators = [iter(tuned), iter(tuned)]
    assert [batch.tolist() for batch in iterators[0]] == [[0, 1], [2, 3], [4, 5]]
    assert all(isinstance(one, torch_internals.iterator_class()) for one in iterators)
    reason = f"torch {torch.__version__} has no {GONE}, torch.gone.Loader._name; autotune does not change the loader"
    assert lines == [f"range: {tuned.tuning}"] == [f"range: num_workers=0 stays: {reason}"]


def test_a_copy_forgets_the_iterator_that_torchdata_has_made_to_save_a_state() -> None:
    loader: Any = DataLoader(range(6))  # type: ignore[arg-type]
    vars(loader)["_initial_iter_for_state_dict"] = True
    torch_internals.forget_iterator(loader)
    assert not loader._initial_iter_for_state_dict
