"""Finds the objects that a dataset reaches, and containers of many Python objects, which forked workers copy.

Forked processes share a memory page until one writes to it. Reading a Python object writes its reference count, so each
worker copies the lists of file names that it reads; an array or a tensor is one object.
"""

import contextlib
import functools
import inspect
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from nws_sweep.dataloading.fingerprints import CONTAINERS, attributes, is_library, is_of_library
from nws_sweep.results import PythonObjects

_LEAST_BYTES = 1_000_000
# Elements from which on a container is taken to hold samples; smaller ones hold parts, such as datasets.
_MANY = 1000
_SAMPLED = 1000
_MOST_DEPTH = 5  # of sizes
_MOST_OBJECTS = 20_000  # some tens of milliseconds
_PAGE_BYTES = 4096  # copied of a large object: the page with its reference count
_ARRAY_BYTES = 128
_IN_MEMORY = ("numpy", "torch", "pandas", "pyarrow", "polars")  # whose arrays and tables hold no handles
_PLAIN = (str, bytes, int, float, complex, bool, type(None), ModuleType, logging.Logger)
_ATOMS = (*_PLAIN, type, FunctionType, MethodType)


def python_objects(dataset: Any) -> tuple[PythonObjects, ...]:
    """Containers of many Python objects in a dataset or in the datasets that it wraps, the largest first.

    Sizes are estimated from 1000 elements of each; repeated references to one object, such as a label, count once.
    """
    large = (_summary(value, path) for path, value in walk(dataset) if _is_large(value))
    return tuple(sorted((found for found in large if found.bytes >= _LEAST_BYTES), key=lambda found: -found.bytes))


def containers(dataset: Any) -> list[tuple[str, Any]]:
    """The containers in a dataset with their places; of those in large ones, none."""
    return [(f"dataset.{place}", value) for place, value in walk(dataset) if isinstance(value, CONTAINERS)]


def walk(value: Any, *, sample: "Sample | None" = None) -> Iterator[tuple[str, Any]]:
    """The objects that a dataset reaches, the nearest first, with their places such as ``parts[0].samples``.

    They are reached by attributes, elements of small containers, closures, and the globals of functions and attributes
    of classes outside of libraries. Plain values are left out.

    Args:
        value: A dataset, or another object.
        sample: Which of them; None for all elements of small containers and none of large ones.
    """
    seen: dict[int, Any] = {}  # holds references, so that no id is reused
    waiting = deque([("", value)])
    most = sample.objects if sample else _MOST_OBJECTS
    while waiting and len(seen) < most:
        path, value = waiting.popleft()
        if id(value) in seen or isinstance(value, _PLAIN):
            continue
        seen[id(value)] = value
        yield path, value
        if sample is not None and sample.is_leaf(value):
            continue
        if sample is not None and _length(value) > sample.elements:
            waiting.extend(_sampled(value, path, sample.elements))
        elif not (_is_large(value) or _is_array(value)) or (sample is not None and _reads_from_store(value)):
            waiting.extend(_parts(value, path))


@dataclass(frozen=True, slots=True)
class Sample:
    """Some of the objects that a dataset reaches.

    Attributes:
        objects: At most.
        elements: Of each container, at most, at even distances; of a mapping, values.
        is_leaf: Whether what an object holds is left out.
    """

    objects: int
    elements: int
    is_leaf: Callable[[Any], bool]


def _length(value: Any) -> int:
    """Elements of a container; 0 for other objects."""
    elements = _elements(value)
    return 0 if elements is None else len(elements)


def _sampled(container: Any, path: str, count: int) -> Iterator[tuple[str, Any]]:
    elements = _elements(container)
    step = len(elements) // count
    numbered = container.items() if isinstance(container, dict) else enumerate(elements)
    for key, inner in islice(numbered, 0, None, step):
        yield f"{path}[{key!r}]", inner


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    elements, kind = _elements(value), type(value)
    if isinstance(value, dict) or (hasattr(kind, "dtypes") and hasattr(kind, "items")):  # or a DataFrame
        yield from ((f"{path}[{key!r}]", inner) for key, inner in value.items())
    elif elements is not None:
        yield from ((f"{path}[{index}]", inner) for index, inner in enumerate(elements))
    elif isinstance(value, MethodType | BuiltinMethodType):
        yield from ((path, inner) for inner in (value.__self__, getattr(value, "__func__", None)))
    elif isinstance(value, functools.partial):
        yield from ((path, inner) for inner in (value.func, value.args, value.keywords))
    elif isinstance(value, FunctionType):
        yield from _used_by(value)
    elif isinstance(value, type):
        for base in value.__mro__:
            yield from _of_class(base, f"{path}." if path else "")
    else:
        yield from ((f"{path}.{name}" if path else name, inner) for name, inner in attributes(value))
        yield path, kind


def _of_class(kind: type, prefix: str) -> Iterator[tuple[str, Any]]:
    """What the functions of a class use, and the attributes of a class outside of libraries."""
    is_own = not is_of_library(kind)
    for name, member in vars(kind).items():
        if hasattr(type(member), "__get__"):  # a function, or another descriptor
            function = getattr(member, "__func__", getattr(member, "fget", member))
            yield from _used_by(function) if isinstance(function, FunctionType) else ()
        elif is_own and not name.startswith("__"):
            yield prefix + name, member


def _used_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables of a closure, the used globals, and functions of modules; none of a library's function."""
    if not is_library(function.__code__.co_filename):
        with contextlib.suppress(ValueError):  # an empty cell
            used = inspect.getclosurevars(function)
            found = {**used.globals, **used.nonlocals}
            yield from found.items()
            yield from _of_modules(function.__code__.co_names, found.values())


def _of_modules(names: Sequence[str], values: Iterable[Any]) -> Iterator[tuple[str, FunctionType]]:
    """Functions with these names in the modules among the values, as ``helpers.read`` is named in code."""
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
    sizes: dict[int, int] = {}
    new = sum(_add_sizes(element, sizes) for element in sample)
    # If most elements repeat, the sample most likely has all distinct objects.
    share = len(elements) / len(sample) if new >= len(sample) / 2 else 1.0
    names = dict.fromkeys(type(element).__name__ for element in sample)
    for value in [container[key] for key in sample] if isinstance(container, dict) else []:
        _add_sizes(value, sizes)
        names[type(value).__name__] = None
    return PythonObjects(
        attribute=path,
        type=f"{type(container).__name__} of {' and '.join(islice(names, 3))}",
        count=len(elements),
        bytes=round(share * sum(sizes.values())),
    )


def _add_sizes(value: Any, sizes: dict[int, int], depth: int = _MOST_DEPTH) -> bool:
    """Adds the sizes of an object and of the objects in it to ``sizes``; returns whether the object was not there."""
    if id(value) in sizes:
        return False
    sizes[id(value)] = _ARRAY_BYTES if _is_array(value) else min(sys.getsizeof(value), _PAGE_BYTES)
    if depth and not isinstance(value, _ATOMS) and not _is_array(value):
        elements = _elements(value)
        inside = getattr(value, "__dict__", {}).values() if elements is None else elements
        for inner in islice(chain.from_iterable(value.items()) if isinstance(value, dict) else inside, _SAMPLED):
            _add_sizes(inner, sizes, depth - 1)
    return True


def _elements(value: Any) -> Any:
    """The elements of a container, an object array of NumPy or an object column of pandas; None for others."""
    if isinstance(value, CONTAINERS):
        return value
    # Arrays of other libraries, such as those of h5py and zarr, would be read from their files.
    is_loaded = isinstance(value, np.ndarray) or f"{type(value).__module__}.".startswith("pandas.")
    dtype = getattr(value, "dtype", None) if is_loaded else None
    return np.asarray(value).reshape(-1) if isinstance(dtype, np.dtype) and dtype.kind == "O" else None


def _is_large(value: Any) -> bool:
    return _length(value) >= _MANY


def _reads_from_store(value: Any) -> bool:
    """Whether an array is of another library, such as zarr and xarray: it holds the store that it reads from."""
    library, _, _ = type(value).__module__.partition(".")
    return _is_array(value) and library not in _IN_MEMORY


def _is_array(value: Any) -> bool:
    """Whether the values are not Python objects: arrays of NumPy and pyarrow, tensors, columns of pandas."""
    return hasattr(type(value), "nbytes") and _elements(value) is None
