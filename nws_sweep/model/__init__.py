"""Replays the queue of a DataLoader with recorded costs of batches, and predicts other
settings. Pure; no torch.

May import ``records``.

- ``queue``: one epoch, from the costs of its batches; ``epochs``: epochs from records
  of some of their batches
- ``known``: what is known of a trial; ``model``: predictions from all trials of a
  configuration
- ``bottlenecks``, ``counterfactual``: an epoch without a bottleneck or a stage, and
  what that would save
- ``stats``: the fit of candidates and rounds
- ``choice``: the rule that chooses settings; ``promise``: what a candidate that was not
  measured may save
- ``time_limit``: of a search
"""
