"""What candidates cost in memory: who is nearly as fast for less, and which attributes workers come to copy. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nws_sweep import units
from nws_sweep.records import ObjectStore, SearchRecord, Trial

# Speed that a leaner candidate may lose, and memory that it must save, as shares of the best's.
_MOST_LOST, _LEAST_SAVED = 0.05, 0.1


def leaner(result: SearchRecord, best: Trial | None) -> Trial | None:
    """The candidate with the least memory that has 95 % of the best's speed and saves a tenth; None if there is none.

    Args:
        result: The search.
        best: The recommended trial.
    """
    held = _held_bytes(best)
    if best is None or held is None or best.objective_s is None:
        return None
    slowest_s = best.objective_s / (1 - _MOST_LOST)
    able = [
        (bytes_, trial.num_workers, trial)
        for trial in result.trials
        # More workers with less memory is how memory was sampled: when theirs had ended already, mostly.
        if trial.objective_s is not None
        and trial.num_workers <= best.num_workers
        and trial.objective_s <= slowest_s
        and (bytes_ := _held_bytes(trial)) is not None
        and bytes_ <= (1 - _LEAST_SAVED) * held
    ]
    return min(able, key=lambda one: one[:2])[2] if able else None


def _held_bytes(trial: Trial | None) -> int | None:
    return trial.measurement.memory_bytes if trial and trial.measurement else None


def about_leaner(best: Trial, other: Trial) -> str:
    """What a leaner candidate would save, and lose."""
    less = (_held_bytes(best) or 0) - (_held_bytes(other) or 0)
    speed = (best.objective_s or 0.0) / (other.objective_s or 1.0)
    return (
        f"{_named(other, best)} has {units.share(min(1.0, speed))} of the speed with {units.memory(less)} "
        f"less memory ({units.memory(_held_bytes(other))} instead of {units.memory(_held_bytes(best))})"
    )


def _named(other: Trial, best: Trial) -> str:
    """Its number of workers, and what else differs from the best's where other settings were searched too."""
    alike = replace(best.settings, num_workers=other.num_workers).canonical()
    return f"num_workers={other.num_workers} {other.settings.differing(alike)}".strip()


def about_objects(result: SearchRecord) -> Iterator[str]:
    """A line for each attribute of the dataset that holds many Python objects; none where workers are not forked."""
    workers = [trial for trial in result.trials if trial.num_workers and trial.measurement]
    if result.facts is None or not workers:
        return
    most = max(workers, key=lambda trial: trial.num_workers)
    # Elsewhere the platform's own start method is another one.
    own = "fork" if result.host.platform.startswith("Linux") else None
    if (most.settings.multiprocessing_context or own) != "fork":
        return
    for store in result.facts.objects:
        yield _about_object(store, most)


def _about_object(store: ObjectStore, most: Trial) -> str:
    copied = store.bytes * most.num_workers
    return (
        f"the dataset keeps {store.count:,} Python objects in {store.attribute} ({store.type}, about "
        f"{units.memory(store.bytes)}): each forked worker comes to hold its own copy as it reads them, up to "
        f"{units.memory(copied)} with {most.num_workers}; NumPy arrays of fixed-width strings or numbers, or pyarrow, "
        "are shared"
    )
