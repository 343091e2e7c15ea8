"""What the results mean: the best setting, its bottleneck, warnings, comparisons.

May import ``config``, ``model`` and below. Pure functions.

- ``summary``: the results of a run or a grid as one frozen value, from which every
  output is rendered
- ``accounts``: where the time of an epoch goes, in words
- ``diagnosis``, ``advice``: the bottlenecks of a configuration; the same in sentences
  with values and remedies, by the words of ``limits`` and ``remedies``
- ``answers``: the form of every answer, and the first line of a search
- ``what_if``: times with other settings, CPUs and training steps
- ``stage_savings``: the epoch without each stage of a sample
- ``caveats``: warnings about an answer
- ``time_ratios``: the ratio of two times with its interval
- ``comparing``: two runs side by side; ``twins``: points of a grid that are shown as
  one
"""
