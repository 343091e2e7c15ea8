"""Settings in Python: an error says what an argument is called here, and messages have
Python's notation."""

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from nws_sweep.errors import NwsSweepError

P = ParamSpec("P")
R = TypeVar("R")
CALLED = {
    "budget": "time_limit_s", "budget_s": "time_limit_s", "time_limit": "time_limit_s", "max_time": "time_limit_s",
    "max_num_workers": "max_workers", "candidates": "num_workers",
}  # fmt: skip
_WORDS = {"true": "True", "false": "False", "null": "None"}
_SWITCHES = (
    "pin_memory",
    "persistent_workers",
    "in_order",
    "drop_last",
    "shuffle",
    "check_samples",
    "prefetch_factor",
)
# settings whose values are words
_OF_TEXT = ("measure", "strategy", "reuse", "multiprocessing_context")


def in_python(text: str) -> str:
    """Writes the settings in a text as arguments of ``nws_sweep.search``.

    >>> in_python("longer with measure=rigorous, or pin_memory=true")
    'longer with measure="rigorous", or pin_memory=True'
    >>> in_python("measure.kill_after_s=600 s, measure.cache_files=[...]; see measure.precision")
    'measure=MeasureRules(kill_after_s=600) s, measure=MeasureRules(cache_files=[...]); see MeasureRules.precision'
    """
    text = re.sub(
        r"\bmeasure\.(\w+=(?:\[[^]]*\]|[\w.-]*\w))", r"measure=MeasureRules(\1)", text
    )
    text = re.sub(r"\bmeasure\.(\w+)", r"MeasureRules.\1", text)
    text = re.sub(
        rf"\b({'|'.join(_OF_TEXT)}|MeasureRules\(cache)=([a-z]+)\b(?!\()",
        r'\1="\2"',
        text,
    )
    switch = rf"(?<![\w/.-])({'|'.join(_SWITCHES)})=(true|false|null)\b"
    text = re.sub(switch, lambda match: f"{match[1]}={_WORDS[match[2]]}", text)
    return text.replace("must be null", "must be None")


def explained(function: Callable[P, R]) -> Callable[P, R]:
    """Raises TypeError with the name used here if a keyword argument has another name.

    Our own errors name settings in the notation of Python.
    """

    @functools.wraps(function)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
        for name in set(keywords) & set(CALLED):
            raise TypeError(
                f"{function.__name__}() has no argument {name}; it is called {CALLED[name]}"
            )
        try:
            return function(*arguments, **keywords)
        except NwsSweepError as error:
            error.args = (in_python(str(error)),)
            raise

    return checked
