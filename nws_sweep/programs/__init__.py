"""Programs that stay as they are: their DataLoaders get other iterators, which search, tune or watch.

- ``hooks`` says what these iterators do, and which of the DataLoaders is meant.
- ``script`` runs a program as ``python`` does, with a hook.
- ``command`` is ``nws-sweep autotune``, ``search`` and ``watch``.

``hydra_app.program`` has the same hooks for Hydra programs, ``nws_sweep.lightning`` and ``nws_sweep.transformers`` for
trainers.
"""

COMMANDS = ("autotune", "search", "watch")
