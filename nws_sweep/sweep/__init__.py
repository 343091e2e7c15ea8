"""The Hydra application: a grid, its jobs, resuming, launchers.

May import: everything but ``cli``. Modules: ``app`` (callback and task of Hydra), ``session`` (one call of the command
line), ``grid`` (its points), ``sweeper`` (runs them by a launcher), ``job`` (one of them), ``resuming`` (results of
earlier calls), ``terminal`` (output), ``recheck`` (the command check), ``program`` (callbacks in another program).
"""
