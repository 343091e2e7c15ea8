"""Replaces the iterators of all DataLoaders of an unchanged program."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader

from nws_sweep.system import torch_internals

_METHOD = torch_internals.GET_ITERATOR


def wrap_iterators(get_iterator: Callable[[Callable[[Any], Any], Any], Any]) -> Callable[[], None]:
    """Wraps the method by which a DataLoader makes an iterator; returns a function that restores it, to be called once.

    Every DataLoader keeps its type. The method of subclasses that define it is wrapped too, also of those
    that are made later.

    Args:
        get_iterator: Called with the DataLoader's own method and the DataLoader; returns an iterator over one epoch.
    """
    owner: Any = DataLoader
    wrapped: list[tuple[type, Any, Any]] = []  # classes, their own methods, the wrappers
    before = vars(owner).get("__init_subclass__")  # of another hook

    def made(kind: Any, /, **keywords: Any) -> None:
        super(owner, kind).__init_subclass__(**keywords)
        wrapped.extend(_wrapped(kind, get_iterator))

    def restore() -> None:
        for kind, original, wrapper in wrapped:
            if getattr(kind, _METHOD) is wrapper:  # else the program has wrapped it too
                setattr(kind, _METHOD, original)
        del owner.__init_subclass__
        if before is not None:
            owner.__init_subclass__ = before

    kinds = [owner]
    for kind in kinds:  # with their subclasses
        wrapped.extend(_wrapped(kind, get_iterator))
        kinds += [one for one in kind.__subclasses__() if one not in kinds]
    owner.__init_subclass__ = classmethod(made)
    return restore


def _wrapped(kind: type, get_iterator: Callable[..., Any]) -> Iterator[tuple[type, Any, Any]]:
    """Wraps the method of a class that defines it."""
    original = vars(kind).get(_METHOD)
    if original is not None:

        @functools.wraps(original)
        def wrapper(loader: Any) -> Any:
            return get_iterator(original, loader)

        setattr(kind, _METHOD, wrapper)
        yield kind, original, wrapper
