"""Training runs from a bad start: with fixed settings, by hill climbing, and with a
loader that tunes itself.

``run`` is called by ``child.call``, each time in a fresh process.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from benchmarks import bare
from benchmarks.bare import Recipe
from benchmarks.catalogue import Workload

if TYPE_CHECKING:
    from nws_sweep.records import Tuning

FIXED, CLIMBING, ONLINE = "fixed", "hill climbing", "autotune"
_EPOCHS = 2
_GAIN = 0.01  # hill climbing continues while another worker saves this share


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One training run."""

    workload: Workload
    method: str
    num_workers: int  # at the start
    # CPU time of a step, besides the workload's training step, which sleeps
    cpu_step_s: float = 0.0
    epochs: int = _EPOCHS


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a training run took."""

    epochs_s: tuple[float, ...]
    settled: int  # batches until the last change of settings
    longest_wait_s: float  # for one batch, without the first one of an epoch
    switches: int
    picked: str  # settings at the end
    first_switch_s: float  # from the start; 0 without any
    # the first one with other settings, counted over all epochs; 0 without any
    first_batch: int


def run(training: Training) -> Seen:
    """Runs it; the end of the workers is a part of an epoch."""
    dataset, sleep = bare.made(Recipe(workload=training.workload))
    loader: Any = bare.open_loader(
        dataset, Recipe(workload=training.workload, num_workers=training.num_workers)
    )
    if training.method != FIXED:
        loader = _tuned(loader, training.method)
    training_step = _step(sleep, training.cpu_step_s)
    epochs_s, waits_s, moments_s, began = [], [], [], time.perf_counter()
    for _ in range(training.epochs):
        epoch_began = before = time.perf_counter()
        for number, batch in enumerate(loader):
            if number:
                waits_s.append(time.perf_counter() - before)
            moments_s.append(time.perf_counter() - began)
            training_step(batch)
            before = time.perf_counter()
        epochs_s.append(time.perf_counter() - epoch_began)
    tuning: Tuning | None = getattr(loader, "tuning", None)
    switches = tuning.switches if tuning else ()
    numbers = [
        switch.epoch * training.workload.batches + switch.batch for switch in switches
    ]
    after = tuning.after if tuning else None
    return Seen(
        epochs_s=tuple(epochs_s),
        settled=numbers[-1] if numbers else 0,
        longest_wait_s=max(waits_s),
        switches=len(switches),
        picked=f"{after.num_workers} x {after.prefetch_factor or 0}"
        if after
        else str(training.num_workers),
        first_switch_s=moments_s[numbers[0]] if numbers else 0.0,
        first_batch=numbers[0] if numbers else 0,
    )


def _step(sleep: Callable[[Any], None], cpu_s: float) -> Callable[[Any], None]:
    def step(batch: Any) -> None:
        end_s = time.thread_time() + cpu_s
        while time.thread_time() < end_s:
            pass
        sleep(batch)

    return step if cpu_s else sleep


def _tuned(loader: Any, method: str) -> Any:
    from nws_sweep import autotune
    from nws_sweep.online.plan import Plan
    from nws_sweep.online.tuner import Tuner

    tuned: Any = autotune(loader, reuse="never", progress=False)
    if method == ONLINE:
        return tuned

    class Climbing(Tuner):
        """Adds a worker as long as a batch then takes less time."""

        def better(self, batch: int, batches: int | None) -> Plan:
            seconds = self.times.batch_s
            now_s = seconds.get(self.current)
            before_s = (
                seconds.get(self.tuning.switches[-1].before)
                if self.tuning.switches
                else None
            )
            if before_s and now_s and now_s > (1 - _GAIN) * before_s:
                return Plan(self.current, "no gain")
            more = replace(
                self.base, num_workers=self.current.num_workers + 1, prefetch_factor=2
            ).canonical()
            return Plan(more, "one more", self.epoch + (not batch))

    arguments = {
        field.name: getattr(tuned._own_tuner(), field.name)
        for field in fields(Tuner)
        if field.init
    }
    vars(tuned)["_tuner"] = Climbing(**arguments)
    return tuned
