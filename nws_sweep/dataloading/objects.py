"""Finds the objects that a dataset reaches, and containers of many Python objects,
which forked workers copy.

Forked processes share a memory page until one writes to it. Reading a Python object
writes its reference count, so each worker copies the lists of file names that it reads;
an array or a tensor is one object.
"""

import contextlib
import functools
import inspect
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from nws_sweep.dataloading.fingerprints import (
    CONTAINERS,
    attributes,
    is_library,
    is_of_library,
)
from nws_sweep.records import PythonObjects

_LEAST_BYTES = 1_000_000
# Elements from which on a container is taken to hold samples; smaller containers hold
# parts, such as datasets.
_MANY = 1000
_SAMPLED = 1000
_MOST_DEPTH = 5  # of sizes
_MOST_OBJECTS = 20_000  # some tens of milliseconds
_PAGE_BYTES = 4096  # copied of a large object: the page with its reference count
_ARRAY_BYTES = 128
# whose arrays and tables hold no handles
_IN_MEMORY = ("numpy", "torch", "pandas", "pyarrow", "polars")
_PLAIN = (str, bytes, int, float, complex, bool, type(None), ModuleType, logging.Logger)
_ATOMS = (*_PLAIN, type, FunctionType, MethodType)


def python_objects(dataset: Any) -> tuple[PythonObjects, ...]:
    """Returns containers of many Python objects in a dataset or in the datasets that it
    wraps, the largest first.

    Sizes are estimated from 1000 elements of each; repeated references to one object,
    such as a label, count once.
    """
    large = []
    for path, value in walk(dataset):
        if _is_large(value):
            summary = _summary(value, path)
            if summary.bytes >= _LEAST_BYTES:
                large.append(summary)
    return tuple(sorted(large, key=lambda summary: -summary.bytes))


def containers(dataset: Any) -> list[tuple[str, Any]]:
    """Returns the containers in a dataset with their places, but for containers in
    large ones."""
    return [
        (f"dataset.{place}", value)
        for place, value in walk(dataset)
        if isinstance(value, CONTAINERS)
    ]


def walk(
    value: Any,
    *,
    most_objects: int = _MOST_OBJECTS,
    most_elements: int | None = None,
    is_leaf: Callable[[Any], bool] = lambda value: False,
) -> Iterator[tuple[str, Any]]:
    """Yields the objects that a dataset reaches, the nearest first, with their places
    such as ``parts[0].samples``.

    They are reached by attributes, elements of containers, closures, and the globals of
    functions and attributes of classes outside of libraries. Plain values are left out.

    Args:
        value: A dataset, or another object.
        most_objects: At most so many are yielded.
        most_elements: Of each container about so many elements, at even distances, of a
            mapping values; None for all elements of small containers and none of large
            containers.
        is_leaf: Whether what an object holds is left out.
    """
    reached: dict[int, Any] = {}  # by id; holds references, so that no id is reused
    waiting = deque([("", value)])
    while waiting and len(reached) < most_objects:
        path, value = waiting.popleft()
        if id(value) in reached or isinstance(value, _PLAIN):
            continue
        reached[id(value)] = value
        yield path, value
        if not is_leaf(value):
            waiting.extend(_parts(value, path, most_elements))


def _length(value: Any) -> int:
    """Elements of a container; 0 for other objects."""
    elements = _elements(value)
    return 0 if elements is None else len(elements)


def _parts(
    value: Any, path: str, most_elements: int | None
) -> Iterator[tuple[str, Any]]:
    """Yields the parts of a value: of an array none, unless it has the store that it
    reads from."""
    if most_elements is None and (_is_large(value) or _is_array(value)):
        return
    if _is_array(value) and not _reads_from_store(value):
        return
    items = _items(value)
    if items is None:
        yield from _parts_of_object(value, path)
        return
    step = max(1, _length(value) // (most_elements or _MANY))
    for key, inner in islice(items, 0, None, step):
        yield f"{path}[{key!r}]", inner


def _parts_of_object(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yields what a value reaches that is no container."""
    prefix = f"{path}." if path else ""
    if isinstance(value, functools.partial):
        for inner in (value.func, value.args, value.keywords):
            yield path, inner
    elif isinstance(value, MethodType | BuiltinMethodType):
        yield path, value.__self__
        yield path, getattr(value, "__func__", None)
    elif isinstance(value, FunctionType):
        yield from _used_by(value)
    elif isinstance(value, type):
        yield from _of_class(value, prefix)
    else:
        for name, inner in attributes(value):
            yield f"{prefix}{name}", inner
        yield path, type(value)


def _items(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """Returns keys or indices of a container with its elements; None for other
    objects."""
    kind = type(value)
    # or a DataFrame
    if isinstance(value, dict) or (hasattr(kind, "dtypes") and hasattr(kind, "items")):
        items: Iterable[tuple[Any, Any]] = value.items()
        return items
    elements = _elements(value)
    return None if elements is None else enumerate(elements)


def _of_class(kind: type, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yields what the functions of a class use, and its attributes that are not of a
    library."""
    for base in kind.__mro__:
        is_of_user = not is_of_library(base)
        for name, member in vars(base).items():
            if hasattr(type(member), "__get__"):  # a function, or another descriptor
                function = getattr(member, "__func__", getattr(member, "fget", member))
                if isinstance(function, FunctionType):
                    yield from _used_by(function)
            elif is_of_user and not name.startswith("__"):
                yield prefix + name, member


def _used_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields the variables of a closure, the used globals, and functions of modules;
    none of a library's function."""
    if is_library(function.__code__.co_filename):
        return
    with contextlib.suppress(ValueError):  # an empty cell
        used = inspect.getclosurevars(function)
        variables = {**used.globals, **used.nonlocals}
        yield from variables.items()
        yield from _of_modules(function.__code__.co_names, variables.values())


def _of_modules(
    names: Sequence[str], values: Iterable[Any]
) -> Iterator[tuple[str, FunctionType]]:
    """Yields functions with these names in the modules among the values, as
    ``helpers.read`` is named in code."""
    modules = [value for value in values if isinstance(value, ModuleType)]
    for module in modules:  # which grows by modules in modules
        for name in names:
            value = vars(module).get(name)
            if isinstance(value, FunctionType):
                yield f"{module.__name__}.{name}", value
            elif isinstance(value, ModuleType) and value not in modules:
                modules.append(value)


def _summary(container: Any, path: str) -> PythonObjects:
    elements = _elements(container)
    step = max(1, len(elements) // _SAMPLED)
    # Evenly spaced elements; of a mapping, keys.
    is_indexed = isinstance(elements, list | tuple | np.ndarray)
    sample = list(elements[::step] if is_indexed else islice(elements, 0, None, step))
    values = [container[key] for key in sample] if isinstance(container, dict) else []
    sizes: dict[int, int] = {}
    new = sum(_add_sizes(element, sizes) for element in sample)
    for value in values:
        _add_sizes(value, sizes)
    # If most elements repeat, the sample most likely has all distinct objects.
    share = len(elements) / len(sample) if new >= len(sample) / 2 else 1.0
    names = dict.fromkeys(type(element).__name__ for element in [*sample, *values])
    return PythonObjects(
        attribute=path,
        type=f"{type(container).__name__} of {' and '.join(islice(names, 3))}",
        count=len(elements),
        bytes=round(share * sum(sizes.values())),
    )


def _add_sizes(value: Any, sizes: dict[int, int], depth: int = _MOST_DEPTH) -> bool:
    """Adds the sizes of an object and of the objects in it to ``sizes``; returns
    whether the object was not there."""
    if id(value) in sizes:
        return False
    if _is_array(value):
        sizes[id(value)] = _ARRAY_BYTES
        return True
    sizes[id(value)] = min(sys.getsizeof(value), _PAGE_BYTES)
    if depth and not isinstance(value, _ATOMS):
        inside = _elements(value)
        if isinstance(value, dict):
            inside = chain.from_iterable(value.items())
        elif inside is None:
            inside = getattr(value, "__dict__", {}).values()
        for inner in islice(inside, _SAMPLED):
            _add_sizes(inner, sizes, depth - 1)
    return True


def _elements(value: Any) -> Any:
    """Returns the elements of a container, an object array of NumPy or an object column
    of pandas; None for others."""
    if isinstance(value, CONTAINERS):
        return value
    # Arrays of other libraries, such as those of h5py and zarr, would be read from
    # their files.
    if isinstance(value, np.ndarray) or f"{type(value).__module__}.".startswith(
        "pandas."
    ):
        dtype = getattr(value, "dtype", None)
        if isinstance(dtype, np.dtype) and dtype.kind == "O":
            return np.asarray(value).reshape(-1)
    return None


def _is_large(value: Any) -> bool:
    return _length(value) >= _MANY


def _reads_from_store(value: Any) -> bool:
    """Whether an array is of another library, such as zarr and xarray: it holds the
    store that it reads from."""
    library, _, _ = type(value).__module__.partition(".")
    return _is_array(value) and library not in _IN_MEMORY


def _is_array(value: Any) -> bool:
    """Whether the values are not Python objects: arrays of NumPy and pyarrow, tensors,
    columns of pandas."""
    return hasattr(type(value), "nbytes") and _elements(value) is None
