"""What the operating system says and does: CPUs, memory, processes, signals, locks.

May import: ``results``, ``units``, ``errors``.
"""
