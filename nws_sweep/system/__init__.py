"""Queries and controls the operating system: CPUs, memory, processes, signals, locks,
files.

May import ``records``, ``units`` and ``errors``.

- ``host``: facts about the machine, the CPUs that this process may use, and the files
  of its control groups
- ``resources``: free memory, shared memory, open files and threads, and candidates that
  do not fit
- ``usage``: what processes and the machine have used
- ``accelerator``: the machine's accelerator
- ``torch_internals``: the private names of torch, and those that it lacks
- ``fork_server``: forks processes from one that has imported modules or made a dataset
- ``processes``: process groups, open files, and signals such as Ctrl-C and SIGTERM
- ``platforms``: what is impossible or unknown on this operating system
- ``host_lock``, ``temporary``: one measurement at a time; temporary folders
- ``page_cache``, ``streams``: files in the page cache; standard input, output and error
"""
