"""Benchmarks that keep nws_sweep honest. Not installed with the package: run scripts/benchmark in a checkout."""
