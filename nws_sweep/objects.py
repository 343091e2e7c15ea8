"""Which attributes of a dataset hold many Python objects: those that forked workers come to copy.

A forked worker shares its memory with the others until somebody writes to it, page by page. Reading a Python object
writes to it: its count of references changes. So each worker comes to hold a copy of every list of file names that it
reads from, and memory grows through the first epoch as if it leaked. Arrays and tensors are one object, however many
values they hold.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FunctionType, MethodType, ModuleType
from typing import Any

from nws_sweep.records import ObjectStore

# Less than that is not worth a word: a worker itself takes more.
_LEAST_BYTES = 1_000_000
# Containers with fewer elements hold parts, such as the datasets of a ConcatDataset; those with more hold samples.
_MANY = 1000
_SAMPLE = 1000
_DEEPEST = 5
# Of a larger object only the page with its count is written to.
_PAGE_BYTES = 4096
_ARRAY_BYTES = 128
_ATOMS = (str, bytes, int, float, complex, bool, type(None), type, ModuleType, FunctionType, MethodType)


def python_objects(dataset: Any) -> tuple[ObjectStore, ...]:
    """The attributes that hold many Python objects, the largest first.

    Wrappers (Subset, ConcatDataset, one's own) are looked into. Sizes are estimated from a thousand elements each;
    elements that are the same object again and again, such as labels, count once.
    """
    large = (_store(value, path) for path, value in walk(dataset) if _is_large(value))
    return tuple(sorted((store for store in large if store.bytes >= _LEAST_BYTES), key=lambda store: -store.bytes))


def walk(value: Any, path: str = "", depth: int = _DEEPEST, seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """The objects that a dataset is made of, each once with its place as Python writes it: ``datasets[0].samples``.

    Plain values and arrays are left out, and so is what large containers hold.
    """
    seen = set() if seen is None else seen
    if depth == 0 or id(value) in seen or isinstance(value, _ATOMS) or _is_array(value):
        return
    seen.add(id(value))
    yield path, value
    if not _is_large(value):
        for name, inner in _parts(value, path):
            yield from walk(inner, name, depth - 1, seen)


def _is_large(value: Any) -> bool:
    return _is_container(value) and _count(value) >= _MANY


def _parts(value: Any, path: str) -> Iterable[tuple[str, Any]]:
    """What is inside, each with its name as Python would write it."""
    if isinstance(value, dict) or _is_frame(value):
        return [(f"{path}[{key!r}]", inner) for key, inner in value.items()]
    if _is_container(value):
        return [(f"{path}[{index}]", inner) for index, inner in enumerate(_flat(value))]
    return [(f"{path}.{name}" if path else name, inner) for name, inner in _attributes(value).items()]


def _store(container: Any, path: str) -> ObjectStore:
    sample = _sample(container)
    sizes: dict[int, int] = {}
    new = sum(_measure(element, sizes, _DEEPEST) for element in sample)
    # The same objects again and again: all there are, most likely, were seen.
    share = _count(container) / len(sample) if new >= len(sample) / 2 else 1.0
    names = dict.fromkeys(type(element).__name__ for element in sample)
    if isinstance(container, dict):
        values = [container[key] for key in sample]
        _measure_all(values, sizes)
        names |= dict.fromkeys(type(value).__name__ for value in values)
    return ObjectStore(
        attribute=path,
        type=f"{type(container).__name__} of {' and '.join(islice(names, 3))}",
        count=_count(container),
        bytes=round(share * sum(sizes.values())),
    )


def _sample(container: Any) -> list[Any]:
    """Evenly spaced elements, of a mapping its keys; of what has no order some."""
    step = max(1, _count(container) // _SAMPLE)
    if isinstance(container, list | tuple):
        return list(container[::step])
    return list(islice(_flat(container), 0, None, step))


def _count(container: Any) -> int:
    """Its elements, in all dimensions."""
    return int(container.size) if _holds_objects(container) else len(container)


def _flat(container: Any) -> Iterable[Any]:
    """Its elements one by one, whatever the shape of an array."""
    flat: Iterable[Any] = container.flat if hasattr(container, "flat") else container
    return flat


def _measure_all(values: Iterable[Any], sizes: dict[int, int]) -> None:
    for value in values:
        _measure(value, sizes, _DEEPEST)


def _measure(value: Any, sizes: dict[int, int], depth: int) -> bool:
    """Adds the sizes of an object and of all inside it to ``sizes``; whether the object itself is new there."""
    if id(value) in sizes:
        return False
    sizes[id(value)] = _ARRAY_BYTES if _is_array(value) else min(sys.getsizeof(value), _PAGE_BYTES)
    if depth and not isinstance(value, _ATOMS) and not _is_array(value):
        for inner in _inside(value):
            _measure(inner, sizes, depth - 1)
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [part for item in islice(value.items(), _SAMPLE) for part in item]
    return islice(_flat(value), _SAMPLE) if _is_container(value) else _attributes(value).values()


def _attributes(value: Any) -> dict[str, Any]:
    return getattr(value, "__dict__", None) or {}


def _is_container(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset | deque | dict) or _holds_objects(value)


def _is_array(value: Any) -> bool:
    """Whether it keeps its values side by side without an object for each: NumPy's, torch's, pandas', pyarrow's."""
    return hasattr(type(value), "nbytes") and not _holds_objects(value)


def _holds_objects(value: Any) -> bool:
    """Whether it is an array of NumPy's or a column of pandas' whose values are Python objects."""
    dtype = getattr(value, "dtype", None) if hasattr(type(value), "nbytes") else None
    return type(dtype).__module__.startswith("numpy") and getattr(dtype, "kind", "") == "O"


def _is_frame(value: Any) -> bool:
    return hasattr(type(value), "dtypes") and hasattr(type(value), "items")
