"""The stages of a sample: which functions take a worker's time, from the calls of a few
batches.

- ``functions`` says which functions are stages, and names them; ``clock`` times their
  calls.
- ``monitoring`` and ``exchanging`` notice the calls, since Python 3.12 and before.
- ``timing`` times one batch in a worker, and passes the times to the main process.
"""
