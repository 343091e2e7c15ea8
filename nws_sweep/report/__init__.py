"""Renders results: terminal and Markdown tables, HTML pages, pictures, settings ready to paste.

May import: ``analysis`` and below.

- ``snippets``, ``tables``: a trial as text, and best settings in each format; CSV tables and frames
- ``writer``: writes all files of a report; ``page``: HTML and Markdown, from ``templates/``
- ``figures``: the pictures of a report; ``plots``: the figures behind them
- ``command_text``: what ``compare`` and ``predict`` print
- ``search_result``, ``sweep_result``, ``explanation``, ``progress``: return values and progress lines of the Python API
"""
