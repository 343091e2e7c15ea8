"""The source files of a project that code reaches by imports; files of libraries, whose versions are known, are not."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OWN = str(Path(__file__).parents[1]) + os.sep  # this package has a version too
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))", re.MULTILINE
)
_NAME = re.compile(r"([\w.]+)(?:\s+as\s+\w+)?")


def is_library(path: str) -> bool:
    """Whether a file belongs to the standard library, an installed package or this package."""
    return path.startswith((*LIBRARIES, _OWN, "<frozen"))


@dataclass(frozen=True, eq=False)
class Source:
    """A source file of the project. There is one object for each module."""

    path: str
    package: str

    def parts(self) -> Iterator[object]:
        """Its path and content, and the sources that it imports."""
        yield self.path
        content = b""
        with contextlib.suppress(OSError):
            content = Path(self.path).read_bytes()
        yield hashlib.sha256(content).hexdigest()
        for match in _IMPORT.finditer(content.decode(errors="replace")):
            origin, names, modules = match.groups()
            if modules:
                yield from (source for name in _NAME.findall(modules) if (source := find(name)))
            else:
                yield from _imported_from(origin, _NAME.findall(names), self.package)


def _imported_from(origin: str, names: list[str], package: str) -> Iterator[Source]:
    with contextlib.suppress(ImportError):  # more dots than packages
        module = importlib.util.resolve_name(origin, package) if origin.startswith(".") else origin
        candidates = (module, *(f"{module}.{name}" for name in names))
        yield from (source for name in candidates if (source := find(name)))


def of_module(module: ModuleType) -> Source | None:
    """The source of a module of the project; None for others."""
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or is_library(path):
        return None
    return _source(os.path.abspath(path), str(getattr(module, "__package__", "") or ""))  # noqa: PTH100


def find(name: str) -> Source | None:
    """The source of a module that is loaded, or that can be found without an import; None for others."""
    if name in sys.modules:
        return of_module(sys.modules[name])
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        if "." not in name or name.rpartition(".")[0] in sys.modules:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin and spec.has_location and not is_library(spec.origin):
                return _source(os.path.abspath(spec.origin), spec.parent or "")  # noqa: PTH100
    return None


@functools.cache
def _source(path: str, package: str) -> Source:
    return Source(path, package)
