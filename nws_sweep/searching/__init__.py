"""Searches one configuration: measures candidates in rounds, decides which to measure next, and recommends one.

May import ``executor`` and below. All modules but ``search``, ``rounds``, ``candidate`` and ``sample_check`` are pure.

Read first: ``search``, the loop. From a window to its row: ``candidate`` takes windows, ``quantities`` makes figures of
them, ``estimates`` compares the candidates by round.

search           the search of one configuration
strategy         patience, exhaustive, other settings; makes the strategy of the rules
adaptive         the default strategy
observations     what a strategy sees and decides
estimates        expected times of candidates, by round
earlier_results  what a search takes from earlier ones
rounds           takes time slices of the candidates in turn
search_progress  the candidates of a search, its record and cost, and which of them fits beside the others
candidate        the trial process of one candidate, and the windows of its time slices
trial_progress   what was measured of one candidate so far, and the ``Trial`` that it makes
schedule         which window a trial takes next
quantities       the quantities of a trial, whether they are precise enough, and whether they are possible
stats            means with intervals
counters         CPU time, memory, storage and noise of time slices, from the counters of processes and machine
batch_costs      what batches, the main process and the life of workers cost; measured and replayed time
sample_check     compares the samples of workers with those loaded without workers
"""
