import functools
import importlib
import io
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf
from PIL import Image
from torch.utils.data import ConcatDataset, Subset
from torchvision.transforms import v2

from nws_sweep.dataloading.fingerprints import fingerprint, is_library
from tests.conftest import ROOT
from tests.dataloading.test_generators import Slotted


class Files:
    def __init__(self, names: list[str], size: int = 3) -> None:
        self.names, self.size = names, size

    def __getitem__(self, index: int) -> str:
        return self.names[index]


class Lazy(Mapping[str, str]):
    """Loads what is read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.loaded: list[str] = []

    def __getattr__(self, name: str) -> str:
        self.loaded.append(name)
        return name

    __getitem__ = __getattr__
    dtype = shape = property(lambda self: self["shape"])

    def __iter__(self) -> Iterator[str]:
        return iter("abc")

    def __len__(self) -> int:
        return 3


def adding(offset: int) -> Any:
    return lambda x: x + offset


def with_code(getter: Any) -> Any:
    return type("Files", (Files,), {"__getitem__": getter})(["a"])


class Annotated:
    """Has more values than are hashed, before its transform by name."""

    def __init__(self, size: int) -> None:
        self.annotations = {
            number: {"boxes": [[float(number)] * 4] * 90} for number in range(1000)
        }
        self.index = [self.annotations] * 8
        self.records = [
            {number: [[box] * 90 for box in range(90)]} for number in range(90)
        ]
        self.transform = v2.Compose([v2.RandomApply([v2.Resize((size, size))])])


WRAPPED: list[Any] = [
    lambda dataset: dataset,
    lambda dataset: Subset(ConcatDataset([Subset(dataset, range(1))]), [0]),
]
ONE, OTHER = Files(["a"]), Files(["b"])
SAME: list[Any] = [
    lambda: Files(["a", "b"]),
    lambda: Slotted(1),
    lambda: torch.arange(10_000.0).reshape(100, 100).t(),
    lambda: pd.DataFrame({"a": range(1000), "b": ["x"] * 1000}),
    lambda: OmegaConf.create({"a": "???", "b": "${nothing}"}),
    lambda: (Path("/data"), adding, Files),
    lambda: adding(1),
]
DIFFERENT = [
    (Files(["a", "b"]), Files(["a", "c"])),
    (torch.zeros(4), torch.zeros(4, dtype=torch.int32)),
    (lambda x: x, lambda x: x + 1),
    (functools.partial(adding, 1), functools.partial(adding, 2)),
    ("a", b"a"),
    (adding(1), adding(2)),
    (with_code(lambda self, index: time.sleep(1)), with_code(Files.__getitem__)),
    (with_code(adding(1)), with_code(adding(2))),
    (
        with_code(lambda self, index, size=1: size),
        with_code(lambda self, index, size=2: size),
    ),
    (lambda *, size=1: size, lambda *, size=2: size),
    (lambda x: x in {1, 2}, lambda x: x in {1, 3}),
    (
        type("A", (), {"transform": v2.Resize(1)})(),
        type("A", (), {"transform": v2.Resize(2)})(),
    ),
    (
        *(
            type("A", (), {"table": functools.cached_property(one)})()
            for one in (id, repr)
        ),
    ),
    (
        *(
            type("A", (), {"table": functools.cached_property(adding(offset))})()
            for offset in (1, 2)
        ),
    ),
    ([ONE, OTHER, ONE], [ONE, OTHER, OTHER]),
    (b"a" * 5000, b"a" * 5001),
    (Image.new("RGB", (9, 9), "red"), Image.new("RGB", (9, 9), "blue")),
    tuple(io.TextIOWrapper(io.FileIO(path)) for path in (__file__, ROOT / "README.md")),
    *((wrapped(Annotated(224)), wrapped(Annotated(512))) for wrapped in WRAPPED),
]


@pytest.mark.parametrize("make", SAME)
def test_equal_objects_have_equal_fingerprints(make: Any) -> None:
    assert fingerprint(make()) == fingerprint(make())


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_objects_have_different_fingerprints(one: Any, other: Any) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_nothing_is_loaded_for_a_fingerprint() -> None:
    lazy = Lazy("one")
    assert fingerprint(lazy) == fingerprint(Lazy("one")) != fingerprint(Lazy("other"))
    assert lazy.loaded == []


SCALE = [1]


def scaled(x: int) -> int:
    return x * SCALE[0]


class Scaled:
    def __getitem__(self, index: int) -> int:
        return [scaled(x) for x in range(index)][-1]


@pytest.mark.parametrize(
    "thing", [scaled, Scaled(), lambda: scaled(1), functools.partial(scaled, 1)]
)
def test_globals_used_by_a_function_count(
    monkeypatch: pytest.MonkeyPatch, thing: Any
) -> None:
    before = fingerprint(thing)
    assert fingerprint(thing) == before
    monkeypatch.setitem(globals(), "SCALE", [2])
    assert fingerprint(thing) != before


def test_globals_of_a_library_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(textwrap.wrap)
    monkeypatch.setattr(textwrap, "TextWrapper", None)
    assert fingerprint(textwrap.wrap) == before


def test_packages_of_another_environment_on_the_path_are_libraries_too() -> None:
    assert is_library("/opt/shared/lib/python3.11/site-packages/torch/__init__.py")
    assert is_library("/usr/lib/python3/dist-packages/numpy/__init__.py")
    assert not is_library("/home/user/project/site_packages.py")


def test_fingerprints_are_equal_in_another_process(tmp_path: Path) -> None:
    """Sets have another order, and equal constants of a compiled file may be other objects than of its source."""
    (tmp_path / "mine.py").write_text(
        "from nws_sweep.dataloading.fingerprints import fingerprint\n"
        "import logging, threading\nlogger, lock, scale = logging.getLogger(), threading.Lock(), {'a', 'b'}\n"
        "def used(i):\n    with lock:\n        logger.info(scale)\n"
        "class Mine:\n    def more(self): return used(3), Mine\n"
        "    def __getitem__(self, i):\n        return i in {'a', 'b', 'c'} and [j for j in range(i)]\n"
        "    options = {'sizes': (1, 2), 'kinds': {'0x1', '0x2', max, used}, 'of': [lock, logger]}\n"
        "    def one(self, size=(1, 2), *, kinds=frozenset({'a', 'b'})): return (1, 2)\n"
        "    def other(self, size=(1, 2)): return (1, 2)\n"
        "mine = Mine(); mine.kinds = {'cat', 'dog', 'cow'}; mine.me = mine\n"
        "mine.pairs = [(1, 2), (1, 2)]\n"
        "print(fingerprint(mine))\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}",
        "PYTHONDONTWRITEBYTECODE": "",
    }
    command = [sys.executable, "-c", "import mine"]
    found = {
        subprocess.check_output(
            command, env={**environment, "PYTHONHASHSEED": seed}, timeout=60
        )
        for seed in "123"
    }
    assert len(found) == 1


PROJECT = {
    "data.py": "import helpers\nfrom lazily import *\nclass Data:\n    def __getitem__(self, i):\n"
    "        import late\n        return helpers.decode(i) + late.VALUE\n",
    "helpers.py": "from package import (  # what it uses\n    deep,\n)\ndef decode(x):\n    return deep.VALUE + x\n",
    "package/__init__.py": "",
    "package/deep.py": "from . import deeper\nVALUE = deeper.VALUE\n",
    "package/deeper.py": "VALUE = 1\n",
    "late.py": "VALUE = 1\n",
    "lazily.py": "",
    "unused.py": "",
}


def test_the_source_of_each_module_of_a_project_in_use_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def now() -> str:
        for name in [
            one
            for one in sys.modules
            if f"{one.partition('.')[0]}.py" in {*PROJECT, "package.py"}
        ]:
            monkeypatch.delitem(sys.modules, name)
        importlib.invalidate_caches()
        return fingerprint(importlib.import_module("data").Data())

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for path, content in PROJECT.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    before, changed = now(), set()
    assert now() == before
    for path, content in PROJECT.items():
        (tmp_path / path).write_text(content + "# changed\n")
        if now() != before:
            changed.add(path)
        (tmp_path / path).write_text(content)
    # A comment changes no code of the class itself; ``data`` uses no name of ``lazily``.
    assert changed == {
        "helpers.py",
        "package/__init__.py",
        "package/deep.py",
        "package/deeper.py",
        "late.py",
    }
    assert now() == before
