"""Names of earlier versions, and names that people expect, of keys and of arguments: an error names the present one."""

import functools
from collections.abc import Callable, Container, Mapping
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_PRESENT: Mapping[str, str] = {
    "also": "settings", "candidates": "num_workers", "maximum_patience": "patience", "time_budget_s": "time_limit_s",
    "budget": "time_limit_s", "budget_s": "time_limit_s", "time_limit": "time_limit_s", "max_time": "time_limit_s",
    "max_num_workers": "max_workers", "max_seconds": "trial_limit_s", "timeout_s": "kill_after_s",
    "search": "strategy", "consumer_s": "training_step",
}  # fmt: skip


def present(name: str, keys: Container[str]) -> str:
    """The present name of a dotted key, which is one of ``keys``; empty if there is none."""
    group, _, last = name.rpartition(".")
    last = _PRESENT.get(last, last)
    if name.partition(".")[0].partition("/")[0] == "consumer":
        return name.replace("consumer", "training_step", 1)
    found = last if group in ("search", "loader", "") else f"{group}.{last}"
    return found if found != name and found in keys else ""


def explained(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Raises TypeError with the present name if a keyword argument has another one."""

    @functools.wraps(function)
    def checked(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
        for name in keywords:
            new = "training_step" if name == "consumer" else _PRESENT.get(name)
            if new:
                raise TypeError(f"{function.__name__}() has no argument {name}; it is called {new}")
        return function(*arguments, **keywords)

    return checked
