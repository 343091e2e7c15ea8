"""Figures drawn with matplotlib, each from an immutable record.

May import: ``analysis`` and below.

- ``line_charts``, ``bar_charts``, ``heat_map``, ``batch_times``; ``what_if_chart``: predicted times
- ``facets``: how the configurations of a grid are divided among panels
- ``style``: the style of all figures
"""
