"""Settings in Python: an error says which argument was probably meant, and messages
have Python's notation."""

import functools
import inspect
import logging
import re
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from nws_sweep.config.suggestions import did_you_mean
from nws_sweep.errors import NwsSweepError

logger = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
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
    """Raises TypeError with the argument that was probably meant if there is none of
    this name.

    Our own errors name settings in the notation of Python, and have no frames in this
    package but this one; the others are logged at DEBUG.
    """
    parameters = inspect.signature(function).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    @functools.wraps(function)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
        if not takes_any:
            require_arguments(function.__name__, keywords, function)
        try:
            return function(*arguments, **keywords)
        except NwsSweepError as error:
            error.args = (in_python(str(error)),)
            logger.debug("%s failed", function.__name__, exc_info=True)
            # the frames in this package say nothing about the program
            raise error.with_traceback(None) from error.__cause__

    return checked


def require_arguments(
    name: str, keywords: Iterable[str], function: Callable[..., Any]
) -> None:
    """Raises TypeError, in the name of a function, if a keyword is no argument of
    ``function``."""
    arguments = inspect.signature(function).parameters
    for keyword in keywords:
        if keyword not in arguments:
            meant = did_you_mean(keyword, arguments, f"it has {', '.join(arguments)}")
            raise TypeError(f"{name}() has no argument {keyword}; {meant}")
