"""How long the rest of a grid will take, learnt from what its configurations took so far. Pure."""

from __future__ import annotations

_HALF_LIFE = 8  # configurations after which what one took counts half: neighbours in a grid are alike


class Pace:
    """Counts configurations.

    Args:
        planned: How many there are.
    """

    def __init__(self, planned: int) -> None:
        self._left = planned
        self._weighted_s = 0.0
        self._weight = 0.0

    def measured(self, elapsed_s: float) -> None:
        """One was measured, in so many seconds."""
        decay = 0.5 ** (1 / _HALF_LIFE)
        self._weighted_s = self._weighted_s * decay + elapsed_s
        self._weight = self._weight * decay + 1
        self.skipped()

    def skipped(self) -> None:
        """One needs no measuring."""
        self._left = max(0, self._left - 1)

    @property
    def left_s(self) -> float | None:
        """Seconds for those that are left; None while nothing is known, or if there are none."""
        if not self._weight or not self._left:
            return None
        return self._left * self._weighted_s / self._weight
