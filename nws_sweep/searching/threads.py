"""A warning if another number of torch's threads loads samples faster without workers."""

from collections.abc import Mapping

from nws_sweep import units
from nws_sweep.searching.candidate import Candidate

_COMPARE_S = 0.5
_FEWER_THREADS = 0.8  # share of the time with the program's own number of threads that is worth a warning


def compare(candidate: Candidate, cpus: float) -> None:
    """After the first time slice of a candidate without workers, warns if one thread or one for each CPU is faster."""
    is_beside_others = candidate.process.configuration.ranks > 1
    if candidate.settings.num_workers or len(candidate.slices) != 1 or candidate.discarded or is_beside_others:
        return
    counts = (1, max(1, int(cpus)))
    times_s = candidate.process.ask(lambda process: process.thread_times(counts, _COMPARE_S))
    if warning := threads_warning(times_s or {}):
        candidate.warn(warning)


def threads_warning(times_s: Mapping[int, float]) -> str:
    """A warning if the program's number of torch's threads, the first one, is much slower than another; else empty."""
    usual = next(iter(times_s), 1)
    best = min(times_s, key=lambda number: times_s[number], default=1)
    if not times_s or times_s[best] > _FEWER_THREADS * times_s[usual]:
        return ""
    return (
        f"without workers, torch.set_num_threads({best}), or OMP_NUM_THREADS={best}, would save "
        f"{units.share(1 - times_s[best] / times_s[usual])} of loading: a sample takes {units.seconds(times_s[best])} "
        f"instead of {units.seconds(times_s[usual])} with {usual} threads"
    )
