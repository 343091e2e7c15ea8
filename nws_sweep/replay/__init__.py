"""Replays the queue of a DataLoader with recorded costs of batches, and predicts other settings. Pure; no torch.

May import ``results``.

- ``queue``: one epoch, from the costs of its batches; ``prediction``: epochs from records of some of their batches
- ``model``: predictions from all trials of a configuration
- ``counterfactual``: what an epoch would save without one of its bottlenecks
"""
