"""What the results mean: the best setting, its cause, warnings, comparisons. Pure.

May import: ``config``, ``tuning`` and below.
"""
