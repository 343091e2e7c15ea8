"""Decides what is measured next, and which setting is the best.

May import: ``measurement`` and below.
"""
