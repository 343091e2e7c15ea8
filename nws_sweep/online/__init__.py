"""Tunes a DataLoader while training iterates over it: the settings change inside an
epoch, the batches do not.

The batches of an epoch come from one or more pools of workers in turn. ``pool`` starts
and ends workers and gives them their share of the sampler's index lists,
``pool_sequence`` goes from one pool to the next, and ``iterator`` is what training
iterates over. ``observation`` times its waits and steps, and ``loader_state`` has what
is known of one loader. By the ``situation``, ``decision`` chooses settings as a search
does, and ``tuner`` makes it a ``plan``, on which ranks agree; ``answer`` is what it says
in the end. ``loader_clock`` says
which DataLoader of a program its seconds belong to, and ``watcher`` where they went.
``safeguards`` keeps the samples of the program.
"""
