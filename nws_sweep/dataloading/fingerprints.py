"""Hashes datasets and functions: equal hashes stand for the same data, loaded by the
same code.

A hash covers attributes, code and used globals, and the source of modules of the
project that the code uses; a pickle has the names of functions but not their code, and
differs between two runs of a script. Large arrays and containers are sampled, so that a
hash takes milliseconds.
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

_LIBRARIES = tuple(
    {
        sysconfig.get_path(name) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)
# folders of installed packages, of any environment
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_THIS_PACKAGE = str(Path(__file__).parents[1]) + os.sep  # it has a version too
_SAMPLED = 64  # elements of a container
_MOST_VALUES = 20_000  # of one object, some tens of milliseconds
_MOST_TEXT = 4096
_PLAIN = (int, float, complex, bool, type(None), range, slice, type(...))
_TEXT = (str, bytes, bytearray, PurePath)
# equal ones may be one object, or not after another import
_CONSTANTS = (tuple, frozenset)
# others may load data when they are read
CONTAINERS = (dict, set, frozenset, list, tuple, deque)


def fingerprint(*parts: Any) -> str:
    """Returns a short hash of datasets, functions and plain values; equal objects have
    equal hashes."""
    digest = hashlib.sha256()
    for part in parts:
        for text in _texts(part):
            digest.update(text.encode(errors="replace") + b"\0")
    return digest.hexdigest()[:16]


def _texts(part: Any) -> Iterator[str]:
    """Yields texts of an object and of all that it reaches, up to a number of values.

    What stands in no containers or in short ones comes first: code and transforms
    before annotations of samples.
    """
    # by id; with references, so that no id is reused
    numbers: dict[int, tuple[int, Any]] = {}
    values_left = _MOST_VALUES
    waiting: list[tuple[int, int, Any]] = [(1, 0, (part,))]
    while waiting and values_left > 0:
        elements, _, value = heapq.heappop(waiting)
        yield "of"
        for inner in itertools.islice(_parts(value), values_left):
            values_left -= 1
            if isinstance(inner, _PLAIN):
                yield repr(inner)
            elif isinstance(inner, _TEXT):
                content = str(inner) if isinstance(inner, PurePath) else inner
                yield f"{type(inner).__name__}:{len(content)}:{content[:_MOST_TEXT]!r}"
            elif id(inner) in numbers and not isinstance(inner, _CONSTANTS):
                yield f"number {numbers[id(inner)][0]}"
            else:
                numbers[id(inner)] = values_left, inner
                yield f"{type(inner).__module__}.{type(inner).__qualname__}"
                heapq.heappush(
                    waiting, (elements * _length(inner), -values_left, inner)
                )


def _parts(value: Any) -> Iterator[Any]:
    try:
        yield from _function_of_parts(value)(value)
    except Exception:  # code of the user may raise anything; the parts so far count
        yield "opaque"


def _function_of_parts(value: Any) -> Callable[[Any], Iterable[Any]]:
    kind = type(value)  # attributes of the value itself may call code of the user
    if hasattr(kind, "iloc"):
        return _of_table
    if hasattr(kind, "dtype") and hasattr(kind, "nbytes"):
        return _of_array
    for kinds, parts_of in _PARTS_OF:
        if isinstance(value, kinds):
            return parts_of
    return _of_object


def _of_table(table: Any) -> Iterator[Any]:
    """Yields parts of a table of pandas, or of a column."""
    yield f"{getattr(table, 'columns', '')}:{len(table)}:{table.dtypes}"
    yield table.iloc[:: _step(len(table))].to_numpy().tolist()


def _of_array(array: Any) -> Iterator[Any]:
    yield f"{tuple(array.shape)}:{array.dtype}"
    sampled = _SAMPLED ** (1 / max(1, len(array.shape)))  # along each dimension
    evenly_spaced = tuple(
        slice(None, None, _step(length, sampled)) for length in array.shape
    )
    yield str(array[evenly_spaced].tolist())


def _of_container(values: Any) -> Iterator[Any]:
    yield len(values)
    step = _step(len(values))
    if isinstance(values, dict):
        for item in itertools.islice(values.items(), 0, None, step):
            yield from item
    elif isinstance(values, list | tuple):
        yield from values[::step]
    elif not isinstance(values, set | frozenset):
        yield from itertools.islice(values, 0, None, step)
    elif len(values) <= _SAMPLED:
        yield from sorted(
            values, key=lambda value: re.sub(" at 0x[0-9a-f]+", "", repr(value))
        )


def _length(value: Any) -> int:
    with contextlib.suppress(Exception):  # code of the user may raise anything
        return max(1, len(value)) if isinstance(value, CONTAINERS) else 1
    return 1


def _of_class(kind: type) -> Iterator[Any]:
    """Yields the functions of a class; of a class of the user all attributes, without
    attributes of C such as slots."""
    yield f"{kind.__module__}.{kind.__qualname__}"
    for base in kind.__mro__[:-1]:
        values = (*_PLAIN, *_TEXT) if is_of_library(base) else object
        for name, member in sorted(vars(base).items()):
            plain = (
                member.fget
                if isinstance(member, property)
                else getattr(member, "__func__", member)
            )
            is_value = isinstance(member, values) and not name.startswith("__")
            is_of_c = hasattr(type(member), "__objclass__")
            if isinstance(plain, types.FunctionType) or (is_value and not is_of_c):
                yield name
                yield plain


def _step(length: int, sampled: float = _SAMPLED) -> int:
    return max(1, int(length // sampled))


def _of_object(value: Any) -> Iterator[Any]:
    kind, members = type(value), dict(attributes(value))
    yield kind
    # A file is named by its repr alone; a file of h5py has a ``filename``.
    if not members or isinstance(value, io.IOBase) or hasattr(kind, "filename"):
        yield _stable_repr(value)
    for member in sorted(members.items()):
        yield from member
    is_image = hasattr(kind, "tobytes") and hasattr(kind, "resize")  # of Pillow
    if is_image and members.get("fp") is None:
        # some pixels of an image that has been loaded
        yield value.resize((8, 8), 0).tobytes()


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the attributes that can be read without calling code of the user."""
    yield from getattr(value, "__dict__", {}).items()
    for base in type(value).__mro__:
        if "__slots__" not in vars(base):  # it is written in C
            continue
        for slot in vars(base).values():
            if isinstance(slot, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # not set
                    yield slot.__name__, slot.__get__(value)


def _stable_repr(value: Any) -> str:
    """Returns ``repr``; for a ``repr`` with an address the qualified name, if the
    object has one."""
    text = repr(value)
    if "0x" not in text:
        return text[:_MOST_TEXT]
    return value.__qualname__ if "__qualname__" in vars(type(value)) else ""


def _of_function(function: Any) -> Iterator[Any]:
    plain = getattr(function, "__func__", function)
    yield plain.__qualname__
    yield from _of_code(plain)
    yield plain.__defaults__
    yield plain.__kwdefaults__
    yield getattr(function, "__self__", None)
    for cell in plain.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty cell
            yield cell.cell_contents


def _of_code(function: types.FunctionType) -> Iterator[Any]:
    """Yields byte code, constants and used globals; no globals of a library, whose
    version is compared elsewhere."""
    codes = [function.__code__]
    names: set[str] = set()
    for code in codes:  # which grows by functions in functions
        codes += [
            constant
            for constant in code.co_consts
            if isinstance(constant, types.CodeType)
        ]
        names.update(code.co_names)
        yield _digest_of_code(code)
    if is_library(function.__code__.co_filename):
        return
    for name in sorted(names & function.__globals__.keys()):
        yield name
        yield function.__globals__[name]
    for code in codes:
        for name in _imported(code, function.__module__):
            yield source_of(name)


def _digest_of_code(code: types.CodeType) -> bytes:
    constants: list[Any] = []
    for value in code.co_consts:
        if isinstance(value, frozenset):  # its order differs between processes
            constants.append(sorted(map(repr, value)))
        elif not isinstance(value, types.CodeType):
            constants.append(value)
    return hashlib.sha256(
        repr((code.co_code, code.co_names, constants)).encode(errors="replace")
    ).digest()


def _imported(code: types.CodeType, module: str) -> Iterator[str]:
    """Yields names of modules that a function imports when it runs, by themselves or in
    the package of its module."""
    package = (module or "").rpartition(".")[0]
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            yield instruction.argval
            yield f"{package}.{instruction.argval}"


@functools.lru_cache(maxsize=4096)
def is_library(path: str) -> bool:
    """Whether a file belongs to the standard library, an installed package or this
    package."""
    # also where PYTHONPATH names another environment
    is_installed = not _INSTALLED.isdisjoint(Path(path).parts)
    return is_installed or path.startswith((*_LIBRARIES, _THIS_PACKAGE, "<frozen"))


def is_of_library(kind: type) -> bool:
    """Whether an installed package or the standard library has the class."""
    return is_library(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")


@dataclass(frozen=True, eq=False)
class Source:
    """A source file of the project. There is one object for each module."""

    path: str
    package: str

    def parts(self) -> Iterator[object]:
        """Yields its path and content, and the sources that it imports."""
        yield self.path
        content = b""
        with contextlib.suppress(OSError):
            content = Path(self.path).read_bytes()
        yield hashlib.sha256(content).hexdigest()
        with contextlib.suppress(SyntaxError, ValueError):
            for name in self._imported_names(ast.parse(content)):
                source = source_of(name)
                if source is not None:
                    yield source

    def _imported_names(self, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                with contextlib.suppress(ImportError):  # more dots than packages
                    module = importlib.util.resolve_name(
                        "." * node.level + (node.module or ""), self.package
                    )
                    yield module
                    yield from (f"{module}.{alias.name}" for alias in node.names)


_source = functools.cache(Source)


def source_of_module(module: ModuleType) -> Source | None:
    """Returns the source of a module of the project; None for others."""
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or is_library(path):
        return None
    return _source(os.path.abspath(path), str(getattr(module, "__package__", "") or ""))  # noqa: PTH100


def source_of(name: str) -> Source | None:
    """Returns the source of a module that is loaded, or that can be found without an
    import; None for others."""
    if name in sys.modules:
        return source_of_module(sys.modules[name])
    parent, dot, _ = name.rpartition(".")
    if dot and parent not in sys.modules:
        return None
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(name)
        if (
            spec is not None
            and spec.origin
            and spec.has_location
            and not is_library(spec.origin)
        ):
            return _source(os.path.abspath(spec.origin), spec.parent or "")  # noqa: PTH100
    return None


_PARTS_OF: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
    (CONTAINERS, _of_container),
    (Source, Source.parts),
    (ModuleType, lambda module: (module.__name__, source_of_module(module))),
    (logging.Logger, lambda logger: (logger.name,)),  # holds all other loggers
    (functools.partial, lambda partial: (partial.func, partial.args, partial.keywords)),
    (type, _of_class),
    (types.FunctionType | types.MethodType, _of_function),
)
