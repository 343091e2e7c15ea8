"""The index lists of an epoch, which pools draw from the sampler in turn.

A pool with more workers than the program draws further ahead. Some samplers wait for
what the training loop does with the batch before, as in curriculum and active learning:
what the program's own loader would not have drawn yet is drawn in a thread, so that the
wait can be given up. What the thread draws later is the next list; none is lost.

A sampler with a generator of the program draws random numbers at the end of an epoch,
too. If the program leaves an epoch before, its own loader may not have come so far:
then the generator is set back.
"""

import concurrent.futures
import contextlib
import functools
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from nws_sweep.dataloading.orders import SamplerClock

# by which a list that is drawn ahead may take longer than any list so far
_PATIENCE_S = 5.0


class GivenUpError(Exception):
    """A list that is drawn ahead is not there within its limit; no exception of a
    sampler."""


class PausedError(Exception):
    """The next list is of an epoch that the program has not begun."""


class IndexStream:
    """The index lists of the current epoch.

    Args:
        sampler: The batch sampler of a DataLoader, or its sampler if the DataLoader
            does not make batches. ``iter`` of it is called whenever a plain DataLoader
            would call it: some samplers draw random numbers then.
        pause_every: Lists of an epoch of the program, if its epochs are parts of an
            endless one and it has no workers: the order of an epoch is drawn when the
            program begins it. 0 if there are no pauses.

    Attributes:
        due: Lists that the program's own loader would have drawn by now.
        due_after: The same once it has returned the batch that is requested.
        lists: Drawn, of batches that were not returned.
        latest: The list that was drawn last, or the index if the DataLoader does not
            make batches; None at first.
        was_given_up: Whether a list that was drawn ahead took too long; the next list
            has no limit.
        was_paused: Whether the next list was not drawn, since the program has not begun
            the epoch of that list.
        sampler_clock: Of the sampler.
    """

    def __init__(self, sampler: Any, pause_every: int = 0) -> None:
        self._sampler, self._pause_every = sampler, pause_every
        self._lists: Iterator[Any] = iter(())
        # asked for, and not given
        self._drawing: concurrent.futures.Future[Any] | None = None
        self._drawn, self._longest_s, self.sampler_clock = 0, 0.0, SamplerClock()
        self.due, self.due_after, self.latest = 0, 0, None
        self.lists: deque[Any] = deque()
        self.was_given_up = self.was_paused = False
        self._generator = _generator_of(sampler)
        # Before lists that are drawn ahead: how many were drawn, and the state of the
        # generator, which is the same for the following ones.
        self._states: list[tuple[int, torch.Tensor]] = []
        self._state: torch.Tensor | None = None  # after the last of them

    def begin(self) -> None:
        """An epoch begins."""
        with self.sampler_clock.running():
            self._lists, self._drawing = iter(self._sampler), None
        self.lists.clear()
        self._drawn, self.was_given_up, self.was_paused = 0, False, False

    def draw(self) -> Any:
        """The next list; StopIteration after the last one.

        Raises:
            PausedError: If it is of an epoch that has not begun.
            GivenUpError: If one that is drawn ahead takes too long.
        """
        is_ahead = self._drawn >= self.due
        if is_ahead and self._is_between_epochs:
            self.was_paused = True
            raise PausedError
        if is_ahead:
            self._keep_state()
        spent_before_s = self.sampler_clock.spent_s
        try:
            with self.sampler_clock.running():
                self.latest = self._next(self._limit_s if is_ahead else None)
        except GivenUpError:
            self.was_given_up = True
            raise
        except StopIteration:
            self._drawn += 1
            raise
        finally:
            if is_ahead and self._generator is not None:
                self._state = self._generator.get_state()
        spent_s = self.sampler_clock.spent_s - spent_before_s
        self._longest_s = max(self._longest_s, spent_s)
        self._drawn += 1
        self.lists.append(self.latest)
        return self.latest

    def _keep_state(self) -> None:
        """Keeps the state of the generator before the next list."""
        if self._generator is None:
            return
        while len(self._states) > 1 and self._states[1][0] <= self.due:
            self._states.pop(0)
        state = self._generator.get_state()
        if not self._states or not torch.equal(self._states[-1][1], state):
            self._states.append((self._drawn, state))

    def leave(self) -> None:
        """The epoch is left or has ended: the generator is as the program's own loader
        would have left it, unless others have drawn from it."""
        states, latest = self._states, self._state
        self._states, self._state = [], None
        due = max(self.due, self.due_after)
        if self._generator is None or latest is None or self._drawn <= due:
            return
        before = [state for drawn, state in states if drawn <= due]
        if before and torch.equal(self._generator.get_state(), latest):
            self._generator.set_state(before[-1])

    @property
    def pauses(self) -> bool:
        """Whether it pauses between the epochs of the program."""
        return self._pause_every > 0

    @property
    def _is_between_epochs(self) -> bool:
        return self.pauses and self._drawn > 0 and self._drawn % self._pause_every == 0

    @property
    def _limit_s(self) -> float | None:
        """How long a list that is drawn ahead may take; None for any time, of a sampler
        that never waits."""
        return _PATIENCE_S + self._longest_s if self._may_wait else None

    @functools.cached_property
    def _may_wait(self) -> bool:
        """Whether the sampler, or a sampler that it draws from, may wait."""
        sampler = self._sampler
        while sampler is not None:
            is_torchs = type(sampler).__module__.startswith("torch.")
            if not is_torchs and not isinstance(sampler, list | tuple | range):
                return True
            sampler = getattr(sampler, "sampler", None)
        return False

    def _next(self, limit_s: float | None) -> Any:
        if limit_s is None and self._drawing is None:
            return next(self._lists)
        if self._drawing is None:
            self._drawing = _draw_in_thread(self._lists)
        with contextlib.suppress(concurrent.futures.TimeoutError):
            self._drawing.exception(limit_s)  # waits for it
        if not self._drawing.done():
            raise GivenUpError
        drawing, self._drawing = self._drawing, None
        return drawing.result()


def _generator_of(sampler: Any) -> torch.Generator | None:
    """Finds the generator of a sampler, or of the one that it draws from; None if there
    is none."""
    with contextlib.suppress(Exception):  # a sampler of the program may raise anything
        for drawn_from in (sampler, getattr(sampler, "sampler", None)):
            generator = getattr(drawn_from, "generator", None)
            if isinstance(generator, torch.Generator):
                return generator
    return None


def _draw_in_thread(elements: Iterator[Any]) -> "concurrent.futures.Future[Any]":
    """Draws the next element in a thread, which may outlive the wait for it, and the
    program."""
    drawing: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def draw() -> None:
        try:
            drawing.set_result(next(elements))
        except BaseException as error:  # raised where the element is asked for
            drawing.set_exception(error)

    threading.Thread(target=draw, name="nws_sweep sampler", daemon=True).start()
    return drawing


class Feed:
    """The sampler of one pool: it draws from the stream while it is open.

    Args:
        stream: Which it draws from.
        is_open: Whether it may draw.
        starts: How often ``iter`` of it begins an epoch; afterwards it continues where
            another feed was closed.

    Attributes:
        has_drawn: Whether it has given an index list.
        taken: The list of the batch that was returned, or failed, last; None if it is
            unknown.
    """

    def __init__(self, stream: IndexStream, *, is_open: bool, starts: int) -> None:
        self._stream = stream
        self.is_open, self.starts, self.has_drawn = is_open, starts, False
        self.taken: Any = None

    def take(self) -> None:
        """A batch of the pool has been returned, or has failed."""
        lists = self._stream.lists
        self.taken = lists.popleft() if lists else None

    def __iter__(self) -> Iterator[Any]:
        if self.starts:
            self.starts -= 1
            self._stream.begin()
        return self._draws()

    def _draws(self) -> Iterator[Any]:
        while self.is_open:
            try:
                drawn = self._stream.draw()
            except StopIteration:
                return
            except (GivenUpError, PausedError):  # the pool gives what it has drawn
                self.is_open = False
                return
            self.has_drawn = True
            yield drawn
