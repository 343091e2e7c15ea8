"""What a tuner does with what it sees: simulated paces, no loader and no clock."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from nws_sweep.online import decision
from nws_sweep.online.decision import Choice
from nws_sweep.online.loader import record
from nws_sweep.online.observation import TrainingTrial
from nws_sweep.online.plan import Plan
from nws_sweep.online.tuner import Tuner, better_choice, watch_on
from nws_sweep.results import BatchCost, Configuration, LoaderSettings, LoopCosts, Trial, Tuning
from nws_sweep.searching.search import new_record
from nws_sweep.system import resources
from tests import factories
from tests.factories import loader_settings, measurement, recorded_trial

COST, STEP_S = BatchCost(cpu_s=0.0, wait_s=0.08), 0.02


class Seen(TrainingTrial):
    """Long enough from the start; the pace is that of a function of the settings."""

    batch_s: Callable[[LoaderSettings], float]
    cost: BatchCost
    epochs_s: Mapping[int, float]
    is_long_enough = True

    def trial(self, configuration: Configuration, cores: float) -> Trial:
        batch_s, workers = self.batch_s(self.settings), self.settings.num_workers
        loop = LoopCosts(step_s=STEP_S, fork_s=0.01 if workers else 0.0)
        found = measurement(
            65.0, batch_s=factories.estimate(batch_s), stall_fraction=max(0.0, 1 - STEP_S / batch_s),
            epoch_s=self.epochs_s.get(workers),
        )  # fmt: skip
        return replace(recorded_trial(workers, self.cost, loop), settings=self.settings, measurement=found)


class Simulated(Tuner):
    """Sees ``batch_s``, ``cost`` and, by the number of workers, ``epochs_s``."""

    batch_s: Callable[[LoaderSettings], float]
    epochs_s: Mapping[int, float]
    cost = COST

    def observe(self, batches_per_epoch: int | None) -> TrainingTrial | None:
        if self.tuning.is_decided:
            return None
        self.observation = seen = Seen(self.current, batches_per_epoch)
        seen.batch_s, seen.cost, seen.epochs_s = self.batch_s, self.cost, self.epochs_s
        return seen


def as_predicted(settings: LoaderSettings) -> float:
    """As the costs say."""
    loading_s = COST.wait_s / settings.num_workers if settings.num_workers else COST.wait_s + STEP_S
    return max(STEP_S, loading_s)


def tuner(start: int = 0, batch_s: Callable[[LoaderSettings], float] = as_predicted, **changes: Any) -> Simulated:
    base = loader_settings(start, prefetch_factor=2).canonical()
    given: dict[str, Any] = {
        "tuning": Tuning(before=base, after=base), "start": new_record(factories.configuration()), "cpus": 4.0,
        "changes_within_epochs": True, "most_workers": None, "prefetches": False,
        "on_decided": lambda _: None, "tell": lambda _: None,
    }  # fmt: skip
    made = Simulated(**{**given, **changes})
    made.batch_s, made.epochs_s = batch_s, {}
    return made


def train(one: Tuner, epochs: int = 3, batches: int = 1000) -> list[tuple[int, int, int]]:
    """Epoch, batch and workers of each change; the tuner is asked at each hundredth batch."""
    for _ in range(epochs):
        if plan := one.plan(0, batches):
            one.switched(plan, 0)
        one.epoch += 1
        one.observe(batches)
        for batch in range(100, batches, 100):
            if plan := one.plan(batch, batches):
                one.switched(plan, max(batch, plan.batch))
            one.observe(batches)
    return [(switch.epoch, switch.batch, switch.after.num_workers) for switch in one.tuning.switches]


def test_one_change_in_the_first_epoch_then_it_is_decided() -> None:
    decided: list[Tuner] = []
    one = tuner(on_decided=decided.append)
    assert train(one) == [(0, 100, 4)]
    assert decided == [one]
    assert one.tuning.gain == pytest.approx(5.0)
    assert str(one.tuning) == (
        "num_workers=4 instead of 0: a batch takes 20.0 ms, 0 % of it waiting for the loader; it took 100 ms at first"
    )


@pytest.mark.parametrize(
    ("epochs_s", "gained"), [({}, ""), ({2: 9.0, 4: 8.0}, "; an epoch takes 8.00 s; it took 9.00 s at first")]
)
def test_a_time_that_has_become_longer_is_not_named_without_a_reason(epochs_s: dict[int, float], gained: str) -> None:
    one = tuner(2, lambda settings: 0.04 if settings.num_workers == 2 else 0.05)
    one.epochs_s = epochs_s
    one.epoch += 1
    one.observe(1000)
    plan = one.plan(100, 1000)
    assert plan
    one.switched(plan, 100)
    latest = one.observe(1000)
    assert latest
    one.trials[one.current] = latest.trial(one.configuration, 4.0)
    one.end()
    now = "num_workers=4 instead of 2: a batch takes 50.0 ms, 60 % of it waiting for the loader"
    assert str(one.tuning) == f"{now}{gained}; training ended before more was timed"


def test_a_time_that_was_not_measured_is_unknown_and_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "choose", lambda *_, **__: None)
    one = tuner()
    trial = replace(recorded_trial(0, COST), measurement=measurement(65.0, batch_s=None))
    one.trials[one.current] = trial
    reason = one.better(trial, 0, 1000).reason
    assert reason.startswith("how long a batch takes is unknown, since too few were timed; no other setting")


def test_a_change_that_is_no_better_is_undone_and_not_stored_and_no_other_is_tried() -> None:
    one = tuner(2, lambda settings: 0.04 if settings.num_workers == 2 else 0.05)
    assert train(one) == [(0, 100, 4), (0, 200, 2)]
    assert one.tuning.after == one.base
    assert str(one.tuning).startswith(
        "num_workers=2 stays: a batch took 50.0 ms with num_workers=4 and 40.0 ms with num_workers=2"
    )
    assert (found := record(one).verdict)
    assert (found.recommended.num_workers, found.fastest.num_workers, found.provisional) == (2, 2, False)


def test_the_best_as_measured_is_stored_and_provisional_unless_the_settings_in_use_were_timed() -> None:
    early = tuner(2)
    early.epoch += 1
    early.observe(1000)
    plan = early.plan(100, 1000)
    assert plan
    early.switched(plan, 100)  # the training ends before four workers were timed
    early.end()
    assert (found := record(early).verdict)
    assert (early.tuning.after.num_workers, found.recommended.num_workers, found.provisional) == (4, 2, True)
    train(longer := tuner(2))
    assert longer.tuning.after.num_workers == 4
    longer.give_up("its epochs are longer")
    assert (found := record(longer).verdict)
    assert (found.recommended.num_workers, found.provisional) == (2, False)


@pytest.mark.parametrize(("with_four_s", "workers"), [(0.05, [2, 4]), (0.5, [2, 4, 2])])
def test_there_are_at_most_three_changes_of_which_one_undoes(
    monkeypatch: pytest.MonkeyPatch, with_four_s: float, workers: list[int]
) -> None:
    def more(one: Tuner, *_: object, **__: object) -> Choice:
        return Choice(replace(one.current, num_workers=2 * one.current.num_workers), 1.0, 2.0)

    monkeypatch.setattr(decision, "choose", more)
    one = tuner(1, lambda settings: {1: 0.2, 2: 0.1, 4: with_four_s}[settings.num_workers])
    assert [changed for _, _, changed in train(one)] == workers
    assert one.tuning.is_decided


def test_a_loader_that_cannot_change_in_an_epoch_changes_before_the_next_one() -> None:
    assert train(tuner(changes_within_epochs=False)) == [(1, 0, 4)]


@pytest.mark.parametrize(("start", "changes"), [(0, [(0, 100, 1)]), (1, []), (2, [])])
def test_workers_that_would_repeat_samples_are_not_tried(start: int, changes: list[tuple[int, int, int]]) -> None:
    one = tuner(start, lambda settings: 0.12 - 0.02 * settings.num_workers)
    one.distributes_among = 1
    assert train(one) == changes
    assert "every worker has all samples" in str(one.tuning)


@pytest.mark.parametrize(("workers_of_program", "end"), [(0, (0, 200, 0)), (2, (1, 0, 0))])
def test_workers_are_given_up_within_an_epoch_only_where_the_program_has_none(
    workers_of_program: int, end: tuple[int, int, int]
) -> None:
    base = loader_settings(workers_of_program, prefetch_factor=2).canonical()
    tuning = Tuning(before=base, after=base.with_workers(0))
    one = tuner(batch_s=lambda settings: 0.12 if settings.num_workers else 0.1, tuning=tuning)
    assert train(one) == [(0, 100, 4), end]


@pytest.mark.parametrize(("alone_s", "workers"), [(0.03, 0), (0.09, 8)])
def test_no_workers_are_tried_where_handing_a_batch_over_costs_much(alone_s: float, workers: int) -> None:
    one = tuner(8, lambda settings: 0.06 if settings.num_workers else alone_s, cpus=1.0)
    one.cost = BatchCost(cpu_s=0.04, wait_s=0.0, copy_s=0.02)
    assert train(one) == [(1, 0, 0), (1, 100, 8)][: 1 + (workers > 0)]


@pytest.mark.parametrize(("limit", "changes"), [(0, []), (2, [(0, 100, 2)])])
def test_the_limit_of_workers_is_kept(limit: int, changes: list[tuple[int, int, int]]) -> None:
    assert train(tuner(most_workers=limit)) == changes


@dataclass
class Ranks:
    """The plans that a rank has published; another one reads the first one at its next look after ``late``."""

    leads: bool
    plans: list[Plan] = field(default_factory=list)
    late: int = 0

    def publish(self, plan: Plan) -> None:
        self.plans.append(plan)

    def next(self) -> Plan | None:
        self.late -= 1
        return self.plans.pop(0) if self.plans and self.late < 0 else None


@pytest.mark.parametrize(
    ("within", "late", "change"), [(False, 0, (1, 0, 4)), (True, 0, (0, 108, 4)), (False, 13, (2, 0, 4))]
)
def test_other_ranks_change_at_the_batch_that_rank_0_has_chosen_or_before_the_next_epoch(
    within: bool, late: int, change: tuple[int, int, int]
) -> None:
    others = Ranks(leads=True)
    leader = tuner(others=others, changes_within_epochs=within)
    assert train(leader) == [(1, 0, 4) if late else change]
    others = Ranks(leads=False, plans=list(others.plans), late=late)
    follower = tuner(others=others, changes_within_epochs=within, batch_s=lambda _: 1.0)
    assert train(follower) == [change]
    assert (leader.tuning.is_decided, follower.tuning.is_decided) == (True, True)
    assert follower.tuning.reason == leader.tuning.reason


@pytest.mark.parametrize(("ranks", "changes"), [("1", [(0, 108, 4)]), ("8", [(0, 108, 1)]), ("20", [])])
def test_workers_of_all_ranks_of_a_host_must_fit_and_the_line_says_why_none_do(
    monkeypatch: pytest.MonkeyPatch, ranks: str, changes: list[Any]
) -> None:
    free = replace(resources.now(None), threads=40)
    monkeypatch.setattr(resources, "now", lambda _: free)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert train(one := tuner(others=Ranks(leads=True))) == changes
    assert ("other settings were not tried: it needs 240 threads (80 workers)" in str(one.tuning)) == (not changes)


@pytest.mark.parametrize(("end_s", "fits"), [(None, True), (0.1, False)])
def test_batches_in_use_make_room_for_those_of_the_next_epoch_unless_theirs_has_ended(
    monkeypatch: pytest.MonkeyPatch, end_s: float | None, fits: bool
) -> None:
    monkeypatch.setattr(resources, "now", lambda _: resources.FreeResources(shm_bytes=2**20))
    one = tuner(4)
    windows = (factories.window(batch_bytes=2**18, end_s=end_s),)
    one.trials[one.current] = replace(recorded_trial(4, COST), windows=windows)
    assert (better_choice(one, 1000, is_new_epoch=True)[1] == "") == fits


def test_settings_that_no_longer_fit_are_considered_again() -> None:
    """Storage becomes slower after the choice; then the step."""
    lines: list[str] = []
    one = tuner(2, tell=lines.append)
    train(one)
    first, waiting = one.current, one.waiting
    assert one.tuning.is_decided
    assert waiting is not None
    assert waiting.num_workers == first.num_workers
    one.cost = BatchCost(cpu_s=0.0, wait_s=0.32)
    one.batch_s = lambda settings: max(STEP_S, one.cost.wait_s / max(1, settings.num_workers))
    one.look_again("training waits for data 75 % of the time")
    assert lines[-1].endswith("settings are reconsidered")
    assert not one.tuning.is_decided
    train(one)
    assert one.current.num_workers > 2 * first.num_workers
    assert one.tuning.is_decided
    assert len(one.tuning.switches) > one.earlier_switches > 0
    assert one.waiting is not waiting


@pytest.mark.parametrize("changes", [{"once": True}, {"others": object()}])
def test_settings_stay_where_that_is_asked_for_or_ranks_would_have_to_agree(changes: dict[str, Any]) -> None:
    one = tuner(4, **changes)
    one.trials[one.current] = recorded_trial(4, COST, LoopCosts())
    watch_on(one)
    assert one.waiting is None
