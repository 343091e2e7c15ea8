"""Replaces the iterators of all DataLoaders of an unchanged program."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from nws_sweep.system import torch_internals

_MODULE = "torch.utils.data.dataloader"
_METHOD = torch_internals.GET_ITERATOR


class LoaderHook:
    """Wraps the method by which a DataLoader makes an iterator, from ``start`` to ``restore``.

    Every DataLoader keeps its type. If the program has not imported torch yet, the method is wrapped when it does. The
    method of subclasses that have one of their own is wrapped too, also of those that are made later.

    Args:
        get_iterator: Called with the DataLoader's own method and the DataLoader; returns an iterator over one epoch.
    """

    def __init__(self, get_iterator: Callable[[Callable[[Any], Any], Any], Any]) -> None:
        self._get_iterator = get_iterator
        self._wrapped: list[tuple[type, Any, Any]] = []  # classes, their own methods, the wrappers

    def start(self) -> None:
        """Wraps the method."""
        if _MODULE in sys.modules:
            self._wrap(sys.modules[_MODULE])
        else:
            sys.meta_path.insert(0, self)

    def restore(self) -> None:
        """Restores the method."""
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        for owner, original, wrapper in self._wrapped:
            if getattr(owner, _METHOD) is wrapper:  # else the program has wrapped it too
                setattr(owner, _METHOD, original)
        if self._wrapped:
            del self._wrapped[0][0].__init_subclass__
        self._wrapped.clear()

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Part of Python's import system: wraps the method after its module has been executed."""
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: ModuleType) -> None:
                execute(module)
                self._wrap(module)

            setattr(spec.loader, "exec_module", executed)  # noqa: B010
        return spec

    def _wrap(self, module: ModuleType) -> None:
        owner = module.DataLoader
        if not hasattr(owner, _METHOD):  # the program goes on
            logging.getLogger(__name__).warning(
                "this torch has no DataLoader.%s: its DataLoaders stay as they are", _METHOD
            )
            return

        def made(kind: Any, /, **keywords: Any) -> None:
            super(owner, kind).__init_subclass__(**keywords)
            self._wrap_method(kind)

        self._wrap_method(owner)
        for kind in _subclasses(owner):
            self._wrap_method(kind)
        owner.__init_subclass__ = classmethod(made)

    def _wrap_method(self, owner: type) -> None:
        """Wraps the method of a class that has one of its own."""
        original = vars(owner).get(_METHOD)
        if original is None or owner.__module__.startswith("nws_sweep."):
            return

        @functools.wraps(original)
        def wrapper(loader: Any) -> Any:
            return self._get_iterator(original, loader)

        self._wrapped.append((owner, original, wrapper))
        setattr(owner, _METHOD, wrapper)


def _subclasses(kind: Any) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)
