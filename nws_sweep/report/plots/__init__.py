"""Figures drawn with matplotlib, each from a pure value.

May import: ``analysis`` and below.

- ``line_charts``, ``bar_charts``, ``heat_map``, ``memory_charts``, ``batch_times``: one module for each kind of figure
- ``facets``: how the configurations of a grid are divided among panels
- ``style``: the style of all figures; SVG documents as parts of HTML pages
"""
