"""Figures drawn with matplotlib, each from an immutable record.

May import: ``analysis`` and below.

- ``line_charts``: values against num_workers; ``best_charts``: bars and heat map of the best settings; ``batch_times``
- ``stage_bars``: what makes a sample expensive
- ``facets``: how the configurations of a grid are divided among panels
- ``style``: the style of all figures
"""

from nws_sweep.results import storage

STAGES = "stages"
WHAT_IF = "what_if"
BATCH_TIMES = "batch_times"
# The pictures of a single configuration: what each shows, and the file with its data.
OF_CONFIGURATION = {
    STAGES: ("what makes a sample expensive", storage.COSTS), WHAT_IF: ("predicted times", storage.COSTS),
    BATCH_TIMES: ("per-batch times", storage.BATCHES),
}  # fmt: skip
