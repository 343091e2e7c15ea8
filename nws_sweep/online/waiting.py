"""Says when settings that were decided no longer fit: training waits more than before,
or the workers are idle.

Only the clock around ``next`` is read. Pure.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.model import choice

_PERIOD_S = 30.0  # a change must last this long
# of the period, in each of which it must show, without its longest wait, against
# which no workers help
_PARTS = 3
# share of the time by which waiting has increased, or for which half of the workers
# would be idle
_MARGIN = 0.1
_BETWEEN_S = 600.0  # from one decision to the next


@dataclass(eq=False)
class Waiting:
    """The waiting for data since the settings were decided.

    Args:
        chosen: Share of the time spent waiting when the settings were decided.
        num_workers: In use.
        decided_s: When they were decided, on the clock of ``note``.
    """

    chosen: float
    num_workers: int
    decided_s: float
    _began_s: float | None = None  # of the open part
    _waited_s: float = 0.0
    _longest_s: float = 0.0  # wait of the open part
    _more: int = 0  # parts in a row with more waiting
    _idle: int = 0  # parts in a row without waiting

    def begin_epoch(self) -> None:
        """An epoch begins; the time between two epochs belongs to neither."""
        self._begin_part(None)

    def note(
        self,
        asked_s: float,
        given_s: float,
        busy: Callable[[], float],
        waited_s: float = math.inf,
    ) -> str:
        """A batch was requested and received; returns why the settings should be
        reconsidered, empty if they fit.

        Args:
            asked_s: Moment, s.
            given_s: Moment, s.
            busy: Gives the share of their time in which the workers made batches since
                the last call.
            waited_s: For how long an accelerator has been idle until ``given_s``.
        """
        if self._began_s is None:
            self._begin_part(given_s)
            return ""
        wait_s = min(waited_s, given_s - asked_s)
        self._waited_s = self._waited_s + wait_s
        self._longest_s = max(self._longest_s, wait_s)
        part_s = given_s - self._began_s
        if part_s < _PERIOD_S / _PARTS:
            return ""
        return self._end_part(given_s, part_s - self._longest_s, busy())

    def _end_part(self, now_s: float, lasted_s: float, busy: float) -> str:
        share = (self._waited_s - self._longest_s) / lasted_s if lasted_s > 0 else 0.0
        self._more = self._more + 1 if share >= self.chosen + _MARGIN else 0
        is_idle = self.num_workers > 1 and 2 * busy <= 1 - _MARGIN
        does_not_wait = share <= choice.PROMISING
        self._idle = self._idle + 1 if is_idle and does_not_wait else 0
        self._begin_part(now_s)
        if now_s - self.decided_s < _BETWEEN_S or max(self._more, self._idle) < _PARTS:
            return ""
        if self._more >= _PARTS:
            return (
                f"training waits for data {units.share(share)} of the time, {units.share(self.chosen)} when the "
                "settings were decided"
            )
        return f"training does not wait, and its {self.num_workers} workers are busy {units.share(busy)} of the time"

    def _begin_part(self, now_s: float | None) -> None:
        self._began_s, self._waited_s, self._longest_s = now_s, 0.0, 0.0
