"""The user's datasets, DataLoaders and consumers: made, copied, pickled, described and observed.

May import: ``datasets``, ``config`` and below.

- ``loaders``: reads the settings of a DataLoader and makes DataLoaders with given settings. All callers use it.
- ``inputs``: what the Python API measures, read from its arguments.
- ``project``: makes the DataLoader of a project from the project's own Hydra config.
- ``pickling``: writes objects of the user's process to files that trial processes load.
- ``fingerprints``: hashes of objects, by which earlier results are recognised.
- ``counting``: counts the samples that workers have finished.
- ``digests``: hashes of samples, by which the samples of two loaders are compared.
- ``objects``: Python objects and open files of a dataset that forked workers copy or share.
- ``watching``: records when a running program asks for its batches and receives them.
- ``consumers``, ``training``: what uses each batch: nothing, a sleep, or a training step.
"""
