"""Benchmarks of nws_sweep, run by scripts/benchmark in a checkout; not installed with the package.

May import all of nws_sweep. Each command has a module:

- ``bias``: times of nws_sweep compared with those of a plain loop (``bare``); its page is ``bias_page``.
- ``search``: regret and cost of search methods (``methods``, ``peers``, ``against``), judged by an oracle (``oracle``,
  ``scores``, ``targets``); its page is ``search_page``.
- ``predictions``: epochs predicted from a short recording, and those of a plain loop; its page is ``predictions_page``.
- ``why``: diagnoses of workloads with known causes (``causes``).
- ``samples``: cost of comparing samples.

Shared: ``catalogue`` and ``workloads`` (what is loaded), ``sweep_search`` (searches by nws_sweep), ``child`` (functions
in fresh processes), ``epoch_times`` (figures from timestamps), ``journal`` (raw figures), ``support``. The store of
experiment=remote_store is ``object_server``. The package ``foreign``, run by scripts/test-foreign, tries loaders of
other libraries.
"""
