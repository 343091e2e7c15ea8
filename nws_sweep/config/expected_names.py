"""Names of keys and arguments: an error says what they are called here, and in the notation of Python."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from nws_sweep.config.python_notation import in_python
from nws_sweep.errors import NwsSweepError

P = ParamSpec("P")
R = TypeVar("R")
CALLED = {
    "budget": "time_limit_s", "budget_s": "time_limit_s", "time_limit": "time_limit_s", "max_time": "time_limit_s",
    "max_num_workers": "max_workers", "candidates": "num_workers",
}  # fmt: skip


def explained(function: Callable[P, R]) -> Callable[P, R]:
    """Raises TypeError with the name used here if a keyword argument has another name.

    Our own errors name settings in the notation of Python.
    """

    @functools.wraps(function)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
        for name in set(keywords) & set(CALLED):
            raise TypeError(f"{function.__name__}() has no argument {name}; it is called {CALLED[name]}")
        try:
            return function(*arguments, **keywords)
        except NwsSweepError as error:
            error.args = (in_python(str(error)),)
            raise

    return checked
