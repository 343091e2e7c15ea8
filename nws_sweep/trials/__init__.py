"""Runs each trial in separate processes: fork server, template process, trial
processes, their workers.

May import ``dataloading`` and below. ``child`` and the modules that only it imports run
in the trial process.

- ``dataset_server``: starts trial processes and keeps the template process of the
  latest dataset
- ``trial_process``: the parent's handle of a trial process, with time limit, memory
  budget, and other ranks beside it
- ``child``: the trial process itself, which answers ``commands``; ``failures``: its
  errors, and workers that exit
- ``trial_dataset``: its dataset; ``recipes``: makes objects; ``measuring``: its
  DataLoader, in windows
- ``forking``: whether a process with a dataset, or the program, may be forked
- ``rank0``: one search for all ranks of the user's training program
"""
