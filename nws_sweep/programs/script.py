"""Runs a program in this process as ``python`` does, with a hook that begins when the
program has imported torch."""

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from nws_sweep.errors import ConfigurationError, one_line


@dataclass(frozen=True)
class Program:
    """A program that can be run as ``__main__``.

    Attributes:
        name: For messages.
        code: Of its main module.
        module: The main module, empty.
        first_argument: The first entry of ``sys.argv``.
        import_folder: The first entry of ``sys.path``.
    """

    name: str
    code: CodeType
    module: ModuleType
    first_argument: str
    import_folder: str

    def run(self, arguments: Sequence[str]) -> None:
        """Runs the program; its exceptions leave the traceback without the frames of
        this package."""
        sys.argv[:] = [self.first_argument, *arguments]
        _put_on_path(self.import_folder)
        sys.modules["__main__"] = self.module
        try:
            exec(self.code, vars(self.module))
        except BaseException as error:
            _show_only(error, _frames_since(vars(self.module), error.__traceback__))
            raise


def of_file(path: str) -> Program:
    """The program in a file. ConfigurationError if there is none."""
    if not Path(path).is_file():
        raise ConfigurationError(
            f"{path}: no such file; expected a program, such as train.py, or -m MODULE"
        )
    file = str(Path(path).absolute())
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    module = ModuleType("__main__")
    vars(module).update(__file__=file, __loader__=loader, __builtins__=builtins)
    # leaves no __pycache__
    code = _compiled(path, lambda: loader.source_to_code(loader.get_data(file), file))
    return Program(
        Path(path).name, code, module, path, str(Path(path).resolve().parent)
    )


def of_module(name: str) -> Program:
    """The program in a module, or in ``__main__`` of a package. ConfigurationError if
    there is none."""
    folder, spec = str(Path.cwd()), None
    _put_on_path(folder)
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:  # of a package that contains it, too
        missing = getattr(error, "name", None) or name
        if not f"{name}.".startswith(f"{missing}."):
            raise ConfigurationError(
                one_line(f"-m {name}: {type(error).__name__}: {error}")
            ) from error
    if (
        spec is None
        or spec.origin is None
        or not isinstance(spec.loader, importlib.abc.InspectLoader)
    ):
        raise ConfigurationError(
            f"-m {name}: no such module, or a package without __main__"
        )
    module = importlib.util.module_from_spec(spec)
    vars(module).update(__name__="__main__", __builtins__=builtins)
    loader, full_name = spec.loader, spec.name
    return Program(
        name,
        _compiled(name, lambda: loader.get_code(full_name)),
        module,
        spec.origin,
        folder,
    )


def _put_on_path(folder: str) -> None:
    """In place of the folder of this package's own command."""
    if not getattr(sys.flags, "safe_path", False):  # since Python 3.11
        sys.path[0] = folder


def _compiled(name: str, compile_it: Callable[[], CodeType | None]) -> CodeType:
    try:
        code = compile_it()
    except (SyntaxError, ValueError, OSError, ImportError) as error:
        raise ConfigurationError(
            one_line(f"{name}: {type(error).__name__}: {error}")
        ) from error
    if code is None:
        raise ConfigurationError(f"{name}: has no code")
    return code


def after_torch(begin: Callable[[], None]) -> None:
    """Calls a function when torch has been imported, which a program may prepare by
    variables of its environment."""
    if "torch" in sys.modules:
        begin()
    else:
        sys.meta_path.insert(0, _TorchFinder(begin))


@dataclass(frozen=True)
class _TorchFinder(importlib.abc.MetaPathFinder):
    """Calls a function after the import of torch."""

    begin: Callable[[], None]

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> Any:
        """The module's own spec, whose loader calls the function."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            # a program may look for torch before it imports torch
            sys.meta_path.insert(0, self)
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


def _frames_since(
    main: dict[str, Any], frames: TracebackType | None
) -> TracebackType | None:
    """The traceback from the first frame of a module on."""
    while frames is not None and frames.tb_frame.f_globals is not main:
        frames = frames.tb_next
    return frames


def _show_only(error: BaseException, frames: TracebackType | None) -> None:
    """Makes the interpreter, which reports the exception in its own way, show only
    these frames."""
    show = sys.excepthook

    def show_frames(
        kind: type[BaseException],
        raised: BaseException,
        all_frames: TracebackType | None,
    ) -> None:
        if raised is error and frames is not None:
            raised, all_frames = raised.with_traceback(frames), frames
        show(kind, raised, all_frames)

    sys.excepthook = show_frames
