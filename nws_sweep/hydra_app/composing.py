"""Programs that compose their configuration themselves: without ``@hydra.main``, Hydra
calls no callbacks in them."""

import atexit
import shlex
import sys
import traceback

from nws_sweep.config.embedding import GROUP
from nws_sweep.programs import COMMANDS
from nws_sweep.programs.reports import is_first_rank
from nws_sweep.system import streams

_COMPOSE_API = "hydra.compose"  # module of the function by which a program composes
_composed: set[str] = set()  # options whose callback the program has composed
_is_called = False


def note_callback() -> None:
    """Notes that Hydra has called a callback of nws_sweep in this process."""
    global _is_called  # noqa: PLW0603 - one for the whole program
    _is_called = True


def note_composed(option: str) -> None:
    """Notes that a configuration gets an option such as ``search``; at the end, says if
    the option had no effect."""
    names = (frame.f_globals.get("__name__") for frame, _ in traceback.walk_stack(None))
    is_new = option in COMMANDS and option not in _composed
    if is_new and _COMPOSE_API in names:
        _composed.add(option)
        atexit.register(_say_if_without_effect, option)


def _say_if_without_effect(option: str) -> None:
    if _is_called or not is_first_rank():
        return
    why = "this program composes its configuration without @hydra.main, so Hydra calls no callback"
    streams.print_line(
        f"+{GROUP}={option} had no effect: {why}; start it by `{_command(option)}`"
    )


def _command(option: str) -> str:
    """Writes the command that does the same as the option in any program."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = (
        [sys.argv[0]] if spec is None else ["-m", spec.name.removesuffix(".__main__")]
    )
    arguments = []
    for word in sys.argv[1:]:
        if GROUP not in word.partition("=")[0]:
            arguments.append(word)
    return shlex.join(["nws-sweep", option, *program, *arguments])
