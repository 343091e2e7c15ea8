"""Rules of thumb for num_workers: they cost nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

# Each is given the CPUs that may be used, and the GPUs.
HEURISTICS: Mapping[str, Callable[[int, int], int]] = {
    "zero": lambda cpus, gpus: 0,
    "cpus": lambda cpus, gpus: cpus,
    "cpus_less_one": lambda cpus, gpus: cpus - 1,
    "cpus_to_8": lambda cpus, gpus: min(cpus, 8),
    "four_per_gpu": lambda cpus, gpus: 4 * max(1, gpus),
}

ABOUT: Mapping[str, str] = {
    "zero": "num_workers=0",
    "cpus": "the CPU count",
    "cpus_less_one": "the CPU count - 1",
    "cpus_to_8": "min(CPU count, 8)",
    "four_per_gpu": "4 x max(1, GPUs)",
}
