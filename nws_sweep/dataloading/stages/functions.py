"""Decides which functions are stages of a sample, and names them as the user writes
them.

Stages are the objects and functions that a dataset and its ``collate_fn`` hold, such as
the transforms of torchvision, albumentations and MONAI, the functions of the project,
and what these and the dataset call directly. Functions that a library calls inside are
parts of their stage. A function is recognized by its code, an object by its identity.
"""

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset

from nws_sweep.dataloading import objects
from nws_sweep.dataloading.digests import SampleLog
from nws_sweep.dataloading.fingerprints import is_library, is_of_library
from nws_sweep.dataloading.stages.clock import Stage
from nws_sweep.records import StageKind

_TYPED_IN = ("<stdin>", "<ipython-input")  # code of the user without a file
# parts of the function around them
_INNER = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
# What a search adds to the making of batches, which belongs to none of their stages.
_ADDED: tuple[Any, ...] = (SampleLog.note_batch, SampleLog.note)
_ADDED_CODES = {function.__code__ for function in _ADDED}
# adds methods around the methods of the dataset
_COUNTING = "nws_sweep.dataloading.counting"


class StageFunctions:
    """The functions that are stages of one loader.

    Args:
        dataset: Of the loader.
        collate_fn: Of the loader; None for batches that the dataset makes.

    Attributes:
        always_stages: Functions whose calls are all stages.
        of_libraries: Functions whose calls are stages if a function of the user calls
            them.
        root: The stage that makes the batch.
        added: The stage of what a search adds.
    """

    def __init__(self, dataset: Any, collate_fn: Any = None) -> None:
        self.added = Stage("")
        self._stages: dict[object, Stage] = {}
        self._of_code: dict[CodeType | None, list[Stage]] = {}
        self._names: Counter[str] = Counter()
        reached = [*_reached(dataset), *_reached(collate_fn)]
        making = _making(dataset)
        root_code = making[0].__code__ if making else None
        for value in reached:
            if isinstance(value, Dataset):
                making += _making(value)
        called = [
            (value, function) for value in reached if (function := _called(value))
        ]
        held = _of_user(reached)
        self._of_datasets = {function.__code__ for function in making}
        self._methods = {function.__code__ for _, function in called}
        functions = [*making, *(function for _, function in called), *held]
        for value in reached:
            functions += _methods_of_user(value)
        if isinstance(collate_fn, FunctionType):
            functions.append(_undecorated(collate_fn))
        # of one ``def`` there may be several
        self.always_stages = list(dict.fromkeys([*functions, *_ADDED]))
        self._codes = {function.__code__ for function in self.always_stages}
        self.of_libraries = _of_libraries(reached, self.always_stages)
        for value, function in called:  # numbered in the same order in each worker
            place = _place_of(type(value)) or function.__code__
            self._add(
                (function.__code__, id(value)),
                _method_name(value),
                place,
                StageKind.OBJECT,
            )
        for function in held:
            self.of_code(
                function.__code__, None, function.__module__, function.__qualname__
            )
        self.root = self._add_root(dataset, root_code)

    def is_cheap(self, code: CodeType) -> bool:
        """Whether all objects that have this code are known to be cheap."""
        return all(stage.is_cheap for stage in self._of_code.get(code, ()))

    def _add(
        self,
        key: tuple[CodeType | None, int],
        name: str,
        code: CodeType | None,
        kind: StageKind,
    ) -> Stage:
        """Adds a stage; the stages of several objects of one class are numbered."""
        self._names[name] += 1
        if self._names[name] > 1:
            name = f"{name} #{self._names[name]}"
        stage = Stage(name, kind=kind)
        if code is not None:
            stage.file, stage.line = code.co_filename, code.co_firstlineno
        self._stages[key] = stage
        self._of_code.setdefault(key[0], []).append(stage)
        return stage

    def _add_root(self, dataset: Any, code: CodeType | None) -> Stage:
        """Adds the making of batches: the dataset's own code, and what stands around
        it."""
        name = f"inside {_method_name(dataset)}"
        if code is not None:
            name = _method_name(dataset, code.co_name)
        return self._add((code, id(dataset)), name, code, StageKind.DATASET)

    def is_stage(self, code: CodeType) -> bool:
        """Whether each call of this code is a stage: of an object that the dataset
        holds, or a function of the user."""
        return code in self._codes or self.is_followed(code)

    def is_followed(self, code: CodeType) -> bool:
        """Whether direct calls of this code are stages too: the dataset's own code and
        functions of the user."""
        return code in self._of_datasets or _is_users_file(code.co_filename)

    def of_frame(self, frame: FrameType, caller: Stage) -> Stage:
        """Returns the stage of a Python function that has just been called by the stage
        ``caller``."""
        code = frame.f_code
        if code.co_name in _INNER:
            return caller
        names, rest, _, values = inspect.getargvalues(frame)
        arguments = [values.get(names[0])] if names else values.get(rest or "", ())
        itself = next(iter(arguments), None)
        module, qualified = (
            frame.f_globals.get("__name__", ""),
            getattr(code, "co_qualname", code.co_name),
        )
        return self.of_code(code, itself, module, qualified)

    def of_code(
        self, code: CodeType, itself: Any, module: str, qualified: str
    ) -> Stage:
        """Returns the stage of a function with this code, module and qualified name;
        ``itself``: its first argument."""
        if code in _ADDED_CODES:
            return self.added
        kind = StageKind.FUNCTION
        if code in self._of_datasets:
            kind = StageKind.DATASET
        elif code in self._methods:
            kind = StageKind.OBJECT
        is_method = kind is not StageKind.FUNCTION
        key = (code, id(itself) if is_method else 0)
        if key in self._stages:
            return self._stages[key]
        if is_method:
            name = _method_name(itself, code.co_name)
        else:
            name = public_name(module, qualified.replace("<lambda>", "lambda"))
        return self._add(key, name, code, kind)

    def of_callable(self, called: Any) -> Stage:
        """Returns the stage of a function or an object without a Python frame."""
        name = _callable_name(called)
        return self._stages.setdefault(name, Stage(name))


@functools.cache
def _is_users_file(path: str) -> bool:
    if path.startswith("<"):
        return path.startswith(_TYPED_IN)
    return not is_library(path)


def _of_user(values: Iterable[Any]) -> list[FunctionType]:
    """Returns the functions of the user among some values."""
    functions = []
    for value in values:
        if isinstance(value, FunctionType):
            function = _undecorated(value)
            if _is_users_file(function.__code__.co_filename):
                functions.append(function)
    return functions


def _of_libraries(
    values: Iterable[Any], excluded: Sequence[FunctionType]
) -> list[FunctionType]:
    """Returns functions among some values that functions of the user may call."""
    functions = []
    for value in dict.fromkeys(
        value for value in values if isinstance(value, FunctionType)
    ):
        # all functions of a decorator have one code
        if value not in excluded and not hasattr(value, "__wrapped__"):
            functions.append(value)
    return functions


def _reached(root: Any) -> Iterator[Any]:
    """Yields what a dataset or a function reaches, without the parts of which objects
    of libraries are made.

    Elements of lists in them, such as the transforms in ``Compose``, are not such
    parts, nor is what a dataset of a library holds.
    """
    values: dict[str, Any] = {}  # by place
    for place, value in objects.walk(root):
        values.setdefault(place, value)
        holder_place, dot, _ = place.rpartition(".")
        holder = values.get(holder_place) if dot else root
        is_part = is_of_library(type(holder)) and not isinstance(
            holder, Dataset | nn.Sequential | nn.ModuleList
        )
        is_element = place.endswith("]") and "._modules[" not in place
        if is_element or not is_part or isinstance(value, FunctionType):
            yield value


def _place_of(kind: type) -> CodeType | None:
    """Returns the code of a class's first method, whose base class has the code that is
    called; None without one."""
    for member in vars(kind).values():
        if isinstance(member, FunctionType):
            return member.__code__
    return None


def _making(dataset: Any) -> list[FunctionType]:
    """Returns the Python functions of a dataset that make samples, the one that
    DataLoader calls first."""
    names = (
        ("__iter__", "__next__")
        if isinstance(dataset, IterableDataset)
        else ("__getitems__", "__getitem__")
    )
    functions = []
    for name in names:
        for kind in type(dataset).__mro__:
            member = vars(kind).get(name)
            if member and getattr(member, "__module__", "") != _COUNTING:
                if isinstance(member, FunctionType):
                    functions.append(_undecorated(member))
                break
    return functions


def _called(value: Any) -> FunctionType | None:
    """Returns the function of a callable object: ``forward`` of a module of torch, else
    ``__call__``; or None."""
    if isinstance(value, type | FunctionType | MethodType | torch.jit.ScriptModule):
        return None
    name = "forward" if isinstance(value, nn.Module) else "__call__"
    function = inspect.getattr_static(type(value), name, None)
    return _undecorated(function) if isinstance(function, FunctionType) else None


def _undecorated(function: FunctionType) -> FunctionType:
    """Returns the function that the user has written: all functions of a decorator have
    one code."""
    inner = inspect.unwrap(function)
    return inner if isinstance(inner, FunctionType) else function


def _methods_of_user(kind: Any) -> list[FunctionType]:
    """Returns all methods of a class of the user; none for other values."""
    if not isinstance(kind, type):
        return []
    methods = []
    for base in kind.__mro__:
        methods += [
            getattr(member, "__func__", member) for member in vars(base).values()
        ]
    return _of_user(methods)


def _method_name(itself: Any, method: str = "__call__") -> str:
    """Names the class of an object that is called; with the method, if it is no call of
    the object itself."""
    name = _definition_name(type(itself))
    return name if method in {"__call__", "forward"} else f"{name}.{method}"


def _callable_name(called: Any) -> str:
    if isinstance(called, functools.partial):
        return _callable_name(called.func)
    owner = getattr(called, "__self__", None)
    if (
        isinstance(called, BuiltinFunctionType | MethodType)
        and owner is not None
        and not inspect.ismodule(owner)
    ):
        kind = owner if isinstance(owner, type) else type(owner)
        exported = _exported(kind.__module__, called.__name__, called)
        return exported or f"{_definition_name(kind)}.{called.__name__}"
    return _definition_name(called if hasattr(called, "__qualname__") else type(called))


def _definition_name(definition: Any) -> str:
    """Names a class or a function."""
    return public_name(
        getattr(definition, "__module__", None) or "",
        definition.__qualname__,
        definition,
    )


def public_name(module: str, qualified: str, value: object = None) -> str:
    """Returns the shortest name under which a package exports the object:
    ``torchvision.transforms.v2.Resize``.

    Without ``__main__``, ``builtins`` and the functions in which something was defined.

    Args:
        module: That defines the object.
        qualified: Its name in the module.
        value: The object; None to look it up.
    """
    name = qualified.rpartition("<locals>.")[2]
    if module in {"", "__main__", "builtins"}:
        return name
    first, _, _ = name.partition(".")
    # not a subclass that has taken its name
    value = getattr(sys.modules.get(module), first, value)
    return _exported(module, name, value) or f"{module}.{name}"


def _exported(module: str, name: str, value: object) -> str:
    """Returns the name under which the outermost package exports the object; empty if
    none does."""
    if value is None:
        return ""
    first, _, _ = name.partition(".")
    package = ""
    for part in module.split(".")[:-1]:
        package = f"{package}.{part}" if package else part
        if getattr(sys.modules.get(package), first, None) is value:
            return f"{package}.{name}"
    return ""
