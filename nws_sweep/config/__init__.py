"""The schema of the configuration, and what other Hydra programs get of it.

May import: ``tuning`` and below; every Hydra program imports this package, so it imports nothing by itself.
"""
