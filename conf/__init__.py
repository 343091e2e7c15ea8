"""The configuration of nws_sweep: YAML files; this module only makes them importable
(pkg://nws_sweep.conf)."""
