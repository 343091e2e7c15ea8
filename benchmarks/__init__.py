"""Benchmarks of nws_sweep, run by scripts/benchmark in a checkout; not installed with
the package.

May import all of nws_sweep. Each command has a module:

- ``numbers``: searches with default arguments, beside ``neighbours`` too;
  ``comparisons`` of their rows with plain loops (``bare``) and with what is possible;
  ``numbers_results`` makes its tables.
- ``search``: regret and cost of search methods (``methods``, ``peers``, ``rivals``), of
  another version of nws_sweep too, judged by an oracle (``oracle``, ``scores``,
  ``targets``); ``search_results`` makes its tables.
- ``predictions``: epochs predicted from a short recording, and those of a plain loop;
  ``predictions_results`` makes its tables.
- ``why``: diagnoses of workloads with known causes (``causes``).
- ``stages``: datasets with a planted stage, explained.
- ``loop``: ``watch`` and TraceML (``rivals``) on programs after public reports
  (``loop_cases``, ``programs``).
- ``online``: training runs with autotune and with fixed settings (``benchmarks.trainings``).
- ``accelerator``: training on a CUDA device.
- ``samples``: cost of comparing samples.
- ``simulated``: whole searches on machines whose best settings are known (``curves``,
  ``simulated_machine``); ``ablation``: the same without each named number.
- ``demo``: keeps the tables of scripts/demo.

Shared: ``results`` (the folder that a benchmark writes), ``catalogue`` and
``workloads`` (what is loaded), ``program`` (searches by the public API in a process of
their own), ``sweep_search`` (searches by inner functions), ``passes`` (bare runs of the
oracle), ``child`` (functions in fresh processes), ``epoch_times`` (figures from
timestamps), ``journal`` (raw figures), ``support``. The store of
experiment=remote_store is ``object_server``. The package ``foreign``, run by
scripts/test-foreign, tries loaders of other libraries.
"""
