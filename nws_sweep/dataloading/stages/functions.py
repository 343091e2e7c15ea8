"""Which functions are stages of a sample, and their names as the user writes them.

Stages are the objects and functions that a dataset and its ``collate_fn`` hold, such as the transforms of torchvision,
albumentations and MONAI, the functions of the project, and what these and the dataset call directly. Functions that a
library calls inside are parts of their stage. A function is recognized by its code, an object by its identity.
"""

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset

from nws_sweep.dataloading import objects
from nws_sweep.dataloading.digests import SampleLog
from nws_sweep.dataloading.fingerprints import is_library, is_of_library
from nws_sweep.dataloading.stages.clock import Stage
from nws_sweep.results import StageKind

_TYPED_IN = ("<stdin>", "<ipython-input")  # code of the user without a file
_INNER = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}  # parts of the function around them
# What a search adds to the making of batches, which belongs to none of their stages.
_ADDED: dict[CodeType, Any] = {one.__code__: one for one in (SampleLog.note_batch, SampleLog.note)}
_COUNTING = "nws_sweep.dataloading.recording"  # adds methods around those of the dataset


class StageFunctions:
    """The functions that are stages of one loader.

    Args:
        dataset: Of the loader.
        collate_fn: Of the loader; None for batches that the dataset makes.
    """

    def __init__(self, dataset: Any, collate_fn: Any = None) -> None:
        reached = [value for part in (dataset, collate_fn) for value in _reached(part)]
        making = [_making(one) for one in (dataset, *(value for value in reached if isinstance(value, Dataset)))]
        called = [(value, function) for value in reached if (function := _called(value))]
        held = list(_of_user(reached))
        self._methods = {function.__code__ for _, function in called}
        self._of_datasets = {function.__code__ for functions in making for function in functions}
        known = chain(
            *making, (function for _, function in called), held, *map(_methods_of_user, reached),
            [_undecorated(collate_fn)] if isinstance(collate_fn, FunctionType) else [], _ADDED.values(),
        )  # fmt: skip
        self.known = list(dict.fromkeys(known))  # of one ``def`` there may be several
        # Those that functions of the user may call; all functions of a decorator have one code.
        functions = dict.fromkeys(value for value in reached if isinstance(value, FunctionType))
        self.of_libraries = [one for one in functions if one not in self.known and not hasattr(one, "__wrapped__")]
        self._codes = {function.__code__ for function in self.known}
        self.added = Stage("")
        self._stages: dict[object, Stage] = {}
        self._of_code: dict[CodeType, list[Stage]] = {}
        self._names: Counter[str] = Counter()
        for value, function in called:  # numbered in the same order in each worker
            place = _place_of(type(value)) or function.__code__
            self._named((function.__code__, id(value)), _method_name(value), place, StageKind.OBJECT)
        for function in held:
            self.of_code(function.__code__, None, function.__module__, function.__qualname__)
        self.root = self._root(dataset)

    def is_cheap(self, code: CodeType) -> bool:
        """Whether all objects that have this code are known to be cheap."""
        return all(stage.is_cheap for stage in self._of_code.get(code, ()))

    def _named(self, key: tuple[Any, int], name: str, code: CodeType | None, kind: StageKind) -> Stage:
        """A new stage; those of several objects of one class are numbered."""
        self._names[name] += 1
        name = name if self._names[name] == 1 else f"{name} #{self._names[name]}"
        file, line = (code.co_filename, code.co_firstlineno) if code else ("", 0)
        self._stages[key] = stage = Stage(name, file, line, kind)
        self._of_code.setdefault(key[0], []).append(stage)
        return stage

    def _root(self, dataset: Any) -> Stage:
        """The making of batches: the dataset's own code, and what stands around it."""
        code = next((function.__code__ for function in _making(dataset)), None)
        name = _method_name(dataset, code.co_name) if code else f"inside {_method_name(dataset)}"
        return self._named((code, id(dataset)), name, code, StageKind.DATASET)

    def is_stage(self, code: CodeType) -> bool:
        """Whether each call of this code is a stage: of an object that the dataset holds, or a function of the user."""
        return code in self._codes or self.is_followed(code)

    def is_followed(self, code: CodeType) -> bool:
        """Whether direct calls of this code are stages too: the dataset's own code and functions of the user."""
        return code in self._of_datasets or _is_users_file(code.co_filename)

    def of_frame(self, frame: FrameType, caller: Stage) -> Stage:
        """The stage of a Python function that has just been called by the stage ``caller``."""
        code = frame.f_code
        if code.co_name in _INNER:
            return caller
        names, rest, _, values = inspect.getargvalues(frame)
        itself = values.get(names[0]) if names else next(iter(values.get(rest or "", ())), None)
        module, qualified = frame.f_globals.get("__name__", ""), getattr(code, "co_qualname", code.co_name)
        return self.of_code(code, itself, module, qualified)

    def of_code(self, code: CodeType, itself: Any, module: str, qualified: str) -> Stage:
        """The stage of a function with this code, module and qualified name; ``itself`` is its first argument."""
        if code in _ADDED:
            return self.added
        kind = self._kind_of(code)
        is_method = kind is not StageKind.FUNCTION
        key = (code, id(itself) if is_method else 0)
        if key in self._stages:
            return self._stages[key]
        name = public_name(module, qualified.replace("<lambda>", "lambda"))
        return self._named(key, _method_name(itself, code.co_name) if is_method else name, code, kind)

    def _kind_of(self, code: CodeType) -> StageKind:
        if code in self._of_datasets:
            return StageKind.DATASET
        return StageKind.OBJECT if code in self._methods else StageKind.FUNCTION

    def of_callable(self, called: Any) -> Stage:
        """The stage of a function or an object without a Python frame."""
        name = _callable_name(called)
        return self._stages.setdefault(name, Stage(name))


@functools.cache
def _is_users_file(path: str) -> bool:
    return path.startswith(_TYPED_IN) if path.startswith("<") else not is_library(path)


def _of_user(values: Iterable[Any]) -> Iterator[FunctionType]:
    functions = (_undecorated(value) for value in values if isinstance(value, FunctionType))
    return (function for function in functions if _is_users_file(function.__code__.co_filename))


def _reached(part: Any) -> Iterator[Any]:
    """The objects that a dataset or a function reaches, without the parts of which objects of libraries are made.

    Elements of their lists, as those of ``Compose``, are not such parts, nor is what a dataset of a library holds.
    """
    places: dict[str, Any] = {}
    for place, value in objects.walk(part):
        owner = places.get(place.rpartition(".")[0]) if "." in place else part
        places.setdefault(place, value)
        is_element = place.endswith("]") and "._modules[" not in place
        is_part = is_of_library(type(owner)) and not isinstance(owner, Dataset | nn.Sequential | nn.ModuleList)
        if is_element or not is_part or isinstance(value, FunctionType):
            yield value


def _place_of(kind: type) -> CodeType | None:
    """A method of a class, the first one, whose base class has the code that is called; None if it has none."""
    return next((member.__code__ for member in vars(kind).values() if isinstance(member, FunctionType)), None)


def _making(dataset: Any) -> list[FunctionType]:
    """The Python functions of a dataset that make samples, the one that DataLoader calls first."""
    names = ("__iter__", "__next__") if isinstance(dataset, IterableDataset) else ("__getitems__", "__getitem__")
    found = []
    for name in names:
        members = (vars(kind).get(name) for kind in type(dataset).__mro__)
        found.append(next((one for one in members if one and getattr(one, "__module__", "") != _COUNTING), None))
    return [_undecorated(function) for function in found if isinstance(function, FunctionType)]


def _called(value: Any) -> FunctionType | None:
    """The function of a callable object: ``forward`` for a module of torch, else ``__call__``; None without one."""
    if isinstance(value, type | FunctionType | MethodType | torch.jit.ScriptModule):
        return None
    name = "forward" if isinstance(value, nn.Module) else "__call__"
    function = inspect.getattr_static(type(value), name, None)
    return _undecorated(function) if isinstance(function, FunctionType) else None


def _undecorated(function: FunctionType) -> FunctionType:
    """The function that the user has written: all functions of a decorator have one code."""
    inner = inspect.unwrap(function)
    return inner if isinstance(inner, FunctionType) else function


def _methods_of_user(kind: Any) -> Iterator[FunctionType]:
    """All methods of a class of the user."""
    bases = kind.__mro__ if isinstance(kind, type) else ()
    return _of_user(getattr(member, "__func__", member) for base in bases for member in vars(base).values())


def _method_name(itself: Any, method: str = "__call__") -> str:
    """The class of an object that is called; with the method if it is another one."""
    kind = type(itself)
    name = public_name(kind.__module__, kind.__qualname__, kind)
    return name if method in {"__call__", "forward"} else f"{name}.{method}"


def _callable_name(called: Any) -> str:
    if isinstance(called, functools.partial):
        return _callable_name(called.func)
    owner = getattr(called, "__self__", None)
    if isinstance(called, BuiltinFunctionType | MethodType) and owner is not None and not inspect.ismodule(owner):
        kind = owner if isinstance(owner, type) else type(owner)
        if exported := _exported(kind.__module__, called.__name__, called):
            return exported
        return f"{public_name(kind.__module__, kind.__qualname__, kind)}.{called.__name__}"
    named = called if hasattr(called, "__qualname__") else type(called)
    return public_name(getattr(named, "__module__", None) or "", named.__qualname__, named)


def public_name(module: str, qualified: str, value: object = None) -> str:
    """The shortest name under which a package exports the object: ``torchvision.transforms.v2.Resize``.

    Without ``__main__``, ``builtins`` and the functions in which something was defined.

    Args:
        module: That defines the object.
        qualified: Its name in the module.
        value: The object; None to look it up.
    """
    own = qualified.rpartition("<locals>.")[2]
    if module in {"", "__main__", "builtins"}:
        return own
    first, _, _ = own.partition(".")
    value = getattr(sys.modules.get(module), first, value)  # not a subclass that has taken its name
    return _exported(module, own, value) or f"{module}.{own}"


def _exported(module: str, name: str, value: object) -> str:
    """The name under which the outermost package exports the object; empty if none does."""
    first, parts = name.partition(".")[0], module.split(".")
    prefixes = (".".join(parts[:count]) for count in range(1, len(parts)))
    found = (one for one in prefixes if value is not None and getattr(sys.modules.get(one), first, None) is value)
    prefix = next(found, "")
    return f"{prefix}.{name}" if prefix else ""
