"""Tunes a DataLoader while a training iterates over it: the settings change inside an epoch, the batches do not.

The batches of an epoch come from one or more pools of workers in turn. ``index_stream`` gives each pool its share of
the sampler's index lists, ``pool`` starts and ends workers, ``pools`` goes from one pool to the next, ``iterator`` is
what the training iterates over, ``observation`` times what the training sees, ``decision`` chooses settings by replay,
and ``tuner`` follows one loader. ``safeguards``, ``epoch_length`` and ``saved_state`` keep the samples of the program.
"""
