"""The user's datasets, DataLoaders and training steps: made, copied, pickled, described
and observed.

May import: ``datasets``, ``config`` and below.

- ``loaders``: reads the settings of a DataLoader and makes DataLoaders with chosen
  settings. All callers use it.
- ``inputs``: the arguments of the Python API.
- ``pickling``: objects of the user's process for trial processes; ``fingerprints``:
  hashes of equal datasets.
- ``recording``: what batches cost; ``counting``: samples finished.
- ``digests``: hashes by which samples of loaders are compared; ``whole_batches``:
  whether whole batches can be indexed.
- ``objects``: what a dataset reaches, and Python objects that forked workers copy;
  ``sharing``: open files and other handles that they must not share.
- ``generators``: random number generators of a dataset's own, seeded in workers.
- ``hook``: replaces the iterators of the DataLoaders of an unchanged program.
- ``training_steps``: what uses each batch: nothing, a sleep, or a training step.
"""
