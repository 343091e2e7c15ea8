"""Follows one DataLoader of a running program: times it, changes the settings, times
them, keeps or leaves them.

All epochs of a loader, and all its iterators, share one tuner. Only the newest iterator
is followed.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from nws_sweep import verbosity
from nws_sweep.dataloading.generators import seeding
from nws_sweep.model import choice, epoch_length
from nws_sweep.online import texts
from nws_sweep.online.answer import answer_of, details
from nws_sweep.online.decision import Keep, Try, decide
from nws_sweep.online.loader_state import LoaderState
from nws_sweep.online.plan import Plan
from nws_sweep.online.situation import situation_of, workers_may_not_help
from nws_sweep.online.times import at_the_pace, in_whole_epochs
from nws_sweep.online.waiting import Waiting
from nws_sweep.records import Switch


@dataclass(eq=False)
class Tuner(LoaderState):
    """Plans and notes the changes of the settings of one loader; its arguments are
    those of ``LoaderState``."""

    changes_settings: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        super().__post_init__()
        self._tell_consequences("from the start")

    def _tell_consequences(self, since: str) -> None:
        """Says what differs from the plain loader because num_workers has changed."""
        settings = texts.named(self.current, self.base)
        for consequence in self._consequences():
            self.tell(f"{settings} {since}: {consequence}")

    def _consequences(self) -> Iterator[str]:
        before, after = self.base.num_workers, self.current.num_workers
        ahead = self.current.queued_batches
        if before == after:
            return
        if after and self.own_generators:
            yield seeding(tuple(self.own_generators))
        if not before and self.draws_shuffle:
            yield "later epochs have a different order than without workers, since samples draw torch's random numbers"
        if self.has_own_state:
            yield (
                "later epochs may have a different order; a state_dict() saved with "
                f"num_workers={after} needs this number or autotune"
            )
        if before and 0 < self.endless_batches < ahead:
            yield (
                f"{ahead} batches are drawn ahead, more than an epoch of {self.endless_batches}: epochs after a "
                "reset() have another order"
            )

    def plan(self, batch: int) -> Plan | None:
        """Other settings, once enough has been timed of the current ones; it may decide
        for the current ones instead.

        ``batch`` is the number of batches of this epoch so far; 0 before an epoch
        begins.
        """
        if self.tuning.is_decided or not self.may_change():
            return None
        # What was planned within an epoch is planned again after it: its first batches
        # may have been slower, as where workers touch data in memory first.
        is_new_epoch = not batch and self.others is None
        if self.planned is None or is_new_epoch:
            self.planned = self._next_plan(batch) or self.planned
        plan, epoch = self.planned, self.epoch + (not batch)
        if plan is None or plan.epoch > epoch or (not batch and plan.batch):
            return None
        self.planned = None
        if plan.settings == self.current:
            self.decide(plan.reason)
            self.watch_on()
            return None
        if self.epoch_of(plan.settings, batch) > epoch:  # rank 0 has planned it earlier
            self.postpone(plan)
            return None
        return plan

    def _next_plan(self, batch: int) -> Plan | None:
        """What this process plans, or rank 0 has planned; None if too little is known
        yet."""
        if self.others is not None and not self.leads:
            return self.others.next()
        if not self._has_timed(batch):
            return None
        plan = _plan_of(self, batch)
        # ``decide`` informs the others
        if self.others is None or plan.settings == self.current:
            return plan
        # ranks look at the end of each window: after two, all of them have
        if plan.epoch == self.epoch:
            plan = replace(
                plan, batch=batch + 2 * self.trials[self.current].windows[-1].batches
            )
        self.others.publish(plan)
        return plan

    def _has_timed(self, batch: int) -> bool:
        """Whether the settings in use were timed long enough, and as earlier settings
        were if possible.

        Notes their trial. A pace is not compared with whole epochs as long as a whole
        epoch may follow.
        """
        latest = self.observation
        if latest is None:
            return False
        is_enough = (
            latest.is_long_enough if batch else latest.suffices and self.others is None
        )
        if is_enough:
            self.trials[latest.settings] = latest.trial(self.configuration, self.cpus)
        times = self.times
        measured = times.measured.get(self.current)
        return (
            is_enough
            and measured is not None
            and (measured.is_of_epochs or not times.is_mixed)
        )

    def look_again(self, why: str) -> None:
        """The settings no longer fit: what was timed before no longer counts."""
        self.tuning = replace(self.tuning, is_decided=False, reason=why)
        self.trials, self.waiting = {}, None
        self.earlier_switches = len(self.tuning.switches)
        self.tell(f"{why}; settings are reconsidered")

    def switched(self, plan: Plan, batch: int) -> None:
        """The settings have changed as planned, from ``batch`` on."""
        switch = Switch(plan.epoch, batch, self.current, plan.settings, plan.reason)
        self.tuning = replace(
            self.tuning, after=plan.settings, switches=(*self.tuning.switches, switch)
        )
        since = f"from batch {batch} of epoch {plan.epoch} on"
        if verbosity.is_verbose():
            settings = texts.named(plan.settings, switch.before)
            self.tell(f"{settings} {since}: {plan.reason}")
        self._tell_consequences(since)

    def reject(self, workers: int, why: str) -> None:
        """Only ``workers`` of the planned workers can make batches: keeps these, or
        undoes the change."""
        *earlier, latest = self.tuning.switches or [None]
        before = latest.before if latest else self.base
        wanted = self.current.num_workers
        self.most_workers = max(workers, self.base.num_workers)
        is_more = workers > before.num_workers
        after = replace(self.current, num_workers=workers) if is_more else before
        kept = [replace(latest, after=after)] if latest and is_more else []
        self.tuning = replace(self.tuning, after=after, switches=(*earlier, *kept))
        if latest and not is_more:
            because = f" ({why})" if why else ""
            self.decide(f"{workers} of {wanted} workers could make batches{because}")

    def end_epoch(self, batches: int) -> None:
        """An epoch has this many batches; of an iterable dataset it must not depend on
        num_workers."""
        workers, workers_of_program = self.current.num_workers, self.base.num_workers
        if self.is_stream and workers == workers_of_program:
            self.usual_batches = batches
        if self.usual_batches is None:
            return
        if why := epoch_length.difference(
            batches, workers, self.usual_batches, workers_of_program
        ):
            self.give_up(why)

    def give_up(self, reason: str) -> None:
        """The settings are those of the program from now on, even if others were
        decided."""
        self.waiting = None
        for settings in {*self.trials} - {self.base}:
            del self.trials[settings]
        self.tuning = replace(self.tuning, after=self.base, is_decided=False)
        self.decide(reason)

    def postpone(self, plan: Plan) -> None:
        """The epoch ended before the plan was carried out: it is for the next one."""
        self.planned = replace(plan, epoch=self.epoch + 1, batch=0)

    def end(self) -> None:
        """Training has ended."""
        latest = self.observation
        if latest is not None and latest.windows:
            self.trials[latest.settings] = latest.trial(self.configuration, self.cpus)
        reasons = filter(None, (self.held, texts.ENDED))
        self.decide("; ".join(reasons), is_final=False)

    def lines(self) -> Sequence[str]:
        """The answer; with details if these are to be shown."""
        lines = answer_of(self).lines
        if verbosity.is_verbose():
            lines.extend(details(self))
        return lines

    def watch_on(self) -> None:
        """From now on the clock around ``next`` says whether the settings still fit;
        ranks would have to agree."""
        trial = self.trials.get(self.current)
        if trial is None or self.once or self.others is not None:
            return
        if measured := at_the_pace(trial) or in_whole_epochs(trial):
            share, workers = measured.waiting_share, self.current.num_workers
            self.waiting = Waiting(share, workers, time.perf_counter())


def _plan_of(state: LoaderState, batch: int) -> Plan:
    """Settings to try, or earlier ones that were measured to be better; those in use if
    they stay."""
    if reason := _reason_to_stay(state):
        return Plan(state.current, reason)
    if batch and state.changes_within_epochs:
        decision = decision_for(state, batch)
        if isinstance(decision, Try):
            return _trying(state, decision, state.epoch)
    situation = situation_of(state, 0)
    if situation is None:
        return _as_measured(state, Keep(state.current, texts.TOO_FEW), batch)
    decision = decide(situation)
    if workers_may_not_help(state, situation, decision):
        return _without_workers(state, batch)
    if isinstance(decision, Try):
        return _trying(state, decision, state.epoch + 1)
    return _as_measured(state, decision, batch)


def _trying(state: LoaderState, decision: Try, epoch: int) -> Plan:
    reason = texts.tried(state.times, state.current, decision)
    return Plan(decision.settings, reason, epoch)


def decision_for(state: LoaderState, batch: int = 0) -> Try | Keep:
    """What ``decide`` decides for the batches after this one of the epoch, or for
    another epoch."""
    situation = situation_of(state, batch)
    if situation is None:
        return Keep(state.current, texts.TOO_FEW)
    return decide(situation)


def is_at_its_best(state: LoaderState) -> bool:
    """Whether none of the settings that were measured are better than those in use."""
    times_s, tolerance = state.times.batch_s, state.configuration.search.tolerance
    return not times_s or choice.choose(times_s, tolerance) == state.current


def _reason_to_stay(state: LoaderState) -> str:
    """Why nothing else is tried, whatever is predicted; empty if something may be."""
    # they were left, and are in use again
    if any(switch.before == state.current for switch in state.switches):
        return texts.MEASURED if is_at_its_best(state) else texts.SLOWER
    # Workers that are tried in vain stay until the end of the epoch.
    has_given_up = state.base.num_workers and not state.current.num_workers
    if has_given_up and len(state.trials) > 1 and is_at_its_best(state):
        return texts.MEASURED
    among = state.distributes_among
    if among is not None and state.current.num_workers >= among:
        return texts.REPEATED
    return ""


def _without_workers(state: LoaderState, batch: int) -> Plan:
    settings = state.base.with_workers(0)
    took = texts.took(state.times, state.current, beside=settings)
    reason = f"{took}; without workers none slows another"
    return Plan(settings, reason, state.epoch_of(settings, batch))


def _as_measured(state: LoaderState, decision: Keep, batch: int) -> Plan:
    """The best of the measured settings: the current ones, or earlier ones."""
    if decision.settings != state.current:
        reason = texts.took(state.times, state.current, decision.settings)
        return Plan(decision.settings, reason, state.epoch_of(decision.settings, batch))
    if decision.refusal:
        return Plan(state.current, f"nothing else was tried: {decision.refusal}")
    return Plan(state.current, texts.MEASURED if state.switches else texts.NO_GAIN)
