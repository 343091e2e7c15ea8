"""Replaces the iterators of all DataLoaders of an unchanged program."""

import functools
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from nws_sweep.system import torch_internals

_METHOD = torch_internals.GET_ITERATOR


def wrap_iterators(get_iterator: Callable[[Callable[[Any], Any], Any], Any]) -> Callable[[], None]:
    """Wraps the method by which a DataLoader makes an iterator; returns a function that restores it, to be called once.

    Every DataLoader keeps its type. The method of subclasses that define it is wrapped too, also of
    subclasses that are defined later.

    Args:
        get_iterator: Called with the DataLoader's own method and the DataLoader; returns an iterator over one epoch.
    """
    base: Any = DataLoader
    methods = _WrappedMethods(get_iterator)
    hook_before = vars(base).get("__init_subclass__")  # of another hook

    def wrap_subclass(kind: Any, /, **keywords: Any) -> None:
        super(base, kind).__init_subclass__(**keywords)
        methods.wrap(kind)

    def restore() -> None:
        methods.restore()
        del base.__init_subclass__
        if hook_before is not None:
            base.__init_subclass__ = hook_before

    kinds = [base]
    for kind in kinds:  # with their subclasses
        methods.wrap(kind)
        kinds += [subclass for subclass in kind.__subclasses__() if subclass not in kinds]
    base.__init_subclass__ = classmethod(wrap_subclass)
    return restore


class _WrappedMethods:
    """The wrapped methods of the classes that define them."""

    def __init__(self, get_iterator: Callable[..., Any]) -> None:
        self._get_iterator = get_iterator
        self._wrapped: list[tuple[type, Any, Any]] = []  # classes, their own methods, the wrappers

    def wrap(self, kind: type) -> None:
        """Wraps the method of a class, if the class defines it."""
        original, get_iterator = vars(kind).get(_METHOD), self._get_iterator
        if original is None:
            return

        @functools.wraps(original)
        def wrapper(loader: Any) -> Any:
            return get_iterator(original, loader)

        setattr(kind, _METHOD, wrapper)
        self._wrapped.append((kind, original, wrapper))

    def restore(self) -> None:
        """Restores the methods of all classes."""
        for kind, original, wrapper in self._wrapped:
            if getattr(kind, _METHOD) is wrapper:  # else the program has wrapped it too
                setattr(kind, _METHOD, original)
