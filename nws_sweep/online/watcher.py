"""Says where the time of a training goes, and changes nothing."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nws_sweep import units
from nws_sweep.analysis import accounts, advice
from nws_sweep.analysis.answers import Answer
from nws_sweep.analysis.remedies import Remedy
from nws_sweep.dataloading.windows import Moment
from nws_sweep.model import choice
from nws_sweep.model.stages import COPY, stage_costs
from nws_sweep.online import texts
from nws_sweep.online.answer import account_of, reason_not_to_know
from nws_sweep.online.decision import Keep
from nws_sweep.online.observation import TrainingTrial
from nws_sweep.online.plan import Plan
from nws_sweep.online.times import Measured, account_of_training
from nws_sweep.online.tuner import Tuner, decision_for
from nws_sweep.records import Account, Part, Trial

# of workers, for fewer batches than can be timed, after which more would not change
# what is known
_STARTS = 8
_UNKNOWN = "what limits training is unknown"


@dataclass(eq=False)
class Watcher(Tuner):
    """Follows a loader until its next epoch begins, at most for a minute, or until
    training ends."""

    changes_settings = False
    _shown: Sequence[str] = ()  # the answer as it is shown; empty before

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
        if latest is None or self.sees_others or not self.may_change():
            return
        if _has_epoch(latest):
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
        answer = self._answer(trial, self.observation.batches.watching_s)
        lines = answer.lines
        if account is not None:
            lines.extend(accounts.table(account, self.current.num_workers))
        self._shown = lines
        self.decide(answer.answer)

    def lines(self) -> Sequence[str]:
        """The answer, and where the time went."""
        return self._shown or [f"{_UNKNOWN}: {self.tuning.reason}"]

    def _account(self, observation: TrainingTrial, until_s: float) -> Account | None:
        """Where the time went until this moment on the clock of the windows; None if it
        is unknown."""
        windows = observation.windows
        if not windows or reason_not_to_know(self):
            return None
        lasted_s = max(
            0.0, until_s - windows[0].began_s - observation.batches.watching_s
        )
        others = self.loader_clock.since(self.others_before, self.time)
        return account_of_training(windows, lasted_s, self.time, others)

    def _answer(self, trial: Trial, watching_s: float) -> Answer:
        """What limits the training, and what to change; watching has taken some
        seconds."""
        of_epoch, measured = account_of(self), self.times.measured.get(self.current)
        if of_epoch is None:
            return self._unknown(measured)
        account, note = accounts.of_later_epochs(of_epoch, self.current)
        part = accounts.to_change(account, self.current)
        restarts = part is Part.STARTING and self._is_restarted
        if measured is None and not restarts:
            return self._unknown(measured)
        details: dict[Part, str] = {}
        if part is Part.MAKING:
            details[part] = self._uneven(trial)[0] or _dearest(trial)
        remedies = self._remedies(account, trial)
        if restarts:
            details[Part.STARTING] = (
                f"{units.counted(self.time.starts, 'time')} for {units.counted(self.batches, 'batch')}"
            )
            remedies = ("keep the iterator of the DataLoader for the next batch",)
        elif part is None and not self.sees_others:
            remedies = (
                "nws-sweep watch PROGRAM tells other loaders from the training step",
            )
        return Answer(
            answer=accounts.limit(account, part),
            note=note,
            why=accounts.cause(account, part, details),
            remedies=remedies,
            cost=f"watching took {units.percent(max(0.001, watching_s / of_epoch.total_s))} of the time",
        )

    def _unknown(self, measured: Measured | None) -> Answer:
        if measured is None:
            return Answer(answer=f"{_UNKNOWN}: {texts.TOO_FEW}")
        took = texts.took(self.times, self.current, self.current)
        return Answer(
            answer=f"{_UNKNOWN}: so is the time of waiting",
            why=f"{reason_not_to_know(self)}; {took}",
        )

    def _uneven(self, trial: Trial) -> tuple[str, str]:
        """Which workers have less or more to do than others, and what would help; empty
        texts if none have."""
        if trial.fed_workers:
            fed = f"{trial.fed_workers} of {trial.num_workers}"
            return f"only {fed} workers had batches", "more shards feed more workers"
        text = advice.uneven_workers(trial) if self.is_stream else ""
        uneven, _, remedy = text.partition(": ")
        return uneven, remedy

    def _remedies(self, account: Account, trial: Trial) -> tuple[str, ...]:
        """What to change, with what other settings are predicted to save."""
        instead = None
        part = accounts.to_change(account, self.current)
        waits = account.share(Part.MAKING)
        if remedy := self._uneven(trial)[1]:
            # A prediction would have each worker make as much as the others.
            instead = Remedy(f"{remedy}: up to {{}}", waits)
        elif waits >= choice.PROMISING or part in (Part.MAIN, Part.STARTING):
            instead = self._predicted(account)
        return accounts.remedies(
            account, self.current, instead, is_remade=self.is_remade
        )

    def _predicted(self, account: Account) -> Remedy | None:
        """What other settings are predicted to save; None if they save nothing."""
        decision = decision_for(self)
        if isinstance(decision, Keep):
            if not decision.refusal:
                return None
            text = (
                f"cheaper samples save up to {{}}; no more workers: {decision.refusal}"
            )
            return Remedy(text, account.share(Part.MAKING))
        text = f"{texts.named(decision.settings, self.current)} saves {{}} (predicted)"
        if decision.settings.in_order != self.current.in_order:
            text += "; batches come in another order then"
        saved = max(0.0, 1 - decision.predicted_s / decision.current_s)
        return Remedy(text, saved)


def _has_epoch(observation: TrainingTrial) -> bool:
    return bool(observation.whole_epochs) or observation.is_long_enough


def _dearest(trial: Trial) -> str:
    """The function that takes most of a worker's time; empty if no calls were timed."""
    stages = stage_costs([trial], trial.settings.batch_size or 1, trial.num_workers)
    if not stages:
        return ""
    stage = stages[0]
    place = f", {stage.place}" if stage.place else ""
    larger = "; fewer and larger tensors take less" if stage.name == COPY else ""
    return f"most of it {stage.short_name} ({units.share(stage.share)}{place}){larger}"
