import functools
import importlib
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

from nws_sweep.dataloading.fingerprints import fingerprint
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


SAME: list[Any] = [
    lambda: Files(["a", "b"]),
    lambda: Slotted(1),
    lambda: torch.arange(10_000.0).reshape(100, 100).t(),
    lambda: pd.DataFrame({"a": range(1000), "b": ["x"] * 1000}),
    lambda: OmegaConf.create({"a": "???", "b": "${nothing}"}),
    lambda: functools.partial(Files, size=4),
    lambda: (Path("/data"), adding, Files),
    lambda: adding(1),
]
DIFFERENT = [
    (Files(["a", "b"]), Files(["a", "c"])),
    (torch.zeros(4), torch.zeros(4, dtype=torch.int32)),
    (lambda x: x, lambda x: x + 1),
    (functools.partial(adding, 1), functools.partial(adding, 2)),
    (type("A", (), {"size": 1})(), type("A", (), {"size": 2})()),
    (torch.utils.data.BatchSampler(range(8), 2, False), torch.utils.data.BatchSampler(range(8), 4, False)),
    ("a", b"a"),
    (adding(1), adding(2)),
    (with_code(lambda self, index: time.sleep(1)), with_code(Files.__getitem__)),
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


@pytest.mark.parametrize("thing", [scaled, Scaled(), lambda: scaled(1), functools.partial(scaled, 1)])
def test_globals_used_by_a_function_count(monkeypatch: pytest.MonkeyPatch, thing: Any) -> None:
    before = fingerprint(thing)
    assert fingerprint(thing) == before
    monkeypatch.setitem(globals(), "SCALE", [2])
    assert fingerprint(thing) != before


def test_globals_of_a_library_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(textwrap.wrap)
    monkeypatch.setattr(textwrap, "TextWrapper", None)
    assert fingerprint(textwrap.wrap) == before


def test_fingerprints_are_equal_in_another_process() -> None:
    script = (
        "from nws_sweep.dataloading.fingerprints import fingerprint\n"
        "import logging, threading\nlogger, lock, scale = logging.getLogger(), threading.Lock(), {'a', 'b'}\n"
        "def used(i):\n    with lock:\n        logger.info(scale)\n"
        "class Mine:\n    def more(self): return used(3), Mine\n"
        "    def __getitem__(self, i):\n        return i in {'a', 'b', 'c'} and [j for j in range(i)]\n"
        "mine = Mine(); mine.kinds = {'cat', 'dog', 'cow'}; mine.me = mine\n"
        "print(fingerprint(mine))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    one, other = (
        subprocess.check_output([sys.executable, "-c", script], env={**environment, "PYTHONHASHSEED": seed}, timeout=60)
        for seed in "12"
    )
    assert one == other


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


def test_the_source_of_each_module_of_a_project_in_use_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def now() -> str:
        for name in [one for one in sys.modules if f"{one.partition('.')[0]}.py" in {*PROJECT, "package.py"}]:
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
    assert changed == {"helpers.py", "package/__init__.py", "package/deep.py", "package/deeper.py", "late.py"}
    assert now() == before
