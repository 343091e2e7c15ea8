"""The situation of a running training: what was measured, what may change, and what ``decision`` makes of both."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nws_sweep.model import choice
from nws_sweep.online import outlook, texts
from nws_sweep.online.decision import Keep, Limits, Observations, Try, decide
from nws_sweep.online.plan import Plan
from nws_sweep.online.times import Times, times_of
from nws_sweep.records import LoaderSettings, Switch, Trial
from nws_sweep.system import processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a decision about a loader depends on.

    Attributes:
        base: Settings of the loader as the program made it.
        current: Settings in use.
        trials: What was measured, by settings; the current settings are among them.
        switches: The changes since the settings were last decided.
        tolerance: Share of the time that twice as many workers must save.
        patience: Settings that may be tried in vain, one after the other.
        epoch: Of the newest iterator.
        changes_within_epochs: Whether settings can change there, and not only before the next epoch.
        prefetches: Whether ``prefetch_factor`` may change.
        reorders: Whether ``in_order`` may become False.
        cpus: CPUs that the program and its workers may use.
        most_workers: Maximum number of workers; None for the usual one.
        distributes_among: The most workers that do not repeat samples, as known; None for any.
        ranks: Of this host, which change at the same time.
        worker_pid: Of a worker in use; None if there is none.
        shared: Says why no other forked workers than now may use the dataset; empty if they may.
    """

    base: LoaderSettings
    current: LoaderSettings
    trials: Mapping[LoaderSettings, Trial]
    switches: Sequence[Switch]
    tolerance: float
    patience: int
    epoch: int
    changes_within_epochs: bool
    prefetches: bool
    reorders: bool
    cpus: float
    most_workers: int | None
    distributes_among: int | None
    ranks: int
    worker_pid: int | None
    shared: Callable[[], str]

    def plan(self, batch: int, batches: int | None) -> Plan:
        """Settings to try, or earlier ones that were measured to be better; those in use if they stay.

        Args:
            batch: Batches of this epoch so far; 0 before an epoch begins.
            batches: Length of an epoch; None if it is unknown.
        """
        if reason := self._reason_to_stay():
            return Plan(self.current, reason)
        if batch and self.changes_within_epochs:
            left = None if batches is None else batches - batch
            decision = self.decision(left, is_new_epoch=False)
            if isinstance(decision, Try):
                return Plan(decision.settings, texts.tried(self.times, self.current, decision), self.epoch)
        if self._none_may_be_faster():
            return self._without_workers(batch)
        decision = self.decision(batches, is_new_epoch=True)
        if isinstance(decision, Try):
            return Plan(decision.settings, texts.tried(self.times, self.current, decision), self.epoch + 1)
        return self._as_measured(decision, batch)

    @property
    def times(self) -> Times:
        """What was measured of all settings, as far as they were measured alike."""
        return times_of(self.trials.values())

    def _reason_to_stay(self) -> str:
        """Why nothing else is tried, whatever is predicted; empty if something may be."""
        if any(switch.before == self.current for switch in self.switches):  # they were left, and are in use again
            return self.switches[-1].reason
        if self.distributes_among is not None and self.current.num_workers >= self.distributes_among:
            return f"{texts.now(self.times.of(self.current), self.current)}; {texts.REPEATED}"
        return ""

    def _none_may_be_faster(self) -> bool:
        """Whether no workers are tried, since workers do not show how long batches take without them."""
        if not all(settings.num_workers for settings in self.trials):
            return False
        return outlook.workers_may_not_help(self.trials[self.current], self.times.measured[self.current])

    def _without_workers(self, batch: int) -> Plan:
        settings, before = self.base.with_workers(0), texts.now(self.times.of(self.current), self.current, "took")
        reason = f"{before}, with {texts.named(self.current, settings)}; its transfer is expensive"
        return Plan(settings, reason, self.epoch_of(settings, batch))

    def _as_measured(self, decision: Keep, batch: int) -> Plan:
        """The best of the measured settings: the current ones, or earlier ones."""
        if decision.settings != self.current:
            reason = texts.returned(self.times, self.current, decision.settings)
            return Plan(decision.settings, reason, self.epoch_of(decision.settings, batch))
        if self.switches:
            return Plan(self.current, texts.since_the_start(self.times, self.switches[0].before, self.current))
        why = f"other settings were not tried: {decision.refusal}" if decision.refusal else texts.NO_GAIN
        return Plan(self.current, f"{texts.now(self.times.of(self.current), self.current)}; {why}")

    def decision(self, batches: int | None, *, is_new_epoch: bool) -> Try | Keep:
        """What ``decide`` decides for these batches.

        Args:
            batches: Of the epoch that are left, or of the next epoch; None if unknown.
            is_new_epoch: Whether they are of another epoch, for which workers are started anyway.
        """
        predict_s = outlook.predictor(
            self.trials,
            self.current,
            batches,
            cpus=self.cpus,
            start_method=self.base.multiprocessing_context or processes.start_method(),
            is_new_epoch=is_new_epoch,
        )
        if predict_s is None:
            return Keep(self.current, "the costs of too few batches are known")
        observed = Observations(
            base=self.base,
            current=self.current,
            measured_s=self.times.batch_s or {self.current: predict_s(self.current)},
            predict_s=predict_s,
            tolerance=self.tolerance,
            patience=self.patience,
        )
        return decide(observed, self._limits(is_new_epoch=is_new_epoch))

    def _limits(self, *, is_new_epoch: bool) -> Limits:
        """Which settings may be tried."""
        most = self.most_workers
        if most is None:
            most = choice.most_workers(self.cpus, self.times.batch_s)
        fed = [trial.fed_workers for trial in self.trials.values() if trial.fed_workers is not None]
        most = min([most, *fed])
        if self.distributes_among is not None:
            most = min(most, self.distributes_among)
        return Limits(
            workers=range(0 if is_new_epoch else self._fewest_within_epochs, most + 1),
            prefetches=self.prefetches,
            reorders=self.reorders,
            must_save_time=not is_new_epoch,
            refusal=self._refusal(is_new_epoch=is_new_epoch),
        )

    def _refusal(self, *, is_new_epoch: bool) -> Callable[[LoaderSettings], str]:
        """Says why settings may not be used now; empty if they may. Looks at the machine when it is first called."""
        has_ended = any(window.ended_epoch for window in self.trials[self.current].windows[-1:])

        @functools.cache
        def does_not_fit() -> Callable[[LoaderSettings], str]:
            return outlook.refusals(
                self.trials.values(),
                self.current,
                self.worker_pid,
                self.ranks,
                frees_current=is_new_epoch and not has_ended,
            )

        shared = functools.cache(self.shared)
        return lambda settings: shared() or does_not_fit()(settings)

    @property
    def _fewest_within_epochs(self) -> int:
        """Workers within an epoch: without workers, its samples draw random numbers of the program's process."""
        return min(1, self.base.num_workers)

    def epoch_of(self, settings: LoaderSettings, batch: int) -> int:
        """The first epoch that can have these settings; ``batch`` is 0 before an epoch begins."""
        is_within = batch and self.changes_within_epochs and settings.num_workers >= self._fewest_within_epochs
        return self.epoch + (not is_within)
