"""The Hydra application: a grid, its jobs, resuming, launchers.

May import: everything but ``cli``. Modules: ``app`` (callback, sweeper and task of
Hydra), ``grid`` (its points), ``call`` (what the jobs of a call share), ``job`` (the
job of a point), ``resuming`` (results of earlier calls), ``terminal`` (output),
``program`` (callbacks in another program), ``composing`` (a program that calls no
callbacks).
"""
