"""Follows one DataLoader of a running program: times it, changes the settings, checks, keeps or undoes the change.

All epochs of a loader, and all its iterators, share one tuner. Only the newest iterator is followed.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from nws_sweep import units
from nws_sweep.dataloading.generators import seeding
from nws_sweep.online import decision
from nws_sweep.online.decision import Choice, pace_s
from nws_sweep.online.observation import EpochLength, TrainingTrial
from nws_sweep.online.plan import Agreement, Plan
from nws_sweep.online.watching import Waiting
from nws_sweep.replay import choice
from nws_sweep.results import LoaderSettings, SearchRecord, Switch, Trial, Tuning
from nws_sweep.system import host, resources, usage

_MOST_SWITCHES = 3
REPEATED = "its dataset does not read get_worker_info().num_workers, so every worker has all samples"
_AGREED_S, _AGREED_BATCHES = 0.5, 8  # how long before it ranks learn of a plan


@dataclass(eq=False)
class Tuner:
    """The state of one loader.

    Args:
        tuning: The settings of the loader as the program made it, and those to begin with; canonical.
        start: The record of what is found, with what is held fixed.
        changes_within_epochs: Whether settings can change there, and not only before the next epoch.
        cpus: CPUs that the program and its workers may use.
        most_workers: Maximum number of workers; None for what fits.
        prefetches: Whether ``prefetch_factor`` may change.
        tell: Called with a line about the loader, such as one about a change that affects more than speed.
        on_decided: Called each time the settings are decided.
        others: The agreement with other ranks; None for a single process.
        once: Whether the settings never change once they are decided.
        may_change: Whether the settings of this loader, and not of another one, may change.
        own_generators: Places of the dataset's own random number generators, which new workers seed.
        has_own_state: Whether the loader has a ``state_dict``, which is for its number of workers.
        endless_batches: Of an epoch, if the loader's class takes all epochs from one iterator; 0 for other loaders.
        draws_shuffle: Whether samples that were made without workers have drawn from the generator that shuffles.
        length: Of epochs of an iterable dataset.
    """

    changes_settings: ClassVar[bool] = True

    tuning: Tuning
    start: SearchRecord
    changes_within_epochs: bool
    most_workers: int | None
    prefetches: bool
    tell: Callable[[str], None]
    on_decided: Callable[["Tuner"], None]
    cpus: float = field(default_factory=host.usable_cores)
    others: Agreement | None = None
    once: bool = False
    may_change: Callable[["Tuner"], bool] = lambda _: True
    own_generators: Sequence[str] = ()
    has_own_state: bool = False
    endless_batches: int = 0
    draws_shuffle: bool = False
    length: EpochLength = field(init=False)
    trials: dict[LoaderSettings, Trial] = field(default_factory=dict)
    observation: TrainingTrial | None = None  # of the settings in use
    epoch: int = -1  # of the newest iterator
    batches: int = 0  # taken so far, of all epochs
    worker_pids: Sequence[int] = ()  # of the pool in use
    distributes_among: int | None = None  # the most workers that do not repeat samples, as known; None for any
    made_without_workers: Any = None  # index list of the latest batch that the program's process has made; None if none
    planned: Plan | None = None  # for a later epoch
    held: str = ""  # why the settings cannot change yet; empty if they can
    lengths: Mapping[str, int] = field(default_factory=dict)  # of containers of the dataset at the last look, by place
    looked_after: int = 0  # batches, of all epochs, at that look
    handles_at_start: Sequence[str] = ()  # places of handles of the dataset before the first sample
    # Says why no other forked workers than now may use the dataset; empty if they may, and without an iterator over it.
    shared: Callable[[], str] = lambda: ""
    is_undone: bool = False
    earlier_switches: int = 0  # changes before the settings were reconsidered
    waiting: Waiting | None = None  # since the settings were decided; None if they never change again

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        self.configuration = self.start.configuration
        self.length = EpochLength(self.base.num_workers)
        _tell_consequences(self, "from the start")

    @property
    def base(self) -> LoaderSettings:
        """Settings of the loader as the program made it."""
        return self.tuning.before

    @property
    def current(self) -> LoaderSettings:
        """Settings in use."""
        return self.tuning.after

    def observe(self, batches_per_epoch: int | None) -> TrainingTrial | None:
        """The observation of the settings in use, which continues over epochs; None if they are decided."""
        seen = self.observation
        if self.tuning.is_decided or (seen is not None and seen.is_long_enough and not self.may_change(self)):
            return None  # that of validation would continue as long as training
        if self.observation is None or self.observation.settings != self.current:
            self.observation = TrainingTrial(self.current, batches_per_epoch)
        return self.observation

    def plan(self, batch: int, batches: int | None) -> Plan | None:
        """Other settings, once enough has been seen of the current ones; it may decide for the current ones instead.

        Args:
            batch: Batches of this epoch so far; 0 before an epoch begins.
            batches: Length of an epoch; None if it is unknown.
        """
        if self.tuning.is_decided or not self.may_change(self):
            return None
        if self.planned is None:
            others = self.others
            self.planned = others.next() if others and not others.leads else _own_plan(self, batch, batches)
        plan, is_new_epoch = self.planned, not batch
        if plan is None or plan.epoch > self.epoch + is_new_epoch or (is_new_epoch and plan.batch):
            return None
        self.planned = None
        if plan.settings == self.current:
            self.decide(plan.reason)
            watch_on(self)
            return None
        if _epoch_of(self, plan.settings, batch) > self.epoch + is_new_epoch:  # rank 0 has planned it earlier
            self.postpone(plan)
            return None
        return plan

    def look_again(self, why: str) -> None:
        """The settings no longer fit: what was timed before no longer counts."""
        self.tuning = replace(self.tuning, is_decided=False, reason=why)
        self.trials, self.waiting, self.is_undone = {}, None, False
        self.earlier_switches = len(self.tuning.switches)
        self.tell(f"{why}; settings are reconsidered")

    def better(self, trial: Trial, batch: int, batches: int | None) -> Plan:
        """Settings that are predicted to be better; those in use if there are none."""
        switches = switches_of(self)
        if self.distributes_among is not None and self.current.num_workers >= self.distributes_among:
            return Plan(self.current, f"{_now(trial)}; {REPEATED}")
        if self.is_undone or len(switches) >= _MOST_SWITCHES - 1:  # one may be undone
            return Plan(self.current, switches[-1].reason if self.is_undone else _why(self, trial))
        better, refusal, is_new_epoch = None, "", True
        before = f"{_now(trial)}, with num_workers={trial.num_workers}"
        if batch and self.changes_within_epochs:
            left = None if batches is None else batches - batch
            better, refusal = better_choice(self, left, is_new_epoch=False)
            is_new_epoch = better is None
        if better is None and all(one.num_workers for one in self.trials) and decision.workers_may_not_help(trial):
            none = self.base.with_workers(0)
            return Plan(none, f"{before}, and its transfer is expensive", _epoch_of(self, none, batch))
        if better is None:
            better, refusal = better_choice(self, batches, is_new_epoch=True)
        if better is None:
            why = f"other settings were not tried: {refusal}" if refusal else _why(self, trial)
            return Plan(self.current, why)
        predicted_s = pace_s(trial) * better.predicted_s / better.current_s
        predicted = f"; {units.seconds(predicted_s)} predicted" if predicted_s else ""
        return Plan(better.settings, f"{before}{predicted}", self.epoch + is_new_epoch)

    def switched(self, plan: Plan, batch: int) -> None:
        """The settings have changed as planned, from ``batch`` on."""
        switch = Switch(plan.epoch, batch, self.current, plan.settings, plan.reason)
        self.tuning = replace(self.tuning, after=plan.settings, switches=(*self.tuning.switches, switch))
        _tell_consequences(self, f"from batch {batch} of epoch {plan.epoch} on")

    def reject(self, workers: int, why: str) -> None:
        """Only ``workers`` of the planned workers can make batches: keeps these, or undoes the change."""
        *earlier, latest = self.tuning.switches or [None]
        before, wanted = latest.before if latest else self.base, self.current.num_workers
        self.most_workers, is_more = max(workers, self.base.num_workers), workers > before.num_workers
        after = replace(self.current, num_workers=workers) if is_more else before
        kept = [replace(latest, after=after)] if latest and is_more else []
        self.tuning = replace(self.tuning, after=after, switches=(*earlier, *kept))
        if latest and not is_more:
            self.decide(f"{workers} of {wanted} workers could make batches{f' ({why})' if why else ''}")

    def end_epoch(self, batches: int, *, is_stream: bool) -> None:
        """An epoch has this many batches; of an iterable dataset it must not depend on num_workers."""
        if is_stream and (why := self.length.notice(batches, self.current.num_workers)):
            self.give_up(why)

    def give_up(self, reason: str) -> None:
        """The settings are those of the program from now on, even if others were decided."""
        self.waiting, self.trials = None, {one: trial for one, trial in self.trials.items() if one == self.base}
        self.tuning = replace(self.tuning, after=self.base, is_decided=False)
        self.decide(reason)

    def hold(self, why: str) -> None:
        """The settings cannot change yet, and what was timed until now does not count; empty if they can."""
        self.held = why
        if why:
            self.observation = None

    def postpone(self, plan: Plan) -> None:
        """The epoch ended before the plan was carried out: it is for the next one."""
        self.planned = replace(plan, epoch=self.epoch + 1, batch=0)

    def end(self) -> None:
        """Training has ended."""
        seen = self.observation
        if seen is not None and seen.windows:
            self.trials[seen.settings] = seen.trial(self.configuration, self.cpus)
        known = [switch.reason for switch in switches_of(self)[-1:]] or ([self.held] if self.held else [])
        latest = self.trials.get(self.current)
        if known and latest and pace_s(latest):
            known = [_why(self, latest)]
        self.decide("; ".join([*known, "training ended before more was timed"]), is_final=False)

    def decide(self, reason: str, *, is_final: bool = True) -> None:
        """The settings do not change any more; the answer is provisional unless ``is_final``."""
        if self.tuning.is_decided:
            return
        if self.others is not None and self.others.leads:
            self.others.publish(Plan(self.current, reason))
        settings = [*(switch.before for switch in self.tuning.switches), self.current]
        batch_s = tuple(filter(None, (pace_s(self.trials.get(one)) for one in settings)))
        self.tuning = replace(self.tuning, is_decided=True, is_provisional=not is_final, reason=reason, batch_s=batch_s)
        self.observation = None
        self.on_decided(self)


def switches_of(tuner: Tuner) -> tuple[Switch, ...]:
    """The changes since the settings were last decided."""
    return tuner.tuning.switches[tuner.earlier_switches :]


def watch_on(tuner: Tuner) -> None:
    """From now on the clock around ``next`` says whether the settings still fit; ranks would have to agree."""
    trial = tuner.trials.get(tuner.current)
    if trial is not None and not tuner.once and tuner.others is None:
        tuner.waiting = Waiting(decision.waiting_share(trial), tuner.current.num_workers, time.perf_counter())


def _own_plan(tuner: Tuner, batch: int, batches: int | None) -> Plan | None:
    """What this process plans, once enough has been seen; ranks learn of it before its batch."""
    seen = tuner.observation
    is_enough = seen is not None and (seen.is_long_enough if batch else seen.suffices and tuner.others is None)
    if seen is None or not is_enough:
        return None
    tuner.trials[seen.settings] = trial = seen.trial(tuner.configuration, tuner.cpus)
    plan = _undo(tuner, batch) or tuner.better(trial, batch, batches)
    if tuner.others is None or plan.settings == tuner.current:  # ``decide`` informs the others
        return plan
    if plan.epoch == tuner.epoch:
        batches_ahead = math.ceil(_AGREED_S / (pace_s(trial) or _AGREED_S))
        plan = replace(plan, batch=batch + max(_AGREED_BATCHES, batches_ahead))
    tuner.others.publish(plan)
    return plan


def _undo(tuner: Tuner, batch: int) -> Plan | None:
    """The settings before the latest change, if they are worth changing back to."""
    switches = switches_of(tuner)
    if not switches or tuner.is_undone:
        return None
    before, after = switches[-1].before, tuner.current
    earlier, latest = tuner.trials.get(before), tuner.trials.get(after)
    if not (earlier and earlier.objective_s and latest and latest.objective_s):
        return None
    before_s, after_s, tolerance = earlier.objective_s, latest.objective_s, tuner.configuration.search.tolerance
    if not choice.promising({after: after_s}, {before: before_s}, tolerance):
        return None
    tuner.is_undone = True
    what = "a batch" if before_s == pace_s(earlier) else "an epoch"
    now, then = f"{units.seconds(after_s)} with {named(after, before)}", units.seconds(before_s)
    reason = f"{what} took {now} and {then} with {named(before, after)}"
    return Plan(before, reason, _epoch_of(tuner, before, batch))


def better_choice(tuner: Tuner, batches: int | None, *, is_new_epoch: bool) -> tuple[Choice | None, str]:
    """The best settings that fit, as ``decision.choose``; if there are none, why better ones do not fit."""
    better = decision.choose(tuner, batches, is_new_epoch=is_new_epoch)
    if better is None:
        return None, ""
    refusal = _refusals(tuner, is_new_epoch=is_new_epoch)
    if why := refusal(better.settings):
        better = decision.choose(tuner, batches, is_new_epoch=is_new_epoch, allowed=lambda one: not refusal(one))
    return better, why if better is None else ""


def _refusals(tuner: Tuner, *, is_new_epoch: bool) -> Callable[[LoaderSettings], str]:
    """Why settings do not fit into what is free now, beside the batches in use unless their epoch ends before."""
    windows = [window for trial in tuner.trials.values() for window in trial.windows]
    worker_bytes = usage.private_bytes(tuner.worker_pids[0]) if tuner.worker_pids else 0
    ranks = host.local_ranks() if tuner.others else 1
    needs = replace(resources.resource_needs(windows, {}), worker_bytes=worker_bytes * ranks)
    free, in_flight = resources.now(None), tuner.current.queued_batches + 1
    has_ended = any(window.ended_epoch for window in tuner.trials[tuner.current].windows[-1:])
    if free.shm_bytes is not None and is_new_epoch and tuner.current.num_workers and not has_ended:
        free = replace(free, shm_bytes=free.shm_bytes + ranks * in_flight * needs.batch_bytes)
    shared = tuner.shared()
    return lambda settings: shared or resources.reason_not_fitting(settings, needs, free, ranks)


def _tell_consequences(tuner: Tuner, since: str) -> None:
    """Says what differs from the plain loader because num_workers has changed."""
    before, after = tuner.base.num_workers, tuner.current.num_workers
    consequences = []
    if after and tuner.own_generators:
        consequences.append(seeding(tuner.own_generators))
    if not before and tuner.draws_shuffle:
        consequences.append(
            "later epochs have a different order than without workers, since samples draw torch's random numbers"
        )
    if tuner.has_own_state:
        consequences.append(
            "later epochs may have a different order, and loading a state_dict() that was saved with "
            f"num_workers={after} needs this number or autotune"
        )
    if before and 0 < tuner.endless_batches < tuner.current.queued_batches:
        ahead = f"{tuner.current.queued_batches} batches are drawn ahead, more than an epoch of {tuner.endless_batches}"
        consequences.append(f"{ahead}, so that epochs after a reset() have another order")
    if before != after and consequences:
        tuner.tell(f"{tuner.tuning.changes} {since}: {'; '.join(consequences)}")


def _epoch_of(tuner: Tuner, settings: LoaderSettings, batch: int) -> int:
    """The first epoch that can have these settings; ``batch`` is 0 before an epoch begins."""
    is_within = batch and tuner.changes_within_epochs and settings.num_workers >= decision.fewest_workers(tuner.base)
    return tuner.epoch + (not is_within)


def _now(trial: Trial) -> str:
    batch_s = pace_s(trial)
    if not batch_s:
        return "how long a batch takes is unknown, since too few were timed"
    waiting = units.share(decision.waiting_share(trial))
    return f"a batch takes {units.seconds(batch_s)}, {waiting} of it waiting for the loader"


def named(settings: LoaderSettings, other: LoaderSettings) -> str:
    """The number of workers, and the other settings that differ from ``other``."""
    return f"num_workers={settings.num_workers} {settings.differing(other)}".rstrip()


def _why(tuner: Tuner, latest: Trial) -> str:
    """Why the settings in use stay, with their trial."""
    switches = switches_of(tuner)
    first = tuner.trials.get(switches[0].before) if switches else None
    if first is None or not pace_s(first) or not pace_s(latest):
        return f"{_now(latest)}; {no_gain(tuner)}"
    gained = _gained(first, latest)
    return f"{_now(latest)}; {gained}" if gained else _now(latest)


def _gained(first: Trial, latest: Trial) -> str:
    """Says what took longer at first; empty if nothing did, as when the training step has become slower meanwhile."""
    if pace_s(first) > pace_s(latest):
        return f"it took {units.seconds(pace_s(first))} at first"
    first_s, latest_s = first.objective_s, latest.objective_s
    if first_s and latest_s and first_s > latest_s:  # of an epoch, whose start was slower
        return f"an epoch takes {units.seconds(latest_s)}; it took {units.seconds(first_s)} at first"
    return ""


def no_gain(tuner: Tuner) -> str:
    """Why no other settings are worth a change."""
    return f"no other setting is predicted to gain more than {units.share(tuner.configuration.search.tolerance)}"
