"""Replaces the iterators of all DataLoaders of an unchanged program."""

import functools
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from nws_sweep.system import torch_internals

_METHOD = torch_internals.GET_ITERATOR


class LoaderHook:
    """Wraps the method by which a DataLoader makes an iterator, from ``start`` to ``restore``.

    Every DataLoader keeps its type. The method of subclasses that define it is wrapped too, also of those
    that are made later.

    Args:
        get_iterator: Called with the DataLoader's own method and the DataLoader; returns an iterator over one epoch.
    """

    def __init__(self, get_iterator: Callable[[Callable[[Any], Any], Any], Any]) -> None:
        self._get_iterator = get_iterator
        self._wrapped: list[tuple[type, Any, Any]] = []  # classes, their own methods, the wrappers
        self._before: Any = None

    def start(self) -> None:
        """Wraps the method."""
        owner: Any = DataLoader
        kinds = [owner]
        for kind in kinds:  # with their subclasses
            self._wrap_method(kind)
            kinds += [one for one in kind.__subclasses__() if one not in kinds]

        def made(kind: Any, /, **keywords: Any) -> None:
            super(owner, kind).__init_subclass__(**keywords)
            self._wrap_method(kind)

        self._before = vars(owner).get("__init_subclass__")  # of another hook
        owner.__init_subclass__ = classmethod(made)

    def restore(self) -> None:
        """Restores the method."""
        for owner, original, wrapper in self._wrapped:
            if getattr(owner, _METHOD) is wrapper:  # else the program has wrapped it too
                setattr(owner, _METHOD, original)
        if self._wrapped:
            kind: Any = DataLoader
            del kind.__init_subclass__
            if self._before is not None:
                kind.__init_subclass__ = self._before
        self._wrapped.clear()

    def _wrap_method(self, owner: type) -> None:
        """Wraps the method of a class that defines it."""
        original = vars(owner).get(_METHOD)
        if original is None:
            return

        @functools.wraps(original)
        def wrapper(loader: Any) -> Any:
            return self._get_iterator(original, loader)

        self._wrapped.append((owner, original, wrapper))
        setattr(owner, _METHOD, wrapper)
