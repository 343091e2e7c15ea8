"""Decides which candidates are measured next, and which one is recommended.

May import: ``measurement`` and below. All modules but ``runner`` are pure.

- ``runner``: the search of one configuration.
- Strategies: ``adaptive``; ``strategy`` (patience, exhaustive, ``settings``), which makes the one of the rules.
- ``observations``: what a strategy sees and decides; ``estimates``: expected times of candidates, by round;
  ``earlier_results``: what a search takes from them.
"""
