"""Small programs that train slowly for a known reason, each after a public report;
``benchmarks.loop`` runs them.

``python -m benchmarks.programs.NAME`` trains; ``--mended`` applies the remedy,
``--bare`` prints where time goes.
"""
