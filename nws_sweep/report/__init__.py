"""Renders results: terminal and Markdown tables, HTML pages, pictures, settings ready
to paste.

May import: ``analysis`` and below.

- ``snippets``: trials and best settings as text; ``formats``: best settings ready to
  paste; ``tables``: CSV and frames
- ``writer``: writes all files of a report; ``page``: HTML and Markdown, from
  ``templates/``
- ``figures``: the pictures of a report; ``plots``: the figures behind them
- ``command_text``: what ``compare`` and ``predict`` print
- ``search_result``, ``sweep_result``, ``explanation``, ``progress``: return values and
  progress lines of the Python API
"""
