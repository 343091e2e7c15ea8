"""Searches one configuration: measures candidates in rounds, decides which to measure
next, and recommends one.

May import ``trials`` and below. Pure are all modules but ``search``, ``rounds``,
``candidate``, ``slices``, ``admission``, ``data`` and ``sample_check``.

Read first ``search``, the loop. From a window to its row: ``slices`` takes windows,
``timing`` has their times, ``estimates`` compares the candidates by round, ``rows``
makes the row.

search           the search of one configuration
session          earlier results, the lock of the machine, storing the result
strategy         patience and exhaustive; makes the strategy of the rules
adaptive         the default strategy
other_settings   settings besides num_workers
observations     what a strategy sees and decides
estimates        expected times of candidates, and what a choice among them may lose
earlier_results  what a search takes from earlier ones
rounds           the state of a search: its candidates, in rounds of time slices
candidate        the state of a candidate: its trial process, time slices and trial
slices           takes a time slice of a candidate
admission        which candidates may have trial processes at the same time
data             what time slices show about the length of an epoch and the size of the data
schedule         which window a trial takes next
timing           the times of one trial: pace, start-up and epoch
rows             the row of one candidate, and whether it is possible
counters         CPU time, memory, storage and noise of time slices, from the counters of processes and machine
batch_costs      what batches, the main process and the life of workers cost; measured and replayed time
sample_check     compares the samples of workers with those loaded without workers
"""
