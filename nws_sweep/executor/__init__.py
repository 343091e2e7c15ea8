"""Runs trials in processes of their own.

May import: ``dataloading`` and below.
"""
