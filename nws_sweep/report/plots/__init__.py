"""Figures drawn with matplotlib, each from an immutable record.

May import: ``analysis`` and below.

- ``line_charts``: times against num_workers; ``batch_times``
- ``account_bars``: where the time goes; ``stage_bars``: what makes a sample expensive
- ``facets``: how the configurations of a grid are divided by dataset
- ``style``: the style of all figures
"""

STAGES = "stages"
BATCH_TIMES = "batch_times"
# What each picture of a single configuration shows, in the order of drawing.
OF_CONFIGURATION = {
    STAGES: "what makes a sample expensive",
    BATCH_TIMES: "per-batch times",
}
