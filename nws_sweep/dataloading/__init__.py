"""Datasets, DataLoaders and consumers: those of users, and those that a trial makes.

May import: ``datasets``, ``config`` and below.
"""
