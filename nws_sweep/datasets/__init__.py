"""Datasets to measure with, named by ``_target_`` in conf/dataset.

May import: ``system`` and below.
"""
