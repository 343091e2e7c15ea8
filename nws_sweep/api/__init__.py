"""The Python API: ``search``, ``explain``, ``tune`` and ``sweep``, which measure in
separate processes."""

from nws_sweep.api.explaining import explain as explain
from nws_sweep.api.grids import sweep as sweep
from nws_sweep.api.searching import search as search
from nws_sweep.api.tuning import tune as tune
