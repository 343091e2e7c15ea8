"""Decides which candidates are measured next, and which one is recommended.

May import: ``measurement`` and below. All modules but ``runner`` are pure.

- ``runner``: the search of one configuration.
- Strategies: ``adaptive``; ``strategy`` (patience, exhaustive, ``settings``), which makes the one of the rules.
- ``paired_comparison``: compares candidates by round; ``forecast``: predicts candidates from records;
  ``learning``: earlier results.
"""
