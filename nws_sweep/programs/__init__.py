"""Unchanged programs: their DataLoaders get other iterators, which search, tune or
watch.

- ``program_hook`` says what these iterators do, and which of the DataLoaders is
  selected; ``search_hook`` searches it, ``tuning_hook`` tunes or watches it.
- ``script`` runs a program as ``python`` does, with a hook.
- ``command`` is ``nws-sweep autotune``, ``explain``, ``search`` and ``watch``.

``hydra_app.program`` has the same hooks for Hydra programs, ``nws_sweep.lightning`` and
``nws_sweep.transformers`` for trainers.
"""

from collections.abc import Sequence
from pathlib import Path

COMMANDS = ("autotune", "explain", "search", "watch")


def are_asked_for(arguments: Sequence[str]) -> bool:
    """Tells whether a command line runs a program; ``explain`` without a program reads
    a folder."""
    if not arguments or arguments[0] not in COMMANDS:
        return False
    if arguments[0] != "explain":
        return True
    return any(
        argument == "-m" or argument.endswith(".py") or Path(argument).is_file()
        for argument in arguments[1:]
    )
