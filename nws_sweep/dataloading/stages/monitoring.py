"""Times calls by ``sys.monitoring``, since Python 3.12: of chosen functions, and of
what these call."""

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from torch import nn

from nws_sweep.dataloading.stages.clock import StageClock
from nws_sweep.dataloading.stages.functions import StageFunctions

_monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
_EVENTS = _monitoring.events
_OF_FUNCTION = (
    _EVENTS.PY_START | _EVENTS.PY_RESUME | _EVENTS.PY_RETURN | _EVENTS.PY_YIELD
)
_TOOLS = (3, 4)  # ids that are reserved for no kind of tool


def begin(clock: StageClock, functions: StageFunctions) -> Callable[[], None] | None:
    """Times calls with the clock from now on; returns what ends it, None if other tools
    have taken all places."""
    for tool in _TOOLS:
        if _monitoring.get_tool(tool) is None:
            _monitoring.use_tool_id(tool, "nws_sweep")
            return _Monitored(tool, clock, functions).end
    return None


class _Monitored:
    """Callbacks for ``sys.monitoring``."""

    def __init__(self, tool: int, clock: StageClock, functions: StageFunctions) -> None:
        self._tool, self._clock, self._functions = tool, clock, functions
        self._thread = threading.get_ident()
        self._codes: set[CodeType] = set()
        self._cheap: set[CodeType | None] = set()
        # of a library, called by a function of the user
        self._awaited: CodeType | None = None
        # whether each call that has not returned is timed
        self._timed: dict[CodeType, list[bool]] = {}
        # of a place of calls; None if there have been several
        self._targets: dict[tuple[CodeType, int], object] = {}
        callbacks = {
            "PY_START": self._began,
            "PY_RESUME": self._began,
            "PY_RETURN": self._ended,
            "PY_YIELD": self._ended,
            "PY_UNWIND": self._ended,
            "CALL": self._calls,
            "C_RETURN": self._returned,
            "C_RAISE": self._returned,
        }
        for event, callback in callbacks.items():
            _monitoring.register_callback(
                tool, getattr(_EVENTS, event), self._in_the_batch(callback)
            )
        # there are no local events of this kind
        _monitoring.set_events(tool, _EVENTS.PY_UNWIND)
        for function in functions.always_stages:
            self._follow(function.__code__)

    def end(self) -> None:
        """Reports nothing more."""
        _monitoring.set_events(self._tool, 0)
        for code in self._codes:
            _monitoring.set_local_events(self._tool, code, 0)
        _monitoring.free_tool_id(self._tool)

    def _follow(self, code: CodeType) -> None:
        if code not in self._codes:
            self._codes.add(code)
            calls = _EVENTS.CALL if self._functions.is_followed(code) else 0
            _monitoring.set_local_events(self._tool, code, _OF_FUNCTION | calls)

    def _in_the_batch(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the callback for the thread that makes the batch; its CPU time is CPU
        time of timing."""

        def called(*arguments: Any) -> Any:
            if threading.get_ident() != self._thread or not self._clock.open:
                return None
            self._clock.enter()
            try:
                return callback(*arguments)
            except Exception:
                # code of the user may raise anything when it is looked at
                return None
            finally:
                self._clock.leave()

        return called

    def _began(self, code: CodeType, _: int) -> None:
        timed = self._timed.setdefault(code, [])
        timed.append(False)
        timed[-1] = self._push(code, sys._getframe(2))

    def _push(self, code: CodeType, frame: FrameType) -> bool:
        if not self._functions.is_stage(code) and self._awaited is not code:
            return False
        self._awaited = None
        stage = self._functions.of_frame(frame, self._clock.open[-1].calls.stage)
        if not stage.is_cheap:
            self._clock.push(stage, code)
        elif self._functions.is_cheap(code):
            self._cheap.add(code)
            _monitoring.set_local_events(self._tool, code, 0)
        return not stage.is_cheap

    def _ended(self, code: CodeType, *_: Any) -> None:
        timed = self._timed.get(code)
        if timed and timed.pop():
            self._clock.pop(code)

    def _calls(self, code: CodeType, offset: int, called: Any, _: Any) -> Any:
        if self._clock.open[-1].key is not code:
            return None
        place = (code, offset)
        target = _code_of(called)
        stage = self._functions.of_callable(called) if target is None else None
        callee = target or stage
        if self._targets.setdefault(place, callee) is not callee:
            self._targets[place] = None
        if target in self._cheap or (stage is not None and stage.is_cheap):
            return _monitoring.DISABLE if self._targets[place] else None
        if stage is not None:
            self._clock.push(stage, place)
        elif target is not None:
            self._follow(target)
            self._awaited = target
        return None

    def _returned(self, code: CodeType, offset: int, *_: Any) -> None:
        for call in reversed(self._clock.open):
            if call.key == (code, offset):
                self._clock.pop(call.key)
                return


def _code_of(called: Any) -> CodeType | None:
    """Returns the code of what is called, if it has a Python frame."""
    if isinstance(called, MethodType):
        called = called.__func__
    if not isinstance(called, FunctionType | type):
        name = "forward" if isinstance(called, nn.Module) else "__call__"
        called = getattr(type(called), name, called)
    return called.__code__ if isinstance(called, FunctionType) else None
