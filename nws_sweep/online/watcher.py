"""Says how long training waits for data, and changes nothing."""

from nws_sweep import units
from nws_sweep.dataloading import device_clock
from nws_sweep.online import decision
from nws_sweep.online.decision import pace_s
from nws_sweep.online.plan import Plan
from nws_sweep.online.tuner import Tuner, better_choice, named, no_gain
from nws_sweep.replay.stages import stage_costs
from nws_sweep.results import Trial
from nws_sweep.system import accelerator

_LONG_S = 60.0  # of an epoch, which is recorded batch by batch


class Watcher(Tuner):
    """Follows a loader for an epoch, at most for a minute, or until training ends."""

    changes_settings = False

    def plan(self, batch: int, batches: int | None) -> Plan | None:
        """Never other settings; says what was found once a long epoch has lasted a minute."""
        seen = self.observation
        if seen is not None and self.may_change(self) and sum(one.elapsed_s for one in seen.windows) >= _LONG_S:
            self.end()
        return None

    def end_epoch(self, batches: int, *, is_stream: bool) -> None:
        """Says what was found, if the epoch was long enough."""
        if self.may_change(self) and self.observation is not None and self.observation.suffices:
            self.end()

    def end(self) -> None:
        """Says what was found."""
        if self.observation is None or self.tuning.is_decided:
            return
        self.trials[self.current] = trial = self.observation.trial(self.configuration, self.cpus)
        self.decide(self._found(trial, self.observation.batches_per_epoch))

    def _found(self, trial: Trial, batches: int | None) -> str:
        batch_s, device, share = pace_s(trial), accelerator.in_use(), decision.waiting_share(trial)
        if not batch_s:
            return "too few batches were timed"
        now = f"a batch takes {units.seconds(batch_s)} with num_workers={self.current.num_workers}"
        if device and device_clock.of_training() is None:
            why = f"since the step may still run on {device} when the next batch is requested"
            return f"{now}; the share of it spent waiting is unknown, {why}"
        now = f"training waits for data {units.share(share)} of the time{_dearest(trial)}; {now}"
        better, refusal = better_choice(self, batches, is_new_epoch=True)
        if better is None:
            return f"{now}; {refusal or no_gain(self)}"
        then_s = batch_s * better.predicted_s / better.current_s
        waits = units.share(max(0.0, 1 - (1 - share) * batch_s / then_s))
        settings = named(better.settings, self.current)
        return f"{now}; predicted with {settings}: waiting {waits}, a batch {units.seconds(then_s)}"


def _dearest(trial: Trial) -> str:
    """The stage of a sample that takes most of a worker's time; empty if no calls were timed."""
    stages = stage_costs([trial], trial.settings.batch_size or 1, trial.num_workers)
    return f"; slowest stage of a sample: {stages[0].name} ({units.share(stages[0].share)})" if stages else ""
