"""Figures drawn with matplotlib, one module a kind of figure.

May import: ``analysis`` and below.
"""
