"""Hashes of datasets and functions: equal hashes stand for the same data, loaded by the same code.

A hash covers attributes, code and used globals, and the source of modules of the project that the code uses; a pickle
has the names of functions but not their code, and differs between two runs of a script. Large arrays and containers are
sampled, so that a hash takes milliseconds.
"""

import ast
import contextlib
import dis
import functools
import hashlib
import heapq
import importlib.util
import io
import itertools
import logging
import os
import re
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_INSTALLED = frozenset({"site-packages", "dist-packages"})  # folders of installed packages, of any environment
_OWN = str(Path(__file__).parents[1]) + os.sep  # this package has a version too
_SAMPLED = 64  # elements of a container
_MOST_VALUES = 20_000  # of one object, some tens of milliseconds
_MOST_TEXT = 4096
_PLAIN = (int, float, complex, bool, type(None), range, slice, type(...))
_TEXT = (str, bytes, bytearray, PurePath)
_CONSTANTS = (tuple, frozenset)  # equal ones may be one object, or not after another import
CONTAINERS = (dict, set, frozenset, list, tuple, deque)  # others may load data when they are read


def fingerprint(*parts: Any) -> str:
    """A short hash of datasets, functions and plain values; equal objects have equal hashes in all processes."""
    digest = hashlib.sha256()
    for text in itertools.chain.from_iterable(map(_texts, parts)):
        digest.update(text.encode(errors="replace") + b"\0")
    return digest.hexdigest()[:16]


def _texts(part: Any) -> Iterator[str]:
    """Texts of an object and of all that it reaches, up to a number of values.

    What stands in no containers or in short ones comes first: code and transforms before annotations of samples.
    """
    seen: dict[int, tuple[int, Any]] = {}  # holds references, so that no id is reused
    left = _MOST_VALUES
    waiting: list[tuple[int, int, Any]] = [(1, 0, (part,))]
    while waiting and left > 0:
        elements, _, value = heapq.heappop(waiting)
        yield "of"
        for inner in itertools.islice(_parts(value), left):
            left -= 1
            if isinstance(inner, _PLAIN):
                yield repr(inner)
            elif isinstance(inner, _TEXT):
                content = str(inner) if isinstance(inner, PurePath) else inner
                yield f"{type(inner).__name__}:{len(content)}:{content[:_MOST_TEXT]!r}"
            elif id(inner) in seen and not isinstance(inner, _CONSTANTS):
                yield f"number {seen[id(inner)][0]}"
            else:
                seen[id(inner)] = left, inner
                yield f"{type(inner).__module__}.{type(inner).__qualname__}"
                heapq.heappush(waiting, (elements * _length(inner), -left, inner))


def _parts(value: Any) -> Iterator[Any]:
    kind = type(value)  # attributes of the value itself may call code of the user
    is_array = hasattr(kind, "iloc") or (hasattr(kind, "dtype") and hasattr(kind, "nbytes"))
    try:
        yield from _of_array(value) if is_array else next(of(value) for one, of in _OF if isinstance(value, one))
    except Exception:  # code of the user may raise anything; the parts found so far count
        yield "opaque"


def _of_array(array: Any) -> Iterator[Any]:
    if hasattr(array, "iloc"):  # a table of pandas, or a column
        yield f"{getattr(array, 'columns', '')}:{len(array)}:{array.dtypes}"
        yield array.iloc[:: _step(len(array))].to_numpy().tolist()
    else:
        yield f"{tuple(array.shape)}:{array.dtype}"
        each = _SAMPLED ** (1 / max(1, len(array.shape)))
        yield str(array[tuple(slice(None, None, _step(length, each)) for length in array.shape)].tolist())


def _of_container(values: Any) -> Iterator[Any]:
    yield len(values)
    step = _step(len(values))
    if isinstance(values, dict):
        yield from itertools.chain.from_iterable(itertools.islice(values.items(), 0, None, step))
    elif not isinstance(values, set | frozenset):
        yield from (values[::step] if isinstance(values, list | tuple) else itertools.islice(values, 0, None, step))
    elif len(values) <= _SAMPLED:
        yield from sorted(values, key=lambda value: re.sub(" at 0x[0-9a-f]+", "", repr(value)))


def _length(value: Any) -> int:
    with contextlib.suppress(Exception):  # code of the user may raise anything
        return max(1, len(value)) if isinstance(value, CONTAINERS) else 1
    return 1


def _of_class(kind: type) -> Iterator[Any]:
    """Its functions; of a class of the user all its attributes, without those of C such as slots."""
    yield f"{kind.__module__}.{kind.__qualname__}"
    for base in kind.__mro__[:-1]:
        values = (*_PLAIN, *_TEXT) if is_of_library(base) else object
        for name, member in sorted(vars(base).items()):
            plain = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            is_value = isinstance(member, values) and not name.startswith("__")
            if isinstance(plain, types.FunctionType) or (is_value and not hasattr(type(member), "__objclass__")):
                yield from (name, plain)


def _step(length: int, sampled: float = _SAMPLED) -> int:
    return max(1, int(length // sampled))


def _of_object(value: Any) -> Iterator[Any]:
    found = dict(attributes(value))
    yield type(value)
    # A file is named by its repr alone; one of h5py has a ``filename``.
    if not found or isinstance(value, io.IOBase) or hasattr(type(value), "filename"):
        yield _stable_repr(value)
    yield from itertools.chain.from_iterable(sorted(found.items()))
    if hasattr(type(value), "tobytes") and hasattr(type(value), "resize") and found.get("fp") is None:
        yield value.resize((8, 8), 0).tobytes()  # some pixels of an image of Pillow that has been loaded


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Those that can be read without calling code of the user."""
    yield from getattr(value, "__dict__", {}).items()
    written_in_python = (vars(base) for base in type(value).__mro__ if "__slots__" in vars(base))
    for slot in (one for members in written_in_python for one in members.values()):
        if isinstance(slot, types.MemberDescriptorType):
            with contextlib.suppress(AttributeError):  # not set
                yield slot.__name__, slot.__get__(value)


def _stable_repr(value: Any) -> str:
    """``repr``; for a ``repr`` with an address the qualified name, if the object has one."""
    text, has_name = repr(value), "__qualname__" in vars(type(value))
    return text[:_MOST_TEXT] if "0x" not in text else value.__qualname__ if has_name else ""


def _of_function(function: Any) -> Iterator[Any]:
    plain = getattr(function, "__func__", function)
    yield plain.__qualname__
    yield from _of_code(plain)
    yield from (plain.__defaults__, plain.__kwdefaults__, getattr(function, "__self__", None))
    for cell in plain.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty cell
            yield cell.cell_contents


def _of_code(function: types.FunctionType) -> Iterator[Any]:
    """Byte code, constants and used globals; no globals of a library: configurations are compared by versions too."""
    names: set[str] = set()
    codes = [function.__code__]
    for code in codes:
        names.update(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        plain = [value for value in code.co_consts if not isinstance(value, types.CodeType)]
        # The order of a frozen set differs between processes.
        constants = [sorted(map(repr, value)) if isinstance(value, frozenset) else value for value in plain]
        yield hashlib.sha256(repr((code.co_code, code.co_names, constants)).encode(errors="replace")).digest()
    if is_library(function.__code__.co_filename):
        return
    for name in sorted(names & function.__globals__.keys()):
        yield from (name, function.__globals__[name])
    yield from (source_of(name) for code in codes for name in _imported(code, function.__module__))


def _imported(code: types.CodeType, module: str) -> Iterator[str]:
    """Names of the modules that a function imports when it runs, by themselves or in the package of its module."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            yield from (instruction.argval, f"{(module or '').rpartition('.')[0]}.{instruction.argval}")


@functools.lru_cache(maxsize=4096)
def is_library(path: str) -> bool:
    """Whether a file belongs to the standard library, an installed package or this package."""
    is_installed = not _INSTALLED.isdisjoint(Path(path).parts)  # also where PYTHONPATH names another environment
    return is_installed or path.startswith((*_LIBRARIES, _OWN, "<frozen"))


def is_of_library(kind: type) -> bool:
    """Whether an installed package or the standard library has the class."""
    return is_library(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")


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
        with contextlib.suppress(SyntaxError, ValueError):
            yield from (found for name in self._imported_names(ast.parse(content)) if (found := source_of(name)))

    def _imported_names(self, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                with contextlib.suppress(ImportError):  # more dots than packages
                    module = importlib.util.resolve_name("." * node.level + (node.module or ""), self.package)
                    yield from (module, *(f"{module}.{alias.name}" for alias in node.names))


_source = functools.cache(Source)


def source_of_module(module: ModuleType) -> Source | None:
    """The source of a module of the project; None for others."""
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or is_library(path):
        return None
    return _source(os.path.abspath(path), str(getattr(module, "__package__", "") or ""))  # noqa: PTH100


def source_of(name: str) -> Source | None:
    """The source of a module that is loaded, or that can be found without an import; None for others."""
    if name in sys.modules:
        return source_of_module(sys.modules[name])
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        if "." not in name or name.rpartition(".")[0] in sys.modules:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin and spec.has_location and not is_library(spec.origin):
                return _source(os.path.abspath(spec.origin), spec.parent or "")  # noqa: PTH100
    return None


_OF: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
    (CONTAINERS, _of_container),
    (Source, Source.parts),
    (ModuleType, lambda module: (module.__name__, source_of_module(module))),
    (logging.Logger, lambda logger: (logger.name,)),  # holds all other loggers
    (functools.partial, lambda partial: (partial.func, partial.args, partial.keywords)),
    (type, _of_class),
    (types.FunctionType | types.MethodType, _of_function),
    (object, _of_object),
)
