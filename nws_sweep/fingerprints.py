"""Tells whether two objects load the same in the same way: a short hash of what they are made of.

Not of their addresses, and not of every byte: of a large array or list a part is looked at, so that the hash of a
dataset takes milliseconds. Code counts: a changed ``__getitem__`` takes another time.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import math
import os
import sysconfig
import types
from collections import UserList, deque
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any

_DEEPEST = 8
_LOOKED_AT = 64  # elements of a container
_MOST_VALUES = 20_000  # in all, some tens of milliseconds
_LONGEST_TEXT = 4096
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_PLAIN = (int, float, complex, bool, type(None), range, slice, type(...))


def fingerprint(*parts: Any) -> str:
    """A short hash of objects, equal in any process for equal ones.

    Args:
        parts: Datasets, functions, plain values.
    """
    digest = hashlib.sha256()
    for part in parts:
        for text in _Walk().texts(part, 0):
            digest.update(text.encode(errors="replace") + b"\0")
    return digest.hexdigest()[:16]


class _Walk:
    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}  # kept, so that no address is used twice
        self._left = _MOST_VALUES

    def texts(self, value: Any, depth: int) -> Iterator[str]:
        """What tells the value from others."""
        self._left -= 1
        if isinstance(value, _PLAIN):
            yield repr(value)
        elif isinstance(value, str | bytes | PurePath):
            yield f"{type(value).__name__}:{len(str(value))}:{str(value)[:_LONGEST_TEXT]}"
        elif id(value) in self._seen or depth > _DEEPEST or self._left < 0:
            yield "..."
        else:
            self._seen[id(value)] = value
            yield _name(type(value))
            try:
                yield from self._inside(value, depth + 1)
            except Exception:  # whatever looking into it raises
                yield "opaque"

    def _inside(self, value: Any, depth: int) -> Iterator[str]:
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            return _of_array(value)
        if hasattr(value, "dtypes") and hasattr(value, "iloc"):
            return self._frame(value, depth)
        if isinstance(
            value, Mapping | Set | list | tuple | deque | UserList
        ):  # others may load what they are asked for
            return self._several(_elements(value), depth)
        return self._code_or_object(value, depth)

    def _code_or_object(self, value: Any, depth: int) -> Iterator[str]:
        if isinstance(value, functools.partial):
            return self._several([value.func, value.args, value.keywords], depth)
        if isinstance(value, type):
            return self._class(value, depth)
        if isinstance(value, types.FunctionType | types.MethodType):
            return self._function(value, depth)
        return self._object(value, depth)

    def _several(self, values: Sequence[Any], depth: int) -> Iterator[str]:
        yield str(len(values))
        step = max(1, len(values) // _LOOKED_AT)
        for index in range(0, len(values), step):
            yield from self.texts(values[index], depth)

    def _object(self, value: Any, depth: int) -> Iterator[str]:
        yield from self.texts(type(value), depth)
        attributes = dict(getattr(value, "__dict__", {}))
        if not attributes:
            yield _stable_repr(value)
        attributes |= {name: getattr(value, name) for name in _slots(type(value)) if hasattr(value, name)}
        yield from self._several(sorted(attributes.items()), depth)

    def _frame(self, frame: Any, depth: int) -> Iterator[str]:
        """A table of pandas."""
        yield f"{list(frame.columns) if hasattr(frame, 'columns') else frame.name}:{len(frame)}:{frame.dtypes}"
        yield from self.texts(frame.iloc[:: max(1, len(frame) // _LOOKED_AT)].to_numpy().tolist(), depth)

    def _class(self, kind: type, depth: int) -> Iterator[str]:
        yield _name(kind)
        for base in kind.__mro__[:-1]:
            for name, member in sorted(vars(base).items()):
                yield from self._member(name, member, depth)

    def _member(self, name: str, member: Any, depth: int) -> Iterator[str]:
        """A class's method, property or plain value."""
        if isinstance(member, (*_PLAIN, str, bytes, tuple)) and not name.startswith("__"):
            yield f"{name}={_stable_repr(member)}"
        plain = member.fget if isinstance(member, property) else member
        function = inspect.unwrap(getattr(plain, "__func__", plain)) if callable(plain) else None
        if isinstance(function, types.FunctionType):
            yield name
            yield from self._code(function, depth)

    def _code(self, function: types.FunctionType, depth: int) -> Iterator[str]:
        """What it does, and the functions and values of its module that it uses."""
        yield from _of_code(function.__code__)
        if not _is_users(function):
            return
        for name in sorted(_names(function.__code__) & function.__globals__.keys()):
            value = function.__globals__[name]
            if not isinstance(value, types.ModuleType | logging.Logger):
                yield name
                yield from self.texts(value, depth)

    def _function(self, function: Any, depth: int) -> Iterator[str]:
        plain = getattr(function, "__func__", function)
        yield plain.__qualname__
        yield from self._code(plain, depth)
        cells = [cell.cell_contents for cell in plain.__closure__ or () if _is_filled(cell)]
        yield from self._several([plain.__defaults__, cells, getattr(function, "__self__", None)], depth)


def _elements(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, Set):
        return sorted(value, key=repr) if len(value) <= _LOOKED_AT else [len(value)]
    return value  # type: ignore[no-any-return] # a sequence


def _stable_repr(value: Any) -> str:
    """How it writes itself, unless with its address; of a built-in function or class the name."""
    text = repr(value)
    return getattr(value, "__qualname__", "") if "0x" in text else text[:_LONGEST_TEXT]


def _of_code(code: types.CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _of_code(constant)
        elif not isinstance(constant, frozenset):  # in the order of their hashes, which differs between processes
            yield repr(constant)


def _names(code: types.CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _is_users(function: types.FunctionType) -> bool:
    """Whether it is no library's: those are told by their versions, and keep things that have nothing to do with it."""
    return not function.__code__.co_filename.startswith((*_LIBRARIES, "<frozen"))


def _of_array(array: Any) -> Iterator[str]:
    yield f"{tuple(array.shape)}:{array.dtype}"
    try:
        size = math.prod(array.shape)
        positions = range(0, size, max(1, size // _LOOKED_AT))
        yield str([array[_index(position, array.shape)].tolist() for position in positions])
    except Exception:  # sparse, quantised, on a device that is gone: shape and type must do
        yield "opaque"


def _index(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Where the element of that number stands: an array that is not contiguous would be copied to be flattened."""
    index = []
    for length in reversed(shape):
        position, rest = divmod(position, length)
        index.append(rest)
    return tuple(reversed(index))


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _slots(kind: type) -> list[str]:
    found = [getattr(base, "__slots__", ()) for base in kind.__mro__]
    return [name for names in found for name in ([names] if isinstance(names, str) else names) if name != "__dict__"]


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
