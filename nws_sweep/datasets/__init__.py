"""Datasets to measure with, which conf/dataset names by ``_target_``.

May import: ``system`` and below.

- ``photos``: JPEG files.
- ``synthetic``: samples that take a known time, and tensors in memory or on a device.
- ``remote``: objects of a store, read through fsspec.
"""
