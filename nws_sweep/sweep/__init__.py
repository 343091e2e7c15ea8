"""The Hydra application: a grid, its jobs, resuming them, launchers.

May import: everything but ``api`` and ``cli``.
"""
