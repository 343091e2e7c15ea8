"""Datasets to measure with, which conf/dataset names by ``_target_``, and an HTTP server of objects.

May import: ``system`` and below.

- ``photos``: JPEG files.
- ``synthetic``: samples that take a known time, and tensors in memory or on a device.
- ``remote``: objects of a store, read through fsspec; ``object_server``: such a store on this machine.
"""
