"""Follows one DataLoader of a running training: looks, changes the settings, checks, and keeps or undoes the change.

All epochs of a loader, and all its iterators, share one tuner. Only the newest iterator is followed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Protocol

from nws_sweep import units
from nws_sweep.dataloading.generators import seeding
from nws_sweep.online import decision
from nws_sweep.online.decision import Choice, Prospect
from nws_sweep.online.epoch_length import EpochLength
from nws_sweep.online.observation import TrainingTrial
from nws_sweep.online.plan import Plan
from nws_sweep.replay import choice
from nws_sweep.results import Configuration, LoaderSettings, Switch, Trial, Tuning

_MOST_SWITCHES = 3
_USUAL_LIMIT, _STEP = 32, 4  # most workers at first, and most workers / those in use
REPEATED = "its dataset does not read get_worker_info().num_workers, so every worker has all samples"
_AGREED_S, _AGREED_BATCHES = 0.5, 8  # ranks learn of a plan so long before it


class When(Enum):
    """When settings can change."""

    NOW = "now"
    NEXT_EPOCH = "before the next epoch"


class OtherRanks(Protocol):
    """The other ranks of a distributed training; see ``agreement``."""

    leads: bool  # the others follow this rank

    def publish(self, plan: Plan) -> None:
        """Tells the others."""

    def next(self) -> Plan | None:
        """The next plan of the rank that leads; None if there is none yet."""


@dataclass(eq=False)
class Tuner:
    """The state of one loader.

    Args:
        base: Settings of the loader as the program made it, canonical.
        current: Settings to begin with.
        configuration: What is held fixed, for its trials.
        when: When the settings of this loader can change.
        cpus: CPUs that the training and its workers may use.
        most_workers: Never more workers; None for what fits.
        prefetches: Whether ``prefetch_factor`` may change.
        refusals: Gives a function that says why settings do not fit; empty if they do. Before a new epoch the current
            workers end, else the new ones start beside them.
        tell: Called with a line about the loader, such as one about a change that is more than one of speed.
        on_decided: Called once.
        others: The other ranks; None for a single process.
        may_change: Whether the settings of this loader, and not of another one, may change.
        own_generators: Places of the random number generators of the dataset's own, which new workers seed.
        has_own_state: Whether the loader has a ``state_dict``, which is for its number of workers.
        draws_shuffle: Whether samples that were made without workers have drawn from the generator that shuffles.
        length: Of epochs of an iterable dataset.
    """

    base: LoaderSettings
    current: LoaderSettings
    configuration: Configuration
    when: When
    cpus: float
    most_workers: int | None
    prefetches: bool
    refusals: Callable[["Tuner", bool], Callable[[LoaderSettings], str]]
    tell: Callable[[str], None]
    on_decided: Callable[["Tuner"], None]
    others: OtherRanks | None = None
    may_change: Callable[["Tuner"], bool] = lambda _: True
    own_generators: Sequence[str] = ()
    has_own_state: bool = False
    draws_shuffle: bool = False
    length: EpochLength = field(init=False)
    trials: list[Trial] = field(default_factory=list)
    tuning: Tuning = field(init=False)
    observation: TrainingTrial | None = None  # of the settings in use
    epoch: int = -1  # of the newest iterator
    batches: int = 0  # taken so far, of all epochs
    worker_pids: Sequence[int] = ()  # of the pool in use
    distributes_among: int | None = None  # more workers would repeat samples, as far as is known; None for any number
    started_at: str = field(default_factory=lambda: datetime.now().astimezone().isoformat())
    planned: Plan | None = None  # for a later epoch
    is_undone: bool = False

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        self.tuning, self.length = Tuning(before=self.base, after=self.current), EpochLength(self.base.num_workers)
        _tell_consequences(self, "from the start")

    def observe(self, batches_per_epoch: int | None) -> TrainingTrial | None:
        """The observation of the settings in use, which goes on over epochs; None if they are decided."""
        seen = self.observation
        if self.tuning.is_decided or (seen is not None and seen.is_long_enough and not self.may_change(self)):
            return None  # that of a validation would go on as long as the training
        if self.observation is None or self.observation.settings != self.current:
            self.observation = TrainingTrial(self.current, self.current.queued_batches, batches_per_epoch)
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
            is_led = self.others is not None and not self.others.leads
            self.planned = self._follow() if is_led else self._own_plan(batch, batches)
        return self._due(is_new_epoch=not batch)

    def _due(self, *, is_new_epoch: bool) -> Plan | None:
        """The plan, if it is for this epoch, or for one that is about to begin."""
        plan = self.planned
        if plan is None or plan.epoch > self.epoch + is_new_epoch or (is_new_epoch and plan.batch):
            return None
        self.planned = None
        return plan

    def _follow(self) -> Plan | None:
        plan = self.others.next() if self.others else None
        if plan is not None and plan.settings == self.current:
            self.decide(plan.reason)
            return None
        return plan

    def _own_plan(self, batch: int, batches: int | None) -> Plan | None:
        seen = self.observation
        if (
            seen is None
            or not (seen.is_long_enough if batch else seen.suffices)
            or (self.others is not None and not batch)
        ):
            return None
        trial = seen.trial(self.configuration, self.cpus)
        self.trials = _replaced(self.trials, trial)
        plan = _undo(self, batch) or self._better(trial, batch, batches)
        if plan is not None and self.others is not None:
            if plan.epoch == self.epoch:
                batches_ahead = math.ceil(_AGREED_S / (pace_s(self.trials, self.current) or _AGREED_S))
                plan = replace(plan, batch=batch + max(_AGREED_BATCHES, batches_ahead))
            self.others.publish(plan)
        return plan

    def _better(self, trial: Trial, batch: int, batches: int | None) -> Plan | None:
        """Settings that are predicted to be better; decides if there are none."""
        switches = self.tuning.switches
        first_s = pace_s(self.trials, switches[0].before) if switches else None
        why = _why(trial, first_s, self.configuration.search.tolerance)
        if self.distributes_among is not None and self.current.num_workers >= self.distributes_among:
            self.decide(f"{_now(trial)}; {REPEATED}")
            return None
        if self.is_undone or len(switches) >= _MOST_SWITCHES - 1:  # one may be undone
            self.decide(switches[-1].reason if self.is_undone else why)
            return None
        ahead, better, refusal = prospect(self, batches, is_new_epoch=True), None, ""
        if batch and self.when is When.NOW:
            left = None if batches is None else batches - batch
            better, refusal = better_choice(self, prospect(self, left, is_new_epoch=False))
            ahead = ahead if better is None else replace(ahead, is_new_epoch=False)
        is_untried = all(one.num_workers for one in self.trials)
        if better is None and is_untried and decision.workers_may_not_help(trial):
            none = self.base.with_workers(0)
            return Plan(none, f"{_before(trial)}, and handing it over costs much", _epoch_of(self, none, batch))
        if better is None:
            better, refusal = better_choice(self, ahead)
        if better is None:
            self.decide(f"other settings were not tried: {refusal}" if refusal else why)
            return None
        predicted_s = (pace_s(self.trials, self.current) or 0.0) * better.predicted_s / better.current_s
        reason = f"{_before(trial)}; {units.seconds(predicted_s)} predicted"
        return Plan(better.settings, reason, self.epoch + ahead.is_new_epoch)

    def switched(self, plan: Plan, batch: int, longest_wait_s: float) -> None:
        """The settings have changed as planned, from ``batch`` on."""
        switch = Switch(plan.epoch, batch, self.current, plan.settings, plan.reason, longest_wait_s)
        self.current = plan.settings
        self.tuning = replace(self.tuning, after=plan.settings, switches=(*self.tuning.switches, switch))
        _tell_consequences(self, f"from batch {batch} of epoch {plan.epoch} on")

    def reject(self, workers: int, why: str) -> None:
        """Only ``workers`` of the planned workers can make batches: keeps as many, or undoes the change."""
        *earlier, latest = self.tuning.switches or [None]
        before, wanted = latest.before if latest else self.base, self.current.num_workers
        self.most_workers, is_more = max(workers, self.base.num_workers), workers > before.num_workers
        self.current = replace(self.current, num_workers=workers) if is_more else before
        kept = [replace(latest, after=self.current)] if latest and is_more else []
        self.tuning = replace(self.tuning, after=self.current, switches=(*earlier, *kept))
        if latest and not is_more:
            self.decide(f"of {wanted} workers, {workers} could make batches{f' ({why})' if why else ''}")

    def end_epoch(self, batches: int, *, is_stream: bool) -> None:
        """An epoch has so many batches; that of an iterable dataset must not depend on the number of workers."""
        if not is_stream:
            return
        if why := self.length.notice(batches, self.current.num_workers):
            self.give_up(why)

    def resume(self, workers: int) -> None:
        """An epoch goes on with the state of a loader that had so many workers."""
        self.current = self.base.with_workers(workers)
        self.tuning = replace(self.tuning, after=self.current)

    def give_up(self, reason: str) -> None:
        """The settings are those of the program from now on, also if others have been decided for."""
        self.current, self.tuning = self.base, replace(self.tuning, after=self.base, is_decided=False)
        self.decide(reason)

    def postpone(self, plan: Plan) -> None:
        """The epoch ended before the plan was carried out: it is for the next one."""
        self.planned = replace(plan, epoch=self.epoch + 1, batch=0)

    def end(self) -> None:
        """The training has ended."""
        if self.observation is not None and self.observation.windows:
            self.trials = _replaced(self.trials, self.observation.trial(self.configuration, self.cpus))
        switches, latest = self.tuning.switches, next((t for t in self.trials if t.settings == self.current), None)
        known = [switch.reason for switch in switches[-1:]]
        if switches and latest and pace_s([latest], self.current):
            known = [_why(latest, pace_s(self.trials, switches[0].before), self.configuration.search.tolerance)]
        self.decide("; ".join([*known, "the training ended before more was timed"]), is_final=False)

    def decide(self, reason: str, *, is_final: bool = True) -> None:
        """The settings stay as they are; the answer is provisional unless ``is_final``."""
        if self.tuning.is_decided:
            return
        if self.others is not None and self.others.leads:
            self.others.publish(Plan(self.current, reason))
        settings = [*(switch.before for switch in self.tuning.switches), self.current]
        batch_s = tuple(found for one in settings if (found := pace_s(self.trials, one)) is not None)
        self.tuning = replace(self.tuning, is_decided=True, is_provisional=not is_final, reason=reason, batch_s=batch_s)
        self.observation = None
        self.on_decided(self)


def _undo(tuner: Tuner, batch: int) -> Plan | None:
    """The settings before the latest change, if they are worth changing back to."""
    if not tuner.tuning.switches or tuner.is_undone:
        return None
    latest = tuner.tuning.switches[-1]
    trials = {one.settings: one for one in tuner.trials}
    what, before_s, after_s = _compared(trials.get(latest.before), trials.get(tuner.current))
    if not before_s or not after_s:
        return None
    if not choice.promising({tuner.current: after_s}, {latest.before: before_s}, tuner.configuration.search.tolerance):
        return None
    tuner.is_undone = True
    after, before = _with(after_s, tuner.current, latest.before), _with(before_s, latest.before, tuner.current)
    reason = f"{what} took {after} and {before}"
    return Plan(latest.before, reason, _epoch_of(tuner, latest.before, batch))


def _compared(before: Trial | None, after: Trial | None) -> tuple[str, float | None, float | None]:
    """What is compared, and its seconds: an epoch, the start of workers included, unless its length is unknown."""
    before_s, after_s = (one.measurement.epoch_s if one and one.measurement else None for one in (before, after))
    if before_s and after_s:
        return "an epoch", before_s, after_s
    before_s, after_s = (pace_s([one], one.settings) if one else None for one in (before, after))
    return "a batch", before_s, after_s


def better_choice(tuner: Tuner, ahead: Prospect) -> tuple[Choice | None, str]:
    """The best settings that fit; if there are none, why better ones do not fit."""
    better = decision.choose(tuner.trials, tuner.current, ahead)
    if better is None:
        return None, ""
    refusal = tuner.refusals(tuner, ahead.is_new_epoch)
    if why := refusal(better.settings):
        better = decision.choose(tuner.trials, tuner.current, replace(ahead, allowed=lambda one: not refusal(one)))
    return better, why if better is None else ""


def prospect(tuner: Tuner, batches: int | None, *, is_new_epoch: bool) -> Prospect:
    """What lies ahead of a loader; ``batches`` of this epoch, or of the next one."""
    step = max(_USUAL_LIMIT, int(_STEP * tuner.cpus), _STEP * tuner.current.num_workers)
    paces_s = {one.settings: _pace_of(one) for one in tuner.trials if _pace_of(one)}
    usual = min(step, choice.most_workers(tuner.cpus, paces_s))
    limits = (usual, tuner.most_workers, tuner.distributes_among)
    return Prospect(
        base=tuner.base,
        cpus=tuner.cpus,
        allowed=lambda _: True,
        fewest_workers=0 if is_new_epoch else _fewest(tuner.base),
        most_workers=min(limit for limit in limits if limit is not None),
        prefetches=tuner.prefetches,
        batches=batches,
        is_new_epoch=is_new_epoch,
        tolerance=tuner.configuration.search.tolerance,
    )


def _tell_consequences(tuner: Tuner, since: str) -> None:
    if consequences := "; ".join(_consequences(tuner)):
        tuner.tell(f"{tuner.tuning.changes} {since}: {consequences}")


def _consequences(tuner: Tuner) -> Iterator[str]:
    """What differs from the plain loader because the number of workers has changed."""
    before, after = tuner.base.num_workers, tuner.current.num_workers
    if before == after:
        return
    if after and tuner.own_generators:
        yield seeding(tuner.own_generators)
    if not before and tuner.draws_shuffle:
        yield "later epochs have another order than without workers, since samples draw torch's random numbers"
    if tuner.has_own_state:
        yield (
            "later epochs may have another order, and to load a state_dict() that was saved with "
            f"num_workers={after} needs this number or autotune"
        )


def _fewest(base: LoaderSettings) -> int:
    """Workers within an epoch: without workers, samples draw random numbers of the training's process."""
    return min(1, base.num_workers)


def _epoch_of(tuner: Tuner, settings: LoaderSettings, batch: int) -> int:
    """The first epoch that can have these settings; ``batch`` is 0 before an epoch begins."""
    is_later = not batch or tuner.when is When.NEXT_EPOCH or settings.num_workers < _fewest(tuner.base)
    return tuner.epoch + is_later


def _replaced(trials: Sequence[Trial], latest: Trial) -> list[Trial]:
    """The trials with the latest one instead of an earlier one of its settings."""
    return [*(one for one in trials if one.settings != latest.settings), latest]


def pace_s(trials: Sequence[Trial], settings: LoaderSettings) -> float | None:
    """Seconds of a batch with these settings; of an epoch / its batches if epochs are short."""
    trial = next((one for one in trials if one.settings == settings), None)
    found = trial.measurement if trial else None
    return found.batch_s.value if found and found.batch_s else None


def _now(trial: Trial) -> str:
    return f"a batch takes {units.seconds(_pace_of(trial))}, {_waiting(trial)}"


def _before(trial: Trial) -> str:
    return f"a batch took {_with(_pace_of(trial), trial.settings)}, {_waiting(trial)}"


def _pace_of(trial: Trial) -> float:
    return pace_s([trial], trial.settings) or 0.0


def _waiting(trial: Trial) -> str:
    return f"{units.share(decision.waiting_share(trial))} of it waiting for the loader"


def _with(batch_s: float, settings: LoaderSettings, other: LoaderSettings | None = None) -> str:
    differing = f" {settings.differing(other)}" if other else ""
    return f"{units.seconds(batch_s)} with num_workers={settings.num_workers}{differing}".rstrip()


def _why(trial: Trial, first_s: float | None, tolerance: float) -> str:
    """Why the settings of this trial stay; ``first_s`` is the time of a batch before any change."""
    if first_s is not None:
        return f"{_now(trial)}; it took {units.seconds(first_s)} at first"
    return f"{_now(trial)}; no other setting is predicted to gain more than {units.share(tolerance)}"
