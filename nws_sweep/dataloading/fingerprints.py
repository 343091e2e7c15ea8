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
import importlib.util
import inspect
import logging
import os
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OWN = str(Path(__file__).parents[1]) + os.sep  # this package has a version too
_MOST_DEPTH = 12
_SAMPLED = 64  # elements of a container
_MOST_VALUES = 20_000  # of one object, some tens of milliseconds
_MOST_TEXT = 4096
_PLAIN = (int, float, complex, bool, type(None), range, slice, type(...))
_TEXT = (str, bytes, PurePath)
_CONTAINERS = (dict, set, frozenset, list, tuple, deque)  # others may load data when they are read


def fingerprint(*parts: Any) -> str:
    """A short hash of datasets, functions and plain values; equal objects have equal hashes in all processes."""
    digest = hashlib.sha256()
    for part in parts:
        seen: dict[int, Any] = {}  # holds references, so that no id is reused
        left = _MOST_VALUES
        waiting = [(part, 0)]
        while waiting:
            value, depth = waiting.pop()
            left -= 1
            if isinstance(value, _PLAIN):
                text = repr(value)
            elif isinstance(value, _TEXT):
                text = f"{type(value).__name__}:{len(str(value))}:{str(value)[:_MOST_TEXT]}"
            elif id(value) in seen or depth > _MOST_DEPTH or left < 0:
                text = "..."
            else:
                seen[id(value)] = value
                text = f"{type(value).__module__}.{type(value).__qualname__}"
                waiting += [(inner, depth + 1) for inner in reversed([*_parts(value)])]
            digest.update(text.encode(errors="replace") + b"\0")
    return digest.hexdigest()[:16]


def _parts(value: Any) -> Iterator[Any]:
    kind = type(value)  # attributes of the value itself may call code of the user
    try:
        if hasattr(kind, "iloc") or (hasattr(kind, "dtype") and hasattr(kind, "nbytes")):
            yield from _of_array(value)
        elif isinstance(value, _CONTAINERS):
            yield from _of_container(value)
        elif isinstance(value, Source):
            yield from value.parts()
        elif isinstance(value, functools.partial):
            yield from (value.func, value.args, value.keywords)
        elif isinstance(value, type):
            yield from _of_class(value)
        elif isinstance(value, types.FunctionType | types.MethodType):
            yield from _of_function(value)
        else:
            yield from _of_object(value)
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
    if isinstance(values, set | frozenset):
        values = sorted(values, key=repr) if len(values) <= _SAMPLED else []
    elements = list(values.items()) if isinstance(values, dict) else values
    yield from (elements[index] for index in range(0, len(elements), _step(len(elements))))


def _of_class(kind: type) -> Iterator[Any]:
    yield f"{kind.__module__}.{kind.__qualname__}"
    for base in kind.__mro__[:-1]:
        for name, member in sorted(vars(base).items()):
            if isinstance(member, (*_PLAIN, *_TEXT, tuple)) and not name.startswith("__"):
                yield f"{name}={_stable_repr(member)}"
            plain = member.fget if isinstance(member, property) else member
            function = inspect.unwrap(getattr(plain, "__func__", plain)) if callable(plain) else None
            if isinstance(function, types.FunctionType):
                yield name
                yield from _of_code(function)


def _step(length: int, sampled: float = _SAMPLED) -> int:
    return max(1, int(length // sampled))


def _of_object(value: Any) -> Iterator[Any]:
    found = dict(attributes(value))
    yield type(value)
    if not found or hasattr(type(value), "filename"):  # a file of h5py, which is named by its repr alone
        yield _stable_repr(value)
    yield sorted(found.items())


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
    yield from (plain.__defaults__, getattr(function, "__self__", None))
    for cell in plain.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty cell
            yield cell.cell_contents


def _of_code(function: types.FunctionType) -> Iterator[Any]:
    """Byte code, constants and used globals; no globals of a library: configurations are compared by versions too."""
    names: set[str] = set()
    codes = [function.__code__]
    for code in codes:
        yield code.co_code.hex()
        yield repr(code.co_names)
        names.update(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        # The order of a frozen set differs between processes.
        yield repr([value for value in code.co_consts if not isinstance(value, types.CodeType | frozenset)])
    if is_library(function.__code__.co_filename):
        return
    for name in sorted(names & function.__globals__.keys()):
        used = function.__globals__[name]
        if isinstance(used, types.ModuleType):
            used = source_of_module(used)
        if not isinstance(used, logging.Logger):
            yield from (name, used)
    yield from (source_of(name) for code in codes for name in _imported(code, function.__module__))


def _imported(code: types.CodeType, module: str) -> Iterator[str]:
    """Names of the modules that a function imports when it runs, by themselves or in the package of its module."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            yield from (instruction.argval, f"{(module or '').rpartition('.')[0]}.{instruction.argval}")


def is_library(path: str) -> bool:
    """Whether a file belongs to the standard library, an installed package or this package."""
    return path.startswith((*_LIBRARIES, _OWN, "<frozen"))


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
