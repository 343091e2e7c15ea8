"""Cuts an iteration over a DataLoader into windows: of a trial process, and of a training that is tuned.

The one who iterates reads the clocks when a batch is asked for and when it is there. The step of the training, or of
the trial, is what lies between a batch and the next question, so waits and steps add up to the elapsed time. Imports no
torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nws_sweep.results import Window, WindowKind


@dataclass(frozen=True, slots=True)
class Moment:
    """Readings of the clocks of the process that iterates, s."""

    clock_s: float
    cpu_s: float  # of all threads
    delay_s: float  # in which its main thread was ready to run and did not


@dataclass(eq=False)
class WindowBuilder:
    """The batches since the last window.

    Args:
        batch_length: Samples of a batch without a length.
    """

    batch_length: int = 1
    wait_s: list[float] = field(default_factory=list)  # one per batch, the start of an epoch included
    step_s: list[float] = field(default_factory=list)  # one per batch whose step has ended
    _samples: int = 0
    _asked: Moment = Moment(0.0, 0.0, 0.0)
    _given: Moment | None = None  # of a batch whose step has not ended
    _began_s: float = 0.0
    _start: tuple[float, float] | None = None  # of an epoch that began in this window: seconds, CPU seconds
    _sizes: tuple[int | None, int | None] = (None, None)  # of the first batch of an epoch
    _receive_cpu_s: float = 0.0
    _receive_delay_s: float = 0.0
    _step_cpu_s: float = 0.0

    def begin_epoch(self, start_s: float, start_cpu_s: float) -> None:
        """Workers have been started, in so many seconds and CPU seconds; what was not cut is dropped."""
        self._clear()
        self._start, self._given = (start_s, start_cpu_s), None

    def asked(self, now: Moment) -> None:
        """A batch is asked for; the step of the batch before has ended. The latest call counts."""
        if self._given is not None:
            self.step_s.append(now.clock_s - self._given.clock_s)
            self._step_cpu_s += now.cpu_s - self._given.cpu_s
        if not self.wait_s:
            self._began_s = now.clock_s - (self._start[0] if self._start else 0.0)
        self._asked, self._given = now, None

    def given(self, now: Moment, batch: Any) -> None:
        """The batch is there that was asked for."""
        wait_s = now.clock_s - self._asked.clock_s
        if self._start and not self.wait_s:
            wait_s += self._start[0]
            self._sizes = tensor_sizes(batch)
        self.wait_s.append(wait_s)
        self._samples += batch_length(batch, self.batch_length)
        self._receive_cpu_s += now.cpu_s - self._asked.cpu_s
        self._receive_delay_s += now.delay_s - self._asked.delay_s
        self._given = now

    def cut(self, kind: WindowKind, ended_s: float | None = None) -> Window:
        """The batches since the last window, whose steps have all ended, as a window.

        Args:
            kind: Of the window.
            ended_s: When the epoch ended, on the clock of ``Moment``, if it has.
        """
        start_s, start_cpu_s = self._start or (None, None)
        window = Window(
            kind=kind,
            startup_s=self.wait_s[0] if start_s is not None and self.wait_s else None,
            wait_s=tuple(self.wait_s),
            step_s=tuple(self.step_s),
            samples=self._samples,
            end_s=None if ended_s is None else max(0.0, ended_s - self._asked.clock_s),
            batch_bytes=self._sizes[0],
            batch_tensors=self._sizes[1],
            receive_cpu_s=self._receive_cpu_s,
            receive_delay_s=self._receive_delay_s,
            began_s=self._began_s,
            step_cpu_s=self._step_cpu_s,
            start_cpu_s=start_cpu_s,
        )
        self._clear()
        self._start, self._began_s = None, self._asked.clock_s
        return window

    def _clear(self) -> None:
        self.wait_s.clear()
        self.step_s.clear()
        self._samples, self._sizes = 0, (None, None)
        self._receive_cpu_s = self._receive_delay_s = self._step_cpu_s = 0.0


def tensor_sizes(batch: Any) -> tuple[int | None, int | None]:
    """Bytes and number of all tensors and arrays in a batch; None and None if it has none."""
    sizes = list(_tensor_bytes(batch))
    return (sum(sizes), len(sizes)) if sizes else (None, None)


def _tensor_bytes(value: Any) -> Iterator[int]:
    size = None
    with suppress(RuntimeError):  # sparse tensors
        size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        yield size
    elif isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _tensor_bytes(inner)


def batch_length(batch: Any, default: int) -> int:
    """Samples in a batch: the first dimension of its first tensor or array; ``default`` if it has none.

    Searches tuples, lists and mappings, which DataLoader's default collate_fn builds.
    """
    if shape := getattr(batch, "shape", None):
        return int(shape[0])
    if isinstance(batch, Mapping):
        return batch_length(next(iter(batch.values()), None), default)
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        return batch_length(batch[0], default)
    return default
