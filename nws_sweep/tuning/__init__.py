"""Decides which candidates are measured next, and which one is recommended.

May import: ``measurement`` and below. All modules but ``runner`` are pure.

- ``runner``: the search of one configuration; ``strategy``: makes the strategy that the rules name.
- Strategies: ``adaptive``, ``strategy.Patience`` (patience, exhaustive), ``other_settings`` (``search.also``).
- ``paired_comparison``: compares candidates by round; ``bottleneck``: model of a loader; ``learning``: earlier results.
"""
