"""Times calls of functions that are known from the start: while a batch is made, their
code is replaced.

For Python before 3.12. ``sys.setprofile`` would make the code of Python slower, but not
that of C, so that shares would be wrong; other tools may also use it. Calls of C and of
a library's methods are parts of the function that calls them.
"""

import contextlib
import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any

from nws_sweep.dataloading.stages.clock import Stage, StageClock
from nws_sweep.dataloading.stages.functions import StageFunctions

_ITSELF = "this function, exchanged"  # a constant of ``_timed``
_WITHOUT_AN_END = (
    inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
)


def begin(clock: StageClock, functions: StageFunctions) -> Callable[[], None]:
    """Times calls with the clock from now on; returns what ends it."""
    exchanged = contextlib.ExitStack()
    for function in (*functions.always_stages, *functions.of_libraries):
        if not function.__code__.co_flags & _WITHOUT_AN_END:
            # it keeps its code, and counts as a part of its callers
            with contextlib.suppress(ValueError, TypeError):
                exchanged.callback(_Exchanged(clock, functions, function).restore)
    return exchanged.close


class _Exchanged:
    """A function that has the code of ``_timed``: a program that holds it calls the
    same object as before."""

    def __init__(
        self, clock: StageClock, functions: StageFunctions, function: FunctionType
    ) -> None:
        self._clock, self._functions = clock, functions
        self._function, self._code = function, function.__code__
        self._thread = threading.get_ident()
        self.original = FunctionType(
            self._code,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        self.original.__kwdefaults__ = function.__kwdefaults__
        constants: list[Any] = [
            self if value == _ITSELF else value for value in _timed.__code__.co_consts
        ]
        function.__code__ = _timed.__code__.replace(
            co_consts=tuple(constants), co_freevars=self._code.co_freevars
        )

    def begin(self, arguments: Sequence[Any]) -> object:
        """A call begins; returns what ends it, None if it is not timed: in other
        threads, and if it is cheap."""
        if (
            threading.get_ident() != self._thread
            or not self._clock.open
            or not self._is_stage(sys._getframe(2))
        ):
            return None
        self._clock.enter()
        stage: Stage | None = None
        key = None
        itself, function = arguments[0] if arguments else None, self._function
        # code of the user may raise anything when it is looked at
        with contextlib.suppress(Exception):
            stage = self._functions.of_code(
                self._code, itself, function.__module__, function.__qualname__
            )
        if stage is None or (stage.is_cheap and self._functions.is_cheap(self._code)):
            self.restore()
        elif not stage.is_cheap:
            key = object()
            self._clock.push(stage, key)
        self._clock.leave()
        return key

    def _is_stage(self, caller: FrameType) -> bool:
        """Whether a call is a stage: of a library's function if a function of the user
        calls it."""
        return self._functions.is_stage(self._code) or self._functions.is_followed(
            caller.f_code
        )

    def end(self, key: object) -> None:
        """The call has ended."""
        if key is not None:
            self._clock.enter()
            self._clock.pop(key)
            self._clock.leave()

    def restore(self) -> None:
        """The function has its own code again."""
        self._function.__code__ = self._code


def _timed(*arguments: Any, **keywords: Any) -> Any:
    exchanged: Any = "this function, exchanged"
    key = exchanged.begin(arguments)
    try:
        return exchanged.original(*arguments, **keywords)
    finally:
        exchanged.end(key)
