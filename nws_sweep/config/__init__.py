"""The schema of the configuration, and its use in other Hydra programs.

May import: ``system`` and below. Every Hydra program imports this package, so it
imports no module by itself: ``schema`` (keys, ranges, ``Configuration`` from Hydra's
configuration), ``search_options`` (how to search, from Python or the configuration of
another program), ``hydra_errors`` (errors of Hydra as one line), ``embedding`` (the
files of conf/ that other programs may compose), ``project_keys`` (settings in a
project's config).
"""
