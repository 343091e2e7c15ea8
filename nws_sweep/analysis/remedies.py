"""What to change next, with what it saves. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from nws_sweep.units import share


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to change.

    Attributes:
        text: With ``{}`` in the place of the share.
        saved: Share of the time that it saves at most, 0 to 1.
    """

    text: str
    saved: float

    def __str__(self) -> str:
        return self.text.replace("{}", share(self.saved))


def chosen(
    of_cause: Sequence[Remedy], others: Sequence[Remedy] = ()
) -> tuple[Remedy, ...]:
    """Selects the remedy that saves most of what is named as the cause, or of all if
    there is none; then the largest other one, if it saves more than half as much."""
    first = max(of_cause or others, key=_saved, default=None)
    if first is None:
        return ()
    rest = [remedy for remedy in (*of_cause, *others) if remedy != first]
    second = max(rest, key=_saved, default=None)
    if second is None or second.saved <= first.saved / 2:
        return (first,)
    return first, second


def _saved(remedy: Remedy) -> float:
    return remedy.saved
