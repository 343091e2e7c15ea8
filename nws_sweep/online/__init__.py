"""Tunes a DataLoader while a training iterates over it: the settings change inside an epoch, the batches do not.

The batches of an epoch come from one or more pools of workers in turn. ``index_stream`` gives each pool its share of
the sampler's index lists, ``pool`` starts and ends workers, ``iterator`` goes from one pool to the next,
``observation`` times what the training sees, ``decision`` chooses settings by replay, and ``tuner`` follows one loader.
"""
