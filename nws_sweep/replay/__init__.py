"""Replays the queue of a DataLoader with recorded costs of batches, and predicts other settings. Pure; no torch.

May import ``results``.
"""
