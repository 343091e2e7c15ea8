"""The row of one candidate: the trial that its time slices make, and whether the pace
is possible. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nws_sweep import units
from nws_sweep.model.known import beside_others, queue_settings
from nws_sweep.records import (
    BatchCost,
    BatchRecord,
    LoopCosts,
    Noise,
    Span,
    TimeSlice,
    Trial,
    TrialState,
)
from nws_sweep.searching import batch_costs, counters
from nws_sweep.searching.schedule import (
    Conditions,
    batches_in,
    epoch_windows,
    seconds_in,
)
from nws_sweep.searching.timing import ALONE, Comparison, Timing
from nws_sweep.system import usage

# CPU time, costs of batches and pace come from stretches that differ by a few batches
_MARGIN = 1.05


def physical_limits(
    costs: Sequence[BatchCost], loop: LoopCosts, num_workers: int
) -> dict[str, float]:
    """Computes the least seconds per batch that recorded costs allow, by what takes
    them; the largest holds.

    No order of work, no queue and no luck goes below them. What may run beside
    something else counts in no limit: a worker transfers a batch beside the making of
    its next batch, and a training step may compute in several threads.

    Args:
        costs: Of at least one batch: those whose time is limited.
        loop: Costs of the main process.
        num_workers: At least 0.
    """
    making_s = statistics.fmean(cost.making_s for cost in costs)
    main_s = loop.sampler_s + loop.step_s
    if not num_workers:
        return {"drawing and making a batch and the training step": making_s + main_s}
    return {
        "making a batch, shared by the workers,": making_s / num_workers,
        "drawing and receiving a batch and the training step": loop.receive_s + main_s,
    }


@dataclass(frozen=True)
class Figures:
    """What the time slices of one candidate show.

    Attributes:
        slices: The time slices in order.
        conditions: The settings and the rules of the trial.
        ranks: Ranks that share the CPUs.
        fork_s: CPU seconds in which the user's program forks a worker; 0 if it is no
            larger than a trial process.
    """

    slices: Sequence[TimeSlice]
    conditions: Conditions
    ranks: int = 1
    fork_s: float = 0.0

    @cached_property
    def records(self) -> tuple[BatchRecord, ...]:
        """What batches cost, in the order of the epoch."""
        return batch_costs.batch_records(self.slices)

    @cached_property
    def _trial_loop(self) -> LoopCosts | None:
        """What the main process of the trial and the life of its workers cost; None
        before the first batch."""
        return batch_costs.loop_costs(self.slices, self.conditions)

    @cached_property
    def loop(self) -> LoopCosts | None:
        """What the main process and the life of workers cost in the user's program,
        which may be slower to fork."""
        loop = self._trial_loop
        return loop and replace(loop, fork_s=max(loop.fork_s, self.fork_s))

    @cached_property
    def timing(self) -> Timing:
        """The times, as the user's program would take them."""
        settings = self.conditions.settings
        more_start_s = 0.0
        if (
            self._trial_loop is not None
            and self.loop is not None
            and not settings.persistent_workers
        ):
            more_start_s = settings.num_workers * (
                self.loop.fork_s - self._trial_loop.fork_s
            )
        return Timing(self.slices, self.conditions, more_start_s)

    @property
    def fed_workers(self) -> int | None:
        """How many workers had batches, if some workers had none; else None."""
        unfed = max((window.unfed_workers for window in self.timing.windows), default=0)
        fed = self.conditions.settings.num_workers - unfed
        return fed if unfed and fed else None

    @cached_property
    def noise(self) -> Noise | None:
        """What disturbed the trial; None without time slices."""
        return counters.noise_of(self.slices, self.conditions.cores)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Measured and replayed time of the windows that count: what the replay does
        not model."""
        if self.loop is None:
            return ()
        # As in predictions, each rank has its share of the CPUs.
        queue = queue_settings(
            self.conditions.settings, self.conditions.cores / self.ranks
        )
        queue = beside_others(queue, self.noise.other_cpus if self.noise else 0.0)
        return batch_costs.spans_of(self.slices, self.records, self.loop, queue)

    def trial(self, compared: Comparison = ALONE) -> Trial:
        """Makes the trial with its figures alone, as compared with other trials."""
        measurement = self.timing.measurement(compared)
        return Trial(
            settings=self.conditions.settings,
            state=TrialState.OK,
            measurement=measurement,
            noise=self.noise if measurement else None,
            batches=self.conditions.length or None,
            records=self.records,
            loop=self.loop,
            spans=self.spans,
            fed_workers=self.fed_workers,
        )

    def impossible(self, half_width: float | None = None) -> str:
        """Says why the pace is impossible, with the figures; empty if it is possible.

        Args:
            half_width: As of ``Comparison``: the upper end of the interval is compared;
                None for the slowest round.
        """
        pace_s = self._slowest_s(half_width)
        if pace_s is None:
            return ""
        limits_s = self._limits_s()
        name = max(limits_s, key=lambda name: limits_s[name])
        if pace_s * _MARGIN >= limits_s[name]:
            return ""
        return f"{units.seconds(pace_s)} a batch is impossible: {name} takes at least {units.seconds(limits_s[name])}"

    def _slowest_s(self, half_width: float | None) -> float | None:
        """Computes the longest time per batch that the windows allow."""
        timing = self.timing
        if timing.batch_s is None or timing.paced_s is None:
            return None
        slowest_s = max(timing.batch_s, timing.paced_s)
        epochs = epoch_windows(timing.paced_windows)
        if epochs:  # workers made batches in a long first step, too
            slowest_s = max(slowest_s, seconds_in(epochs) / batches_in(epochs))
        if half_width is None:
            return max([slowest_s, *timing.paces_s.values()])
        return slowest_s * math.exp(half_width)

    def _limits_s(self) -> dict[str, float]:
        """Computes the physical limits of what the windows took; at least the training
        step."""
        limits_s = {"the training step": self.timing.step_s}
        costs = self._costs_in_windows()
        if self.loop is not None and costs:
            # The first batches of a process take longer to receive.
            receive_s = batch_costs.receive_cpu_s(self.timing.paced_windows)
            loop = replace(self.loop, step_s=self.timing.step_s, receive_s=receive_s)
            # Of CPU time only the counters say enough: records of a start have what a
            # process does once.
            limits_s |= physical_limits(
                costs, loop, self.conditions.settings.num_workers
            )
        cpu_s = self._least_cpu_s()
        if cpu_s is not None:
            limits_s["the CPU time of a batch, shared by the CPUs,"] = (
                cpu_s / self.conditions.cores
            )
        return limits_s

    def _costs_in_windows(self) -> list[BatchCost]:
        """Lists the costs of the batches in the windows of the pace, without batches
        whose calls were timed."""
        paced = {id(window) for window in self.timing.paced_windows}
        taken: set[tuple[int, int]] = set()
        for epoch, windows in enumerate(batch_costs.epochs(self.slices)):
            for window, _, numbers in windows:
                if id(window) in paced:
                    taken.update((epoch, number) for number in numbers)
        return [
            record.cost
            for record in self.records
            if (record.epoch, record.number) in taken and not record.stages
        ]

    def _least_cpu_s(self) -> float | None:
        """Computes a lower bound of the CPU seconds of a batch, without the time
        between windows; None if unknown."""
        cores = self.conditions.cores
        running = counters.running_slices(self.slices, self.conditions)
        windows = counters.all_windows(running)
        starts = counters.worker_starts(self.slices, self.conditions)
        has_start = any(id(window) in starts for window in windows)
        has_end = any(window.ended_epoch for window in windows)
        if epoch_windows(windows):
            # An epoch includes its start and end; later ones lack that of workers that
            # persist.
            is_unknown = has_start and self.conditions.settings.persistent_workers
        else:
            is_unknown = has_start or has_end
        if is_unknown:
            return None
        cpu_s, batches = 0.0, 0.0
        for time_slice in running:
            between_s = (
                time_slice.elapsed_s
                - seconds_in(time_slice.windows)
                + usage.CLOCK_TICK_S
            )
            cpu_s += time_slice.used.cpu_s - cores * max(0.0, between_s)
            batches += counters.batches_made(time_slice, self.conditions)
        return max(0.0, cpu_s) / batches if batches else None
