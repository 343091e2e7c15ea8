"""Times the stages of a batch: calls of named functions, nested as they were called,
without what timing them costs.

Each call is timed by the wall clock, the CPU clocks of its thread and of its process,
and the time for which its thread was ready to run and did not: what is left is waiting.
Threads of a library, such as those of OpenCV, compute while the thread that called them
waits. The CPU time of timing itself is measured at each call, and taken off. A function
whose calls take less than ``CHEAP_S`` on average is a part of the function that calls
it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nws_sweep.dataloading.clocks import Clocks
from nws_sweep.records import StageKind, StageTime

CHEAP_S = 20e-6  # a call
_TRIED = 64  # calls after which a cheap function is no longer timed
_LEAST_SHARE = 0.001  # of the batch, below which calls are left out


@dataclass(eq=False, slots=True)
class Stage:
    """A function, or an object that is called."""

    name: str
    file: str = ""
    line: int = 0
    kind: StageKind = StageKind.FUNCTION
    calls: int = 0
    wall_s: float = 0.0
    open: "Calls | None" = None  # while it has not returned

    @property
    def is_cheap(self) -> bool:
        """Whether it has been called often enough to know that timing its calls is not
        worth it."""
        return (
            self.calls >= _TRIED
            and self.open is None
            and self.wall_s < CHEAP_S * self.calls
        )


@dataclass(eq=False, slots=True)
class Calls:
    """The calls of a stage by the calls of another stage, so far."""

    stage: Stage
    calls: int = 0
    times: Clocks = Clocks(0.0, 0.0, 0.0)  # sums
    overhead_s: float = 0.0
    depth: int = 0  # calls that have not returned: of a recursion the outermost counts
    inside: dict[Stage, "Calls"] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class _Open:
    calls: Calls
    key: object
    began: Clocks
    spent_s: float  # CPU time of timing until it began


@dataclass(eq=False)
class StageClock:
    """The calls of a batch.

    Args:
        root: The stage that makes the batch.
        read: Reads the clocks.
        cpu_clock: Reads only the CPU time of the thread, s.
    """

    root: Stage
    read: Callable[[], Clocks]
    cpu_clock: Callable[[], float] = time.thread_time
    open: list[_Open] = field(default_factory=list)  # calls that have not returned
    _spent_s: float = 0.0  # CPU time of timing so far
    _entered_s: float = 0.0  # CPU time when timing began that goes on

    def __post_init__(self) -> None:
        """No call has begun."""
        self.batch = Calls(self.root)

    def begin(self) -> None:
        """The batch begins; calls may follow."""
        self.enter()
        self.root.open = self.batch
        self.push(self.root, self.root)
        self.leave()

    def end(self) -> None:
        """The batch has ended, and with it all calls."""
        self.enter()
        self.pop(self.root)

    def enter(self) -> None:
        """Timing begins: the CPU time until ``leave`` is CPU time of timing."""
        self._entered_s = self.cpu_clock()

    def leave(self) -> None:
        """Timing ends."""
        self._spent_s += self.cpu_clock() - self._entered_s

    def _spent_until(self, now: Clocks) -> float:
        """Returns the CPU time of timing until this reading of the clocks, s."""
        return self._spent_s + now.cpu_s - self._entered_s

    def push(self, stage: Stage, key: object) -> None:
        """A call begins, between ``enter`` and ``leave``; ``key`` identifies it."""
        calls = stage.open
        if calls is None:
            calls = stage.open = self.open[-1].calls.inside.setdefault(
                stage, Calls(stage)
            )
        calls.depth += 1
        began = self.read()
        self.open.append(_Open(calls, key, began, self._spent_until(began)))

    def pop(self, key: object) -> None:
        """The call has ended, and with it all calls that began after it; nothing
        happens if the call is unknown.

        Between ``enter`` and ``leave``.
        """
        now = self.read()
        if not any(call.key is key for call in reversed(self.open)):
            return
        ended = None
        while ended is not key:
            call = self.open.pop()
            self._end(call, now)
            ended = call.key

    def _end(self, call: _Open, now: Clocks) -> None:
        calls, began = call.calls, call.began
        calls.depth -= 1
        if calls.depth:
            return
        spent_s = self._spent_until(now) - call.spent_s
        calls.calls += 1
        calls.times = calls.times.plus(now.since(began))
        calls.overhead_s += spent_s
        calls.stage.open = None
        calls.stage.calls += 1
        calls.stage.wall_s += now.wall_s - began.wall_s - spent_s

    def times(self) -> tuple[StageTime, ...]:
        """Returns the batch, then its stages, each after the stage that calls it;
        without cheap stages."""
        rows: list[StageTime] = []
        _add_times(rows, self.batch, -1, _LEAST_SHARE * self.batch.times.wall_s)
        return tuple(rows)


def _add_times(
    rows: list[StageTime], calls: Calls, parent: int, least_s: float
) -> None:
    """Adds a row for the calls of a stage, then the rows of the stages that it
    calls."""
    stage, times = calls.stage, calls.times
    number = len(rows)
    rows.append(
        StageTime(
            name=stage.name,
            kind=stage.kind,
            file=stage.file,
            line=stage.line,
            parent=parent,
            calls=calls.calls,
            cpu_s=times.cpu_s,
            wait_s=times.wall_s - times.cpu_s - times.delay_s,
            all_cpu_s=times.all_cpu_s,
            overhead_s=calls.overhead_s,
        )
    )
    for inner in calls.inside.values():
        # A cheap function was timed only until that was known.
        is_long = inner.times.wall_s - inner.overhead_s >= max(
            least_s, CHEAP_S * inner.calls
        )
        if is_long and not inner.stage.is_cheap:
            _add_times(rows, inner, number, least_s)
