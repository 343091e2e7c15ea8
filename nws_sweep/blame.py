"""Which rank is told when a command of several failed: one failure takes the others along. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nws_sweep.errors import NwsSweepError, RankLost, TrialTimeout


def culprits(failures: Mapping[int, BaseException]) -> dict[int, BaseException]:
    """The failures that do not only say that another rank was gone; all if there are no others."""
    own = {number: error for number, error in failures.items() if not isinstance(error, RankLost)}
    return own or dict(failures)


def blamed(failures: Mapping[int, BaseException], ranks: int, missing: Sequence[int] = ()) -> BaseException:
    """The error of all ranks together, with the number of the one where it happened.

    Without a number if it happened in all of them alike.

    Args:
        failures: The error of each rank that has one, at least one.
        ranks: How many there are.
        missing: Those whom the others wait for, if there are any: whoever hangs, all are late.
    """
    own = culprits(failures)
    number, error = min(own.items())
    if not isinstance(error, NwsSweepError):
        return error
    if isinstance(error, TrialTimeout) and missing:
        return type(error)(f"{_named(missing)}: {error}")
    if len(own) == ranks and len({str(each) for each in own.values()}) == 1:
        return error
    return type(error)(f"{_named([number])}: {error}")


def _named(numbers: Sequence[int]) -> str:
    return f"rank{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
