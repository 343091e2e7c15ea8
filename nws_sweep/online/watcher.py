"""Says how long training waits for data, and changes nothing."""

from nws_sweep import units
from nws_sweep.dataloading import device_clock
from nws_sweep.online import texts
from nws_sweep.online.decision import Keep
from nws_sweep.online.plan import Plan
from nws_sweep.online.times import times_of
from nws_sweep.online.tuner import Tuner
from nws_sweep.replay.stages import stage_costs
from nws_sweep.results import Trial
from nws_sweep.system import accelerator


class Watcher(Tuner):
    """Follows a loader for an epoch, at most for a minute, or until training ends."""

    changes_settings = False

    def plan(self, batch: int, batches: int | None) -> Plan | None:
        """Never other settings; says what was found once a long epoch has lasted a minute."""
        latest = self.observation
        if latest is not None and self.may_change(self) and latest.is_long:
            self.end()
        return None

    def end_epoch(self, batches: int, *, is_stream: bool) -> None:
        """Says what was found, if the epoch was timed."""
        latest = self.observation
        if latest is not None and self.may_change(self) and (latest.whole_epochs or latest.is_long_enough):
            self.end()

    def end(self) -> None:
        """Says what was found."""
        if self.observation is None or self.tuning.is_decided:
            return
        self.trials[self.current] = trial = self.observation.trial(self.configuration, self.cpus)
        self.decide(self._reason(trial, self.observation.batches_per_epoch))

    def _reason(self, trial: Trial, batches: int | None) -> str:
        """What was found, in a sentence."""
        times, device = times_of([trial]), accelerator.in_use()
        measured = times.measured.get(self.current)
        if measured is None:
            return "too few batches were timed"
        takes = f"{times.unit} takes {times.text(measured.batch_s)} with num_workers={self.current.num_workers}"
        if device and device_clock.of_training() is None:
            why = f"since the step may still run on {device} when the next batch is requested"
            return f"{takes}; the share of it spent waiting is unknown, {why}"
        waits = f"training waits for data {units.share(measured.waiting_share)} of the time{_dearest(trial)}; {takes}"
        decision = self.situation.decision(batches, is_new_epoch=True)
        if isinstance(decision, Keep):
            return f"{waits}; {decision.refusal or texts.NO_GAIN}"
        ratio = decision.predicted_s / decision.current_s
        share = units.share(max(0.0, 1 - (1 - measured.waiting_share) / ratio))
        settings, predicted = texts.named(decision.settings, self.current), times.text(measured.batch_s * ratio)
        return f"{waits}; predicted with {settings}: waiting {share}, {times.unit} {predicted}"


def _dearest(trial: Trial) -> str:
    """The stage of a sample that takes most of a worker's time; empty if no calls were timed."""
    stages = stage_costs([trial], trial.settings.batch_size or 1, trial.num_workers)
    return f"; slowest stage of a sample: {stages[0].name} ({units.share(stages[0].share)})" if stages else ""
