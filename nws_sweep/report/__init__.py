"""Renders results: terminal tables, Markdown, HTML, figures, settings ready to paste.

May import: ``analysis`` and below.
"""
