"""Measures trials: takes time slices of candidates in rounds, and estimates the quantities of each trial.

May import ``system``, ``units``, ``results`` and ``errors``; no torch. ``schedule``, ``stats``,
``counters`` and ``quantities`` are pure.

windows          cuts an iteration over a DataLoader into windows, in a trial and in a training program
schedule         which window a trial takes next
stats            means with intervals
counters         CPU time, memory, storage and noise of time slices, from the counters of processes and machine
quantities       the quantities of a trial, whether they are precise enough, and whether they are possible
environment      the interfaces of a search: trial processes, clock, machine, observer
batch_costs      what batches, the main process and the life of workers cost; measured and replayed time
trial_progress   what was measured of one candidate so far, and the ``Trial`` that it makes
candidate        the trial process of one candidate, and the windows of its time slices
search_progress  the candidates of a search, its record and cost, and which of them fits beside the others
sample_check     compares the samples of workers with those loaded without workers
rounds           runs the candidates in rounds of time slices, with all modules above
"""
