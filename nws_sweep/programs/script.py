"""Runs a program in this process as ``python`` does, with a hook that begins when the program has imported torch."""

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any


def run(program: str, arguments: Sequence[str], *, is_module: bool) -> None:
    """Runs a program as ``__main__``; its exceptions leave the traceback without the frames of this package.

    Args:
        program: The path of a file, or the name of a module or package.
        arguments: Those of the program.
        is_module: Whether it is a name, as after ``python -m``.
    """
    sys.argv[:] = [program, *arguments]
    if not getattr(sys.flags, "safe_path", False):  # since Python 3.11
        sys.path[0] = str(Path.cwd() if is_module else Path(program).resolve().parent)
    try:
        if is_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            _run_file(str(Path(program).absolute()))
    except BaseException as error:
        _show_only(error, _frames_of_program(error.__traceback__))
        raise


def _run_file(file: str) -> None:
    """Unlike ``runpy.run_path``, this leaves the module in ``sys.modules``, for threads and exit handlers."""
    module = ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    vars(module).update(__file__=file, __loader__=loader, __builtins__=builtins)
    sys.modules["__main__"] = module
    exec(compile(loader.get_data(file), file, "exec", dont_inherit=True), vars(module))


def after_torch(begin: Callable[[], None]) -> None:
    """Calls a function when torch has been imported, which a program may prepare by variables of its environment."""
    if "torch" in sys.modules:
        begin()
    else:
        sys.meta_path.insert(0, _TorchFinder(begin))


@dataclass(frozen=True)
class _TorchFinder(importlib.abc.MetaPathFinder):
    """Calls a function after the import of torch."""

    begin: Callable[[], None]

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        """The module's own spec, whose loader calls the function."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)  # a program may look for torch before it imports torch
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_begin(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self.begin()

        spec.loader.exec_module = execute_and_begin  # type: ignore[method-assign]
        return spec


def _frames_of_program(frames: TracebackType | None) -> TracebackType | None:
    """The traceback without the first frames, which run the program."""
    while frames is not None and frames.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        frames = frames.tb_next
    return frames


def _show_only(error: BaseException, frames: TracebackType | None) -> None:
    """Makes the interpreter, which reports the exception in its own way, show only these frames."""
    show = sys.excepthook

    def show_frames(kind: type[BaseException], raised: BaseException, all_frames: TracebackType | None) -> None:
        if raised is error:
            raised, all_frames = raised.with_traceback(frames), frames
        show(kind, raised, all_frames)

    sys.excepthook = show_frames
