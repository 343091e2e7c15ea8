"""The private names of torch: each one exists, and without one a training goes on as it
is."""

import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
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
    names = {
        **torch_internals.NAMES,
        ITERATOR: ("_gone", "_workers"),
        "torch.gone:Loader": ("_name",),
    }
    monkeypatch.setattr(torch_internals, "NAMES", names)
    torch_internals.missing_names.cache_clear()
    yield
    torch_internals.missing_names.cache_clear()


@pytest.mark.usefixtures("lacks_a_name")
def test_autotune_leaves_the_loader_as_it_is_and_says_so_in_one_line() -> None:
    lines: list[str] = []
    plain: Any = DataLoader(range(6), batch_size=2)  # type: ignore[arg-type]
    assert nws_sweep.autotune(plain, progress=lines.append) is plain
    assert lines == [
        f"this torch has no {GONE}, torch.gone.Loader._name: the DataLoader is not changed"
    ]


def test_a_copy_forgets_the_iterator_that_torchdata_has_made_to_save_a_state() -> None:
    loader: Any = DataLoader(range(6))  # type: ignore[arg-type]
    vars(loader)["_initial_iter_for_state_dict"] = True
    torch_internals.forget_iterator(loader)
    assert not loader._initial_iter_for_state_dict
