"""Names of keys and arguments in other tools: an error says what they are called here."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
CALLED = {
    "budget": "time_limit_s", "budget_s": "time_limit_s", "time_limit": "time_limit_s", "max_time": "time_limit_s",
    "max_num_workers": "max_workers", "candidates": "num_workers",
}  # fmt: skip


def explained(function: Callable[P, R]) -> Callable[P, R]:
    """Raises TypeError with the name used here if a keyword argument has another one."""

    @functools.wraps(function)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
        for name in set(keywords) & set(CALLED):
            raise TypeError(f"{function.__name__}() has no argument {name}; it is called {CALLED[name]}")
        return function(*arguments, **keywords)

    return checked
