"""Benchmarks of nws_sweep, run by scripts/benchmark in a checkout; not installed with
the package.

May import all of nws_sweep. Each command has a module:

- ``numbers``: searches with default arguments, beside ``neighbours`` too;
  ``comparisons`` of their rows with plain loops (``bare``) and with what is possible;
  its page is ``numbers_results``.
- ``search``: regret and cost of search methods (``methods``, ``peers``), of another
  version of nws_sweep too, judged by an oracle (``oracle``, ``scores``, ``targets``);
  its page is ``search_results``.
- ``predictions``: epochs predicted from a short recording, and those of a plain loop;
  its page is ``predictions_results``.
- ``why``: diagnoses of workloads with known causes (``causes``).
- ``samples``: cost of comparing samples.

Shared: ``catalogue`` and ``workloads`` (what is loaded), ``program`` (searches by the
public API in a process of their own), ``sweep_search`` (searches by inner functions),
``passes`` (bare runs of the oracle), ``child`` (functions in fresh processes),
``epoch_times`` (figures from timestamps), ``journal`` (raw figures), ``support``. The
store of experiment=remote_store is ``object_server``. The package ``foreign``, run by
scripts/test-foreign, tries loaders of other libraries.
"""
