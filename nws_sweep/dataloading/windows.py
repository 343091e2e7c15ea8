"""Cuts an iteration over a DataLoader into windows: of a trial process, and of a
training program that is tuned.

A trial process takes windows of batches from any iterable and times them with any
clocks (``LoaderSession``). The code that iterates reads the clocks when a batch is
requested and when it is received. The step is the time between receiving a batch and
requesting the next one, so waits and steps add up to the elapsed time. If an
accelerator is still busy with the step when the next batch is requested, the step lasts
until it has finished. Imports no torch.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from nws_sweep.records import BatchCost, BatchRecord, Window, WindowKind, WindowRequest

_END = object()
PROGRESS_EVERY_S = 5.0  # less than a window without progress may take


class Moment(NamedTuple):
    """Readings of the clocks of the process that iterates, s."""

    clock_s: float  # from any fixed point
    cpu_s: float = 0.0  # of all threads
    delay_s: float = 0.0  # in which its main thread was ready to run and did not
    sampler_s: float = 0.0  # in the sampler
    sampler_cpu_s: float = 0.0  # of ``cpu_s``, meanwhile
    # between calls of the iterator, that are no step: in other DataLoaders and their
    # loops
    others_s: float = 0.0
    # in calls of the iterator that have ended, and until a batch was received in this
    # one
    calls_s: float = 0.0


class Device:
    """No accelerator: steps have ended when the process requests a batch.
    ``dataloading.device_clock`` has another."""

    def pace(self) -> None:
        """A step has been queued: waits until the device has finished the step before
        it."""

    def ask(self) -> None:
        """A batch is requested."""

    def waited_s(self) -> float:
        """The batch has been received: for how long the device has been idle; infinite
        if all of the time."""
        return math.inf

    def finish(self) -> None:
        """Waits until the device has finished all steps."""


@dataclass(eq=False)
class WindowBuilder:
    """The batches since the last window.

    Args:
        batch_length: Samples of a batch without a length.
        gives_samples: Each batch is one sample.

    Attributes:
        watching_s: Seconds so far, in no window, between requests of the same batch,
            and after it within its call.
    """

    batch_length: int = 1
    gives_samples: bool = False
    watching_s: float = 0.0
    # one per batch, the start of an epoch included
    wait_s: list[float] = field(default_factory=list)
    # one per batch whose step has ended
    step_s: list[float] = field(default_factory=list)
    _overlap_s: list[float] = field(default_factory=list)  # one per batch
    _samples: int = 0
    _asked: Moment = Moment(0.0)
    _is_asked: bool = False  # a batch was requested, and has not been received
    _given: Moment | None = None  # of a batch whose step has not ended
    _began_s: float = 0.0
    # of an epoch that began in this window: seconds, CPU seconds
    _start: tuple[float, float] | None = None
    # of the first batch of an epoch
    _sizes: tuple[int | None, int | None] = (None, None)
    _receive_cpu_s: float = 0.0
    _receive_delay_s: float = 0.0
    _step_cpu_s: float = 0.0
    _sampler_s: float = 0.0

    def begin_epoch(
        self, start_s: float, start_cpu_s: float, sampler_s: float = 0.0
    ) -> None:
        """An epoch has begun.

        Args:
            start_s: Seconds in ``iter(loader)``.
            start_cpu_s: CPU seconds of them for starting workers.
            sampler_s: Seconds of them in the sampler.
        """
        self._clear()
        self._start, self._given, self._sampler_s = (
            (start_s, start_cpu_s),
            None,
            sampler_s,
        )
        self._is_asked = False

    def asked(self, now: Moment) -> None:
        """A batch is requested; the step of the batch before has ended. The latest call
        counts."""
        if self._given is not None:
            others_s, calls_s = (
                now.others_s - self._given.others_s,
                now.calls_s - self._given.calls_s,
            )
            self.step_s.append(
                max(0.0, now.clock_s - self._given.clock_s - others_s - calls_s)
            )
            self._step_cpu_s += now.cpu_s - self._given.cpu_s
            self.watching_s += calls_s
        if self._is_asked:
            self.watching_s += now.clock_s - self._asked.clock_s
        if not self.wait_s:
            self._began_s = now.clock_s - (self._start[0] if self._start else 0.0)
        self._asked, self._given, self._is_asked = now, None, True

    def end_last_step(self, now: Moment, most_s: float) -> None:
        """The latest step has ended by now, unless the next batch was requested; it
        took ``most_s`` at most."""
        if self._given is not None:
            self.asked(now)
            self.step_s[-1] = min(self.step_s[-1], most_s)

    def idle(self, clock_s: float) -> float:
        """On an accelerator the step of the batch before has lasted until this moment;
        returns by how much longer, s.

        If a window has been cut since, this time belongs to its last step, and the next
        window begins later.
        """
        later_s = clock_s - self._asked.clock_s
        if later_s <= 0:
            return 0.0
        self._asked = self._asked._replace(clock_s=clock_s)
        if self.step_s:
            self.step_s[-1] += later_s
        else:
            self._began_s += later_s
        return later_s

    def given(self, now: Moment, batch: Any, waited_s: float = math.inf) -> float:
        """The requested batch has been received.

        Args:
            now: The moment.
            batch: The batch.
            waited_s: For how long an accelerator has been idle until now.

        Returns:
            The time since the request in which an accelerator was busy, s.
        """
        busy_s = self.idle(now.clock_s - waited_s)
        self._overlap_s.append(busy_s)
        wait_s = now.clock_s - self._asked.clock_s
        if self._start and not self.wait_s:
            wait_s += self._start[0]
            self._sizes = tensor_sizes(batch)
        self.wait_s.append(wait_s)
        self._samples += (
            1 if self.gives_samples else batch_length(batch, self.batch_length)
        )
        self._sampler_s += now.sampler_s - self._asked.sampler_s
        sampler_cpu_s = now.sampler_cpu_s - self._asked.sampler_cpu_s
        self._receive_cpu_s += now.cpu_s - self._asked.cpu_s - sampler_cpu_s
        self._receive_delay_s += now.delay_s - self._asked.delay_s
        self._given, self._is_asked = now, False
        return busy_s

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
            overlap_s=tuple(self._overlap_s) if any(self._overlap_s) else (),
            samples=self._samples,
            end_s=None if ended_s is None else max(0.0, ended_s - self._asked.clock_s),
            batch_bytes=self._sizes[0],
            batch_tensors=self._sizes[1],
            receive_cpu_s=self._receive_cpu_s,
            receive_delay_s=self._receive_delay_s,
            began_s=self._began_s,
            step_cpu_s=self._step_cpu_s,
            start_cpu_s=start_cpu_s,
            sampler_s=self._sampler_s,
        )
        self._clear()
        self._start, self._began_s = None, self._asked.clock_s
        return window

    def _clear(self) -> None:
        self.wait_s.clear()
        self.step_s.clear()
        self._overlap_s.clear()
        self._samples, self._sizes = 0, (None, None)
        self._receive_cpu_s = self._receive_delay_s = self._step_cpu_s = (
            self._sampler_s
        ) = 0.0


@dataclass(eq=False)
class LoaderSession:
    """The iteration over one loader, epoch after epoch, in windows.

    A window starts where the previous window stopped. The end of an epoch ends its
    window; the next window starts a new epoch, whose start-up is reported separately.
    """

    loader: Iterable[Any]  # ``iter(loader)`` starts an epoch
    training_step: Callable[[Any], object]  # called with each batch
    read_clocks: Callable[[], Moment]
    default_batch_length: int = 1  # samples of a batch without a length
    # samples that the workers have finished; None if not counted
    produced: Callable[[], int | None] = lambda: None
    # Take the rest of an epoch, untimed, before a new epoch: persistent workers would
    # finish it during the start-up.
    drain: bool = False
    queued_batches: int = 0  # that fit into the queue
    batches_per_epoch: int | None = None  # None if unknown
    on_epoch: Callable[[], None] = lambda: None  # called before an epoch starts
    # called every 5 s of a window in which batches arrive
    on_progress: Callable[[], None] = lambda: None
    # on which steps run; None as long as none is known
    find_device: Callable[[], Device | None] = lambda: None
    gives_samples: bool = False  # each batch is one sample
    taken: int = field(default=0, init=False)  # batches of this epoch
    # the latest of the windows' that is known
    stop_s: float | None = field(default=None, init=False)
    _device: Device = field(default_factory=Device, init=False)
    _iterator: Any = field(default=None, init=False)
    _produced_before: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Nothing has been taken."""
        self._batches = WindowBuilder(self.default_batch_length, self.gives_samples)

    def window(self, request: WindowRequest) -> Window:
        """Takes batches until the request is satisfied or the epoch ends."""
        stop_s: float | None = None
        if request.fresh or request.kind is WindowKind.EPOCH:
            stop_s = self._leave_epoch()
        if stop_s is not None:
            self.stop_s = stop_s
        if request.cover_buffer and self._iterator is not None:
            request = replace(
                request, min_batches=max(request.min_batches, self._buffered_batches())
            )
        produced_before = self.produced()
        window = self._take(request)
        produced = self.produced()
        if produced is not None and produced_before is not None:
            window = replace(window, produced=produced - produced_before)
        return replace(window, stop_s=stop_s)

    @property
    def is_idle(self) -> bool:
        """Whether the queue is full, so that all workers are idle; True if the samples
        are not counted."""
        produced, length = self.produced(), self.batches_per_epoch
        if self._iterator is None or produced is None:
            return True
        if length is not None and length - self.taken <= self.queued_batches:
            # the last batch is shorter
            return self.taken + self._buffered_batches() >= length
        # Every sample counts: the worker of an unfinished batch is not idle.
        return (
            produced - self._produced_before
            >= (self.taken + self.queued_batches) * self.default_batch_length
        )

    def _leave_epoch(self) -> float | None:
        """Ends the workers, or takes what they still make; the seconds if, as at the
        end of an epoch, all were idle."""
        if self._iterator is None:
            return None
        if self.drain:
            for _ in self._iterator:
                pass
        is_end = not self.drain and self.produced() is not None and self.is_idle
        began_s = self.read_clocks().clock_s
        self._iterator = None
        return self.read_clocks().clock_s - began_s if is_end else None

    def _take(self, request: WindowRequest) -> Window:
        """Takes batches and makes a training step with each, until the request is
        satisfied or the epoch has ended."""
        taken, ended_s = 0, None
        now = began = reported = self.read_clocks()
        while not _is_satisfied(request, taken, now.clock_s - began.clock_s):
            if self._iterator is None:
                now = self._begin_epoch(now)
            self._batches.asked(now)
            batch = next(self._iterator, _END)
            waited_s = self._device.waited_s()
            if batch is _END:
                self._iterator, ended_s = None, self._ended(waited_s)
                break
            self._batches.given(self.read_clocks(), batch, waited_s)
            self.training_step(batch)
            self._device.pace()
            self._device.ask()
            now = self.read_clocks()
            taken += 1
            if now.clock_s - reported.clock_s >= PROGRESS_EVERY_S:
                self.on_progress()
                reported = now
        if ended_s is None:
            self._finish()
            self._batches.asked(self.read_clocks())  # the last step has ended
        self.taken += taken
        return self._batches.cut(request.kind, ended_s)

    def _finish(self) -> None:
        """Ends the queued steps: a window that a pause may follow contains its own
        steps, and no others."""
        # the first step may have been the first to use it
        if type(self._device) is Device:
            self._device = self.find_device() or self._device
        self._device.finish()

    def _ended(self, waited_s: float) -> float:
        """The moment at which the epoch ended, s; an accelerator had been idle for
        ``waited_s``, or is still busy."""
        idle_s = self.read_clocks().clock_s - waited_s
        self._finish()
        ended_s = self.read_clocks().clock_s
        self._batches.idle(idle_s if waited_s else ended_s)
        return ended_s

    def _begin_epoch(self, began: Moment) -> Moment:
        self.taken, self._produced_before = 0, self.produced() or 0
        self.on_epoch()
        self._iterator, now = iter(self.loader), self.read_clocks()
        cpu_s = now.cpu_s - began.cpu_s - (now.sampler_cpu_s - began.sampler_cpu_s)
        self._batches.begin_epoch(
            now.clock_s - began.clock_s, cpu_s, now.sampler_s - began.sampler_s
        )
        return now

    def _buffered_batches(self) -> int:
        """Returns the batches of this epoch that workers have begun and that were not
        taken; 0 if unknown."""
        produced = self.produced()
        if produced is None:
            return 0
        begun = math.ceil(
            (produced - self._produced_before) / self.default_batch_length
        )
        return max(0, begun - self.taken)


def _is_satisfied(request: WindowRequest, batches: int, elapsed_s: float) -> bool:
    """Whether a window within an epoch has what was requested; a whole epoch ends with
    the epoch."""
    if request.kind is WindowKind.EPOCH or not batches:
        return False
    if request.max_batches is not None and batches >= request.max_batches:
        return True
    enough = batches >= request.min_batches and elapsed_s >= request.min_seconds
    return enough and batches % request.multiple_of == 0


def tensor_sizes(batch: Any) -> tuple[int | None, int | None]:
    """Returns bytes and number of all tensors and arrays in a batch; None and None if
    it has none."""
    sizes = list(_tensor_bytes(batch))
    return (sum(sizes), len(sizes)) if sizes else (None, None)


def _tensor_bytes(value: Any) -> Iterator[int]:
    size = None
    # RuntimeError of sparse tensors; a class of the program may raise any
    with suppress(Exception):
        size = value.nbytes
    if isinstance(size, int):
        yield size
        return
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            yield from _tensor_bytes(inner)


def batch_length(batch: Any, default: int) -> int:
    """Returns the samples in a batch: the first dimension of its first tensor or array;
    ``default`` if it has none.

    Searches tuples, lists and mappings, which DataLoader's default collate_fn builds.
    """
    # no shape, a shape without dimensions; a class of the program may raise any
    with suppress(Exception):
        return int(batch.shape[0])
    if isinstance(batch, Mapping):
        return batch_length(next(iter(batch.values()), None), default)
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        return batch_length(batch[0], default)
    return default


def made_without_workers(
    window: Window,
    first: int,
    position_of: Callable[[int], float | None] = lambda number: None,
) -> Iterator[BatchRecord]:
    """Yields records of what the main process made, without the first batch of an
    epoch, which contains the start.

    While it makes a batch an accelerator may do the step before, and threads of the
    dataset or of torch may compute. The sampler takes an equal share of the time of
    each batch.

    Args:
        window: Of an epoch.
        first: Number of its first batch.
        position_of: Returns the place of a batch in the order of the sampler, from 0 to
            1; None if it is unknown.
    """
    overlap_s = window.overlap_s or (0.0,) * window.batches
    drawing_s = window.sampler_s / max(1, window.batches)
    batches_s = []
    for waited_s, overlapped_s in zip(window.wait_s, overlap_s, strict=True):
        batches_s.append(max(0.0, waited_s + overlapped_s - drawing_s))
    all_s = sum(batches_s) or 1.0
    cpus = (window.receive_cpu_s or 0.0) / all_s
    computing = min(1.0, cpus)
    delayed = min(1 - computing, window.receive_delay_s / all_s)
    for number, batch_s in enumerate(batches_s, first):
        if number == 0:
            continue
        wait_s = batch_s * (1 - computing - delayed)
        cost = BatchCost(cpu_s=batch_s * cpus, wait_s=wait_s, threads=max(1.0, cpus))
        yield BatchRecord(
            number=number,
            position=position_of(number),
            began_s=0.0,
            ended_s=batch_s,
            cost=cost,
        )
