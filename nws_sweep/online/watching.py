"""Says when settings that were decided no longer fit: the training waits more than then, or the workers are idle.

Only the clock around ``next`` is read. Pure.
"""

from dataclasses import dataclass, field

from nws_sweep import units

_PERIOD_S, _SHARE_OF_EPOCH = 30.0, 0.1  # what has changed must last so long, whichever is longer
_PARTS = 3  # of the period, in each of which it must show, without its longest wait: no workers help against that
_MORE = 0.1  # share of the time by which the training waits more
_WAITS_NOT = 0.02  # share of the time
_HALF_WOULD_DO = 0.4  # share of their time in which the workers are busy: half of them would be at 80 %
_BETWEEN_S = 600.0  # two looks


@dataclass(eq=False)
class Waiting:
    """The waiting of a training since its settings were decided.

    Args:
        chosen: Share of the time that the training waited when the settings were decided.
        num_workers: In use.
        decided_s: When they were decided, on the clock of ``note``.
    """

    chosen: float
    num_workers: int
    decided_s: float
    epoch_s: float = 0.0  # the longest so far
    began_s: float | None = None  # of the open part
    _epoch_began_s: float = field(init=False)  # or when the settings were decided in it
    _waited_s: float = 0.0
    _longest_s: float = 0.0  # wait of the open part
    _more: int = 0  # parts in a row in which the training waits more
    _idle: int = 0  # parts in a row in which it does not wait

    def __post_init__(self) -> None:
        """An epoch has begun."""
        self._epoch_began_s = self.decided_s

    def begin_epoch(self, now_s: float) -> None:
        """An epoch begins; what lies between two epochs is no part of either."""
        self._epoch_began_s = now_s
        self._begin_part(None)

    def note(self, asked_s: float, given_s: float, waited_s: float | None = None) -> bool:
        """A batch was asked for and given; True if a part of the period has ended.

        Args:
            asked_s: Moment, s.
            given_s: Moment, s.
            waited_s: For how long the training has waited; None for all of the time between the two.
        """
        if self.began_s is None:
            self._begin_part(given_s)
            return False
        wait_s = given_s - asked_s if waited_s is None else waited_s
        self._waited_s, self._longest_s = self._waited_s + wait_s, max(self._longest_s, wait_s)
        self.epoch_s = max(self.epoch_s, given_s - self._epoch_began_s)
        return given_s - self.began_s >= max(_PERIOD_S, _SHARE_OF_EPOCH * self.epoch_s) / _PARTS

    def end_part(self, now_s: float, busy: float) -> str:
        """Why the settings should be looked at again; empty if they fit.

        Args:
            now_s: The moment of the last batch.
            busy: Share of their time in which the workers made batches since the last call.
        """
        lasted_s = now_s - (self.began_s or 0.0) - self._longest_s
        share = (self._waited_s - self._longest_s) / lasted_s if lasted_s > 0 else 0.0
        self._more = self._more + 1 if share >= self.chosen + _MORE else 0
        is_idle = share <= _WAITS_NOT and self.num_workers > 1 and busy <= _HALF_WOULD_DO
        self._idle = self._idle + 1 if is_idle else 0
        self._begin_part(now_s)
        if now_s - self.decided_s < _BETWEEN_S or max(self._more, self._idle) < _PARTS:
            return ""
        if self._more >= _PARTS:
            return (
                f"the training waits {units.share(share)} of its time, {units.share(self.chosen)} when it was decided"
            )
        return (
            f"the training does not wait, and its {self.num_workers} workers are busy {units.share(busy)} of their time"
        )

    def _begin_part(self, now_s: float | None) -> None:
        self.began_s, self._waited_s, self._longest_s = now_s, 0.0, 0.0
