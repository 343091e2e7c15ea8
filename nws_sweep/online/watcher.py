"""Says where the time of a training goes, and changes nothing."""

import time
from dataclasses import dataclass, replace

from nws_sweep import units
from nws_sweep.analysis import accounts, advice
from nws_sweep.dataloading import device_clock
from nws_sweep.dataloading.windows import Moment
from nws_sweep.model.stages import COPY, stage_costs
from nws_sweep.online import texts
from nws_sweep.online.decision import Keep
from nws_sweep.online.observation import TrainingTrial
from nws_sweep.online.plan import Plan
from nws_sweep.online.times import Measured, account_of_training
from nws_sweep.online.tuner import Tuner, decision_for
from nws_sweep.records import Account, Part, Trial
from nws_sweep.system import accelerator

# of workers, for fewer batches than can be timed, after which more would not change
# what is known
_STARTS = 8


@dataclass(eq=False)
class Watcher(Tuner):
    """Follows a loader until its next epoch begins, at most for a minute, or until
    training ends."""

    changes_settings = False

    def plan(self, batch: int) -> Plan | None:
        """Never other settings; says what was found once a long epoch has lasted a
        minute, or the next one begins."""
        latest = self.observation
        if latest is None or not self.may_change():
            return None
        if latest.is_long if batch else _has_epoch(latest) or self._is_restarted:
            self._conclude(time.perf_counter())
        return None

    @property
    def _is_restarted(self) -> bool:
        """Whether workers were started again and again, each time for fewer batches
        than their queue has room for."""
        starts = self.time.starts
        return starts >= _STARTS and self.batches < starts * self.current.queued_batches

    def end_epoch(self, batches: int) -> None:
        """Says what was found if no other loaders are seen: nothing between two epochs
        is known then."""
        latest = self.observation
        if (
            latest is not None
            and self.may_change()
            and _has_epoch(latest)
            and not self.sees_others
        ):
            self._conclude(time.perf_counter())

    def end(self) -> None:
        """Says what was found; what followed the last batch of any loader is no part of
        an epoch."""
        if self.observation is not None:
            ended_s = self.loader_clock.latest_s
            spent_s = self.loader_clock.others_and_calls_s(self.time)
            self.observation.leave_epoch(
                Moment(ended_s, time.process_time(), 0.0, 0.0, 0.0, *spent_s)
            )
            self._conclude(ended_s)

    def _conclude(self, until_s: float) -> None:
        if self.observation is None or self.tuning.is_decided:
            return
        trial = self.observation.trial(self.configuration, self.cpus)
        account = self._account(self.observation, until_s)
        if trial.measurement is not None:
            trial = replace(
                trial, measurement=replace(trial.measurement, account=account)
            )
        self.trials[self.current] = trial
        reason = self._reason(trial)
        lines = accounts.table(account, self.current.num_workers) if account else []
        self.decide("\n  ".join([reason, *lines]))

    def _reason_not_to_know(self) -> str:
        """Why the waits of the loader are not those of the training; empty if they
        are."""
        device = accelerator.in_use()
        if device and device_clock.of_training() is None:
            return f"since the step may still run on {device} when the next batch is requested"
        return (
            ""
            if self.loader_clock.is_of_main_thread
            else "since another thread than the main one takes the batches"
        )

    def _account(self, observation: TrainingTrial, until_s: float) -> Account | None:
        """Where the time went until this moment on the clock of the windows; None if it
        is unknown."""
        windows = observation.windows
        if not windows or self._reason_not_to_know():
            return None
        lasted_s = max(
            0.0, until_s - windows[0].began_s - observation.batches.watching_s
        )
        return account_of_training(
            windows,
            lasted_s,
            self.time,
            self.loader_clock.since(self.others_before, self.time),
        )

    def _reason(self, trial: Trial) -> str:
        """What was found, in a sentence."""
        account = accounts.account_of(trial)
        measured = self.times.measured.get(self.current)
        part = accounts.to_change(account, self.current) if account else None
        if account is not None and part is Part.STARTING and self._is_restarted:
            return accounts.remedy_of_starts(account, self.time.starts, self.batches)
        if measured is None:
            return "too few batches were timed"
        if account is None:
            why = self._reason_not_to_know()
            return f"{self._takes(measured)}; the share of it spent waiting is unknown, {why}"
        if part is None and not self.sees_others:
            step = f"the training step takes {units.share(account.share(Part.STEP))} of the time"
            return f"{step}, other loaders in it included, which only nws-sweep watch PROGRAM sees"
        remedy = accounts.remedy(account, part, is_remade=self.is_remade)
        if part is Part.MAKING:
            return f"{remedy}{_dearest(trial)}; {self._takes(measured)}; {self._instead(trial, measured)}"
        return f"{remedy}; {self._predicted(measured)}" if part is Part.MAIN else remedy

    def _takes(self, measured: Measured) -> str:
        times = self.times
        return f"{times.unit} takes {times.text(measured.batch_s)} with num_workers={self.current.num_workers}"

    def _instead(self, trial: Trial, measured: Measured) -> str:
        """What holds the workers back, or what other settings are predicted to
        bring."""
        uneven = advice.uneven_workers(trial) if self.is_stream else ""
        # A prediction would have each worker make as much as the others.
        text = uneven or self._predicted(measured)
        if not trial.fed_workers:
            return text
        return f"only {trial.fed_workers} of {trial.num_workers} workers had batches; {text}"

    def _predicted(self, measured: Measured) -> str:
        """What other settings are predicted to bring, or why there are none."""
        times = self.times
        decision = decision_for(self)
        if isinstance(decision, Keep):
            return decision.refusal or texts.NO_GAIN
        ratio = decision.predicted_s / decision.current_s
        waiting = units.share(max(0.0, 1 - (1 - measured.waiting_share) / ratio))
        settings = texts.named(decision.settings, self.current)
        predicted = times.text(measured.batch_s * ratio)
        order = (
            ""
            if decision.settings.in_order == self.current.in_order
            else "; batches come in another order then"
        )
        return f"predicted with {settings}: waiting {waiting}, {times.unit} {predicted}{order}"


def _has_epoch(observation: TrainingTrial) -> bool:
    return bool(observation.whole_epochs) or observation.is_long_enough


def _dearest(trial: Trial) -> str:
    """The stage of a sample that takes most of a worker's time; empty if no calls were
    timed."""
    stages = stage_costs([trial], trial.settings.batch_size or 1, trial.num_workers)
    if not stages:
        return ""
    remedy = (
        ", which fewer and larger tensors make cheaper"
        if stages[0].name == COPY
        else ""
    )
    return f"; slowest stage of a sample: {stages[0].name} ({units.share(stages[0].share)}{remedy})"
