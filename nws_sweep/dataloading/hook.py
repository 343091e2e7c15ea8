"""Replaces the iterators of all DataLoaders of an unchanged program."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from nws_sweep.system import torch_internals

_METHOD = torch_internals.GET_ITERATOR


def wrap_iterators(
    get_iterator: Callable[[Callable[[Any], Any], Any], Any],
) -> Callable[[], None]:
    """Wraps the method by which a DataLoader makes an iterator; returns a function that
    restores it, to be called once.

    Every DataLoader keeps its type. The method of subclasses that define it is wrapped
    too, also of subclasses that are defined later.

    Args:
        get_iterator: Called with the DataLoader's own method and the DataLoader;
            returns an iterator over one epoch.
    """
    base: Any = DataLoader
    restoring = contextlib.ExitStack()
    hook_before = vars(base).get("__init_subclass__")  # of another hook
    if hook_before is not None:
        restoring.callback(setattr, base, "__init_subclass__", hook_before)
    restoring.callback(delattr, base, "__init_subclass__")

    def wrap_subclass(kind: Any, /, **keywords: Any) -> None:
        super(base, kind).__init_subclass__(**keywords)
        restoring.callback(_wrap(kind, get_iterator))

    kinds = [base]
    for kind in kinds:  # with their subclasses
        restoring.callback(_wrap(kind, get_iterator))
        kinds += [
            subclass for subclass in kind.__subclasses__() if subclass not in kinds
        ]
    base.__init_subclass__ = classmethod(wrap_subclass)
    return restoring.close


def _wrap(kind: type, get_iterator: Callable[..., Any]) -> Callable[[], None]:
    """Wraps the method of a class, if the class defines it; returns what restores
    it."""
    original = vars(kind).get(_METHOD)
    if original is None:
        return lambda: None

    @functools.wraps(original)
    def wrapper(loader: Any) -> Any:
        return get_iterator(original, loader)

    def restore() -> None:
        if getattr(kind, _METHOD) is wrapper:  # else the program has wrapped it too
            setattr(kind, _METHOD, original)

    setattr(kind, _METHOD, wrapper)
    return restore
