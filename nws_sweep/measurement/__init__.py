"""Turns batches into figures: windows of batches, their quantities, candidates measured in rounds.

May import: ``system`` and below; no torch.
"""
