"""The Python API: ``search``, ``tune`` and ``sweep``, which measure in processes of their own."""

from nws_sweep.api.grids import sweep as sweep
from nws_sweep.api.searching import search as search
from nws_sweep.api.tuning import tune as tune
