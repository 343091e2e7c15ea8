"""Tells whether two objects load the same in the same way: a short hash of what they are made of.

Of a large array or list a part is looked at, so that it takes milliseconds. Code counts: a changed ``__getitem__``
takes another time. A hash of the pickle differs between two runs of a script, and knows but the names of functions.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import logging
import os
import sysconfig
import types
from collections import UserList, deque
from collections.abc import Iterator, Mapping, Set
from pathlib import PurePath
from typing import Any

_DEEPEST = 12
_LOOKED_AT = 64  # elements of a container
_MOST_VALUES = 20_000  # in all, some tens of milliseconds
_LONGEST_TEXT = 4096
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_PLAIN = (int, float, complex, bool, type(None), range, slice, type(...))
_TEXT = (str, bytes, PurePath)
_SEQUENCES = (list, tuple, deque, UserList)  # others may load what they are asked for


def fingerprint(*parts: Any) -> str:
    """A short hash of datasets, functions and plain values, equal in any process for equal ones."""
    digest = hashlib.sha256()
    for part in parts:
        seen: dict[int, Any] = {}  # kept, so that no address is used twice
        left = _MOST_VALUES
        waiting = [(part, 0)]
        while waiting:
            value, depth = waiting.pop()
            left -= 1
            if isinstance(value, _PLAIN):
                text = repr(value)
            elif isinstance(value, _TEXT):
                text = f"{type(value).__name__}:{len(str(value))}:{str(value)[:_LONGEST_TEXT]}"
            elif id(value) in seen or depth > _DEEPEST or left < 0:
                text = "..."
            else:
                seen[id(value)] = value
                text = f"{type(value).__module__}.{type(value).__qualname__}"
                waiting += [(inner, depth + 1) for inner in reversed(_parts(value))]
            digest.update(text.encode(errors="replace") + b"\0")
    return digest.hexdigest()[:16]


def _parts(value: Any) -> list[Any]:
    """What an object is made of; of large ones a part."""
    if (hasattr(value, "dtype") and hasattr(value, "shape")) or hasattr(value, "iloc"):
        found = _of_array(value)
    elif isinstance(value, (Mapping, Set, *_SEQUENCES)):
        found = _of_container(value)
    elif isinstance(value, functools.partial):
        found = iter((value.func, value.args, value.keywords))
    elif isinstance(value, type):
        found = _of_class(value)
    elif isinstance(value, types.FunctionType | types.MethodType):
        found = _of_function(value)
    else:
        found = _of_object(value)
    parts: list[Any] = []
    try:
        parts.extend(found)
    except Exception:  # whatever looking into it raises; what was found before stays
        parts.append("opaque")
    return parts


def _of_array(array: Any) -> Iterator[Any]:
    if hasattr(array, "iloc"):  # a table of pandas, or a column
        yield f"{getattr(array, 'columns', '')}:{len(array)}:{array.dtypes}"
        yield array.iloc[:: _step(len(array))].to_numpy().tolist()
    else:
        yield f"{tuple(array.shape)}:{array.dtype}"
        each = _LOOKED_AT ** (1 / max(1, len(array.shape)))
        yield str(array[tuple(slice(None, None, _step(length, each)) for length in array.shape)].tolist())


def _of_container(values: Any) -> Iterator[Any]:
    yield len(values)
    if isinstance(values, Set):
        values = sorted(values, key=repr) if len(values) <= _LOOKED_AT else []
    elements = list(values.items()) if isinstance(values, Mapping) else values
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


def _step(length: int, looked_at: float = _LOOKED_AT) -> int:
    return max(1, int(length // looked_at))


def _of_object(value: Any) -> Iterator[Any]:
    yield type(value)
    attributes = dict(getattr(value, "__dict__", {}))
    if not attributes:
        yield _stable_repr(value)
    for base in type(value).__mro__:
        slots = getattr(base, "__slots__", ())
        names = [slots] if isinstance(slots, str) else slots
        attributes |= {name: getattr(value, name) for name in names if name != "__dict__" and hasattr(value, name)}
    yield sorted(attributes.items())


def _stable_repr(value: Any) -> str:
    """How it writes itself, unless with its address; of a built-in function or class the name."""
    text = repr(value)
    return getattr(value, "__qualname__", "") if "0x" in text else text[:_LONGEST_TEXT]


def _of_function(function: Any) -> Iterator[Any]:
    plain = getattr(function, "__func__", function)
    yield plain.__qualname__
    yield from _of_code(plain)
    yield from (plain.__defaults__, getattr(function, "__self__", None))
    for cell in plain.__closure__ or ():
        with contextlib.suppress(ValueError):  # it is empty
            yield cell.cell_contents


def _of_code(function: types.FunctionType) -> Iterator[Any]:
    """What it does, and what it uses of its module; libraries are told by their versions."""
    names: set[str] = set()
    codes = [function.__code__]
    for code in codes:
        yield code.co_code.hex()
        yield repr(code.co_names)
        names.update(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        # Frozen sets are in the order of their hashes, which differs between processes.
        yield repr([one for one in code.co_consts if not isinstance(one, types.CodeType | frozenset)])
    if not function.__code__.co_filename.startswith((*_LIBRARIES, "<frozen")):
        for name in sorted(names & function.__globals__.keys()):
            used = function.__globals__[name]
            if not isinstance(used, types.ModuleType | logging.Logger):
                yield from (name, used)
