"""What a tuner does with what it sees: simulated paces, no loader and no clock."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from nws_sweep.online.answer import answer_of, tell
from nws_sweep.online.autotune import record
from nws_sweep.online.decision import Keep
from nws_sweep.online.observation import TrainingTrial
from nws_sweep.online.plan import Plan
from nws_sweep.online.tuner import Tuner, decision_for, is_at_its_best
from nws_sweep.records import (
    Account,
    BatchCost,
    Configuration,
    Estimate,
    LoaderSettings,
    LoopCosts,
    Trial,
    Tuning,
    Window,
    WindowKind,
)
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
    account: Account | None
    is_long_enough = True

    @property
    def suffices(self) -> bool:
        return True

    def trial(self, configuration: Configuration, cores: float) -> Trial:
        batch_s, workers = self.batch_s(self.settings), self.settings.num_workers
        loop = LoopCosts(step_s=STEP_S, fork_s=0.01 if workers else 0.0)
        stall = max(0.0, 1 - STEP_S / batch_s)
        figures = measurement(
            65.0,
            batch_s=Estimate(
                value=batch_s, low=0.98 * batch_s, high=1.02 * batch_s, n=9
            ),
            stall_fraction=stall,
            account=self.account,
        )
        trial = recorded_trial(workers, self.cost, loop)
        epochs = (
            [whole_epoch(self.epochs_s[workers])] if workers in self.epochs_s else []
        )
        windows = (*trial.windows, *epochs)
        return replace(
            trial,
            settings=self.settings,
            measurement=figures,
            windows=windows,
            batches=10,
        )


def whole_epoch(epoch_s: float) -> Window:
    """An epoch of ten batches, half of it waiting."""
    half_s = (epoch_s / 20,) * 10
    return factories.window(
        WindowKind.EPOCH,
        10,
        startup_s=half_s[0],
        wait_s=half_s,
        step_s=half_s,
        end_s=0.0,
    )


class Simulated(Tuner):
    """Sees ``batch_s``, ``cost`` and, by the number of workers, ``epochs_s``."""

    batch_s: Callable[[LoaderSettings], float]
    epochs_s: Mapping[int, float]
    cost = COST
    account: Account | None = None

    def observe(self) -> TrainingTrial | None:
        if self.tuning.is_decided:
            return None
        self.observation = seen = Seen(self.current, self.batches_per_epoch)
        seen.batch_s, seen.cost, seen.epochs_s = self.batch_s, self.cost, self.epochs_s
        seen.account = self.account
        return seen


def as_predicted(settings: LoaderSettings) -> float:
    """As the costs say."""
    loading_s = (
        COST.wait_s / settings.num_workers
        if settings.num_workers
        else COST.wait_s + STEP_S
    )
    return max(STEP_S, loading_s)


def tuner(
    start: int = 0,
    batch_s: Callable[[LoaderSettings], float] = as_predicted,
    **changes: Any,
) -> Simulated:
    base = loader_settings(start, prefetch_factor=2).canonical()
    given: dict[str, Any] = {
        "tuning": Tuning(before=base, after=base), "start": new_record(factories.configuration()), "cpus": 4.0,
        "changes_within_epochs": True, "most_workers": None, "prefetches": False, "batches_per_epoch": 1000,
        "on_decided": lambda _: None, "announce": lambda _: None, "note": lambda _: None,
    }  # fmt: skip
    made = Simulated(**{**given, **changes})
    made.batch_s, made.epochs_s = batch_s, {}
    return made


def train(
    one: Tuner, epochs: int = 3, batches: int = 1000
) -> list[tuple[int, int, int]]:
    """Epoch, batch and workers of each change; the tuner is asked at each hundredth
    batch."""
    one.batches_per_epoch = batches
    for _ in range(epochs):
        if plan := one.plan(0):
            one.switched(plan, 0)
        one.epoch += 1
        one.observe()
        for batch in range(100, batches, 100):
            if plan := one.plan(batch):
                one.switched(plan, max(batch, plan.batch))
            one.observe()
    return [
        (switch.epoch, switch.batch, switch.after.num_workers)
        for switch in one.tuning.switches
    ]


def test_one_change_in_the_first_epoch_then_it_is_decided() -> None:
    decided: list[Tuner] = []
    one = tuner(on_decided=decided.append)
    assert train(one) == [(0, 100, 4)]
    assert decided == [one]
    assert one.tuning.gain == pytest.approx(5.0)
    assert re.match(r"num_workers=4   5.00? times as fast as 0", str(one.tuning))


@pytest.mark.parametrize(
    ("epochs_s", "gain"),
    [
        # as when the training step has become slower meanwhile
        ({}, 0.8),
        ({2: 9.0}, 0.8),  # no whole epoch with 4
        ({2: 9.0, 4: 8.0}, 9 / 8),
    ],
)
def test_whole_epochs_are_compared_with_whole_epochs_only(
    epochs_s: dict[int, float], gain: float
) -> None:
    one = tuner(2, lambda settings: 0.04 if settings.num_workers == 2 else 0.05)
    one.epochs_s = epochs_s
    one.epoch += 1
    one.observe()
    plan = one.plan(100)
    assert plan
    assert re.search(r"it would take (4.52 s|20.1 ms) \(predicted\)$", plan.reason)
    assert plan.reason.startswith(
        "an epoch took 9.00 s" if epochs_s else "a batch took 40.0 ms"
    )
    one.switched(plan, 100)
    latest = one.observe()
    assert latest
    one.trials[one.current] = latest.trial(one.configuration, 4.0)
    one.end()
    times = "1.1" if gain > 1 else "0.80"
    assert one.tuning.lines[0].startswith(f"num_workers=4   {times}")
    assert one.tuning.lines[0].endswith(
        "; not certain: training ended before more was timed"
    )
    assert one.tuning.gain == pytest.approx(gain)


def test_settings_that_were_not_timed_like_those_before_are_timed_further() -> None:
    """The epochs with two workers were too short for a pace; with four, no whole epoch
    was timed yet."""
    one = tuner(2)
    two, four = (loader_settings(number, prefetch_factor=2) for number in (2, 4))
    pace = replace(recorded_trial(4, COST, LoopCosts(step_s=STEP_S)), settings=four)
    one.trials = {
        two: replace(
            recorded_trial(2, COST),
            settings=two,
            windows=(whole_epoch(9.0),),
            batches=10,
        )
    }
    one.tuning = replace(one.tuning, after=four)
    one.observation = Timed(four, 10, trial_so_far=pace)
    assert one.plan(100) is None
    one.observation = Timed(
        four, 10, trial_so_far=replace(pace, windows=(whole_epoch(8.0),), batches=10)
    )
    assert one.plan(0) is None
    assert str(one.tuning).startswith("num_workers=4   1.1 times as fast as 2")


@dataclass(eq=False)
class Timed(TrainingTrial):
    """Long enough, with a trial that a test makes."""

    trial_so_far: Trial = field(kw_only=True)
    is_long_enough = suffices = True

    def trial(self, configuration: Configuration, cores: float) -> Trial:
        return self.trial_so_far


def test_settings_that_were_chosen_and_have_become_slower_are_not_certain() -> None:
    one = tuner(2)
    one.batch_s = lambda settings: {
        2: 0.1 if len(one.switches) == 2 else 0.04,
        4: 0.05,
    }[settings.num_workers]
    assert train(one) == [(0, 100, 4), (0, 200, 2)]
    first = one.tuning.lines[0]
    assert first.startswith("num_workers=2   0.50")
    assert first.endswith("; not certain: it has become slower since it was chosen")


def test_a_gain_that_may_be_none_is_not_certain_and_what_is_as_fast_is_listed() -> None:
    tuned = tuner(2)
    settings = {n: loader_settings(n, prefetch_factor=2) for n in (2, 3, 4, 5)}
    for number, batch_s in ((2, 0.05), (3, 0.0405), (4, 0.04), (5, 0.0401)):
        figures = measurement(
            65.0,
            batch_s=Estimate(
                value=batch_s, low=0.8 * batch_s, high=1.25 * batch_s, n=9
            ),
            stall_fraction=0.5,
        )
        trial = recorded_trial(number, COST)
        tuned.trials[settings[number]] = replace(
            trial, settings=settings[number], measurement=figures
        )
    tuned.tuning = replace(tuned.tuning, after=settings[4])
    assert answer_of(tuned).answer.startswith(
        "num_workers=4   0.9 to 1.7 times as fast as 2, as fast as 3 and 5; not certain: 2 may be as fast"
    )


def test_a_change_that_is_no_better_is_undone_and_not_stored_and_no_other_is_tried() -> (
    None
):
    one = tuner(2, lambda settings: 0.04 if settings.num_workers == 2 else 0.05)
    assert train(one) == [(0, 100, 4), (0, 200, 2)]
    assert one.tuning.after == one.base
    assert str(one.tuning).startswith("num_workers=2   1.25 times as fast as 4")
    assert (found := record(one).verdict)
    assert (
        found.recommended.num_workers,
        found.fastest.num_workers,
        found.provisional,
    ) == (2, 2, False)


def test_the_best_as_measured_is_stored_and_provisional_unless_the_settings_in_use_were_timed() -> (
    None
):
    early = tuner(2)
    early.epoch += 1
    early.observe()
    plan = early.plan(100)
    assert plan
    early.switched(plan, 100)  # the training ends before four workers were timed
    early.end()
    assert (found := record(early).verdict)
    assert (
        early.tuning.after.num_workers,
        found.recommended.num_workers,
        found.provisional,
    ) == (4, 2, True)
    train(longer := tuner(2))
    assert longer.tuning.after.num_workers == 4
    longer.give_up("its epochs are longer")
    assert (found := record(longer).verdict)
    assert (found.recommended.num_workers, found.provisional) == (2, False)


def test_the_best_of_several_settings_that_were_tried_is_used_in_the_end() -> None:
    """Storage serves four workers, which the costs of batches do not show: more become
    ever slower."""
    one = tuner(
        1,
        lambda settings: {1: 0.1, 2: 0.06, 3: 0.05, 4: 0.04}.get(
            settings.num_workers, 0.05
        ),
    )
    one.cost = BatchCost(cpu_s=0.0, wait_s=0.1)
    changes = train(one)
    tried = [workers for _, _, workers in changes]
    assert len(set(tried)) == len(tried) <= 4
    measured_s = one.times.batch_s
    assert measured_s[one.current] == min(measured_s.values())
    assert one.tuning.is_decided


@pytest.mark.parametrize(("batch_4_s", "is_better"), [(0.02, True), (0.2, False)])
def test_settings_in_use_are_the_best_if_none_that_were_measured_are_better(
    batch_4_s: float, is_better: bool
) -> None:
    tuned = tuner(batch_s=lambda settings: batch_4_s if settings.num_workers else 0.1)
    assert is_at_its_best(tuned)  # nothing was measured
    tuned.observe()
    plan = tuned.plan(100)
    assert plan is not None
    tuned.switched(plan, 100)
    tuned.observe()
    tuned.plan(200)
    assert is_at_its_best(tuned) == is_better


def test_a_loader_that_cannot_change_in_an_epoch_changes_before_the_next_one() -> None:
    for workers in (0, 1):
        assert train(tuner(workers, changes_within_epochs=False)) == [(1, 0, 4)]


@pytest.mark.parametrize(("start", "changes"), [(0, [(0, 100, 1)]), (1, []), (2, [])])
def test_workers_that_would_repeat_samples_are_not_tried(
    start: int, changes: list[tuple[int, int, int]]
) -> None:
    one = tuner(start, lambda settings: 0.12 - 0.02 * settings.num_workers)
    one.distributes_among = 1
    assert train(one) == changes
    assert "every worker has all samples" in str(one.tuning)


@pytest.mark.parametrize(
    ("workers_of_program", "end"), [(0, (0, 200, 0)), (2, (1, 0, 0))]
)
def test_workers_are_given_up_within_an_epoch_only_where_the_program_has_none(
    workers_of_program: int, end: tuple[int, int, int]
) -> None:
    base = loader_settings(workers_of_program, prefetch_factor=2).canonical()
    tuning = Tuning(before=base, after=base.with_workers(0))
    one = tuner(
        batch_s=lambda settings: 0.12 if settings.num_workers else 0.1, tuning=tuning
    )
    assert train(one) == [(0, 100, 4), end]


@pytest.mark.parametrize(("alone_s", "workers"), [(0.03, 0), (0.09, 8)])
def test_no_workers_are_tried_where_they_are_nearly_as_fast(
    alone_s: float, workers: int
) -> None:
    one = tuner(8, lambda settings: 0.06 if settings.num_workers else alone_s, cpus=1.0)
    one.cost = BatchCost(cpu_s=0.04, wait_s=0.0, copy_s=0.02)
    assert train(one) == [(1, 0, 0), (1, 100, 8)][: 1 + (workers > 0)]


def test_what_was_planned_in_an_epoch_is_planned_again_after_it() -> None:
    """The first batches of two workers take ten times as long as the later ones."""
    tuned = tuner(2, changes_within_epochs=False)
    tuned.epoch = 0
    tuned.batch_s, tuned.cost = lambda _: 0.4, BatchCost(cpu_s=0.0, wait_s=0.8)
    tuned.observe()
    assert tuned.plan(100) is None
    assert tuned.planned is not None
    assert tuned.planned.settings.num_workers > 2
    tuned.batch_s, tuned.cost = lambda _: STEP_S, BatchCost(cpu_s=0.0, wait_s=0.02)
    tuned.observe()
    assert tuned.plan(0) is None
    assert tuned.tuning.is_decided
    assert tuned.current.num_workers == 2


@pytest.mark.parametrize(("limit", "changes"), [(0, []), (2, [(0, 100, 2)])])
def test_the_limit_of_workers_is_kept(
    limit: int, changes: list[tuple[int, int, int]]
) -> None:
    assert train(tuner(most_workers=limit)) == changes


@dataclass
class Ranks:
    """The plans that a rank has published; another one reads the first one at its next
    look after ``late``."""

    leads: bool
    plans: list[Plan] = field(default_factory=list)
    late: int = 0

    def publish(self, plan: Plan) -> None:
        self.plans.append(plan)

    def next(self) -> Plan | None:
        self.late -= 1
        return self.plans.pop(0) if self.plans and self.late < 0 else None


@pytest.mark.parametrize(
    ("within", "late", "change"),
    [(False, 0, (1, 0, 4)), (True, 0, (0, 106, 4)), (False, 13, (2, 0, 4))],
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


@pytest.mark.parametrize(
    ("ranks", "changes"), [("1", [(0, 106, 4)]), ("8", [(0, 106, 1)]), ("20", [])]
)
def test_workers_of_all_ranks_of_a_host_must_fit_and_the_line_says_why_none_do(
    monkeypatch: pytest.MonkeyPatch, ranks: str, changes: list[Any]
) -> None:
    free = replace(resources.now(None), threads=40)
    monkeypatch.setattr(resources, "now", lambda _: free)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert train(one := tuner(others=Ranks(leads=True))) == changes
    assert (
        "nothing else was tried: it needs 240 threads (80 workers)" in str(one.tuning)
    ) == (not changes)


@pytest.mark.parametrize(("end_s", "fits"), [(None, True), (0.1, False)])
def test_batches_in_use_make_room_for_those_of_the_next_epoch_unless_theirs_has_ended(
    monkeypatch: pytest.MonkeyPatch, end_s: float | None, fits: bool
) -> None:
    monkeypatch.setattr(
        resources, "now", lambda _: resources.FreeResources(shm_bytes=2**20)
    )
    one = tuner(4)
    windows = (factories.window(batch_bytes=2**18, end_s=end_s),)
    one.trials[one.current] = replace(
        recorded_trial(4, COST), settings=one.current, windows=windows
    )
    decision = decision_for(one)
    assert (isinstance(decision, Keep) and decision.refusal != "") != fits


def test_where_the_time_goes_and_what_was_tried_follow_when_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    account = Account(step_s=2.0, making_s=7.0, starting_s=1.0)

    def told(verbosity: str) -> list[str]:
        monkeypatch.setenv("NWS_SWEEP_LOG", verbosity)
        one = tuner(announce=lines.append, note=lines.append, on_decided=tell)
        one.place = "train.py:40"
        one.account = account
        lines.clear()
        train(one)
        return [line for text in lines for line in text.splitlines()]

    first, *_ = answer = told("normal")
    assert re.fullmatch(
        r"num_workers=4   5.00? times as fast as 0.*   \(photos, train.py:40\)",
        first,
    )
    assert answer == [
        first,
        "  why    making samples takes 70 % of the time (7.00 s of 10.0 s a batch)",
        "  next   cheaper samples save up to 70 %; more workers save nothing",
    ]
    changed, *verbose = told("verbose")
    assert changed == (
        "photos: num_workers=4 from batch 100 of epoch 0 on: "
        "a batch took 100 ms with num_workers=0; it would take 20.1 ms (predicted)"
    )
    assert verbose == [
        *answer,
        "  where 10.0 s went, with num_workers=4:",
        "  making samples                70 %  7.00 s",
        "  training step                 20 %  2.00 s",
        "  starting and ending workers   10 %  1.00 s",
        "  a batch took 100 ms with num_workers=0",
        "  a batch took 20.0 ms with num_workers=4",
    ]


def test_settings_that_no_longer_fit_are_considered_again() -> None:
    """Storage becomes slower after the choice; then the step."""
    lines: list[str] = []
    one = tuner(2, note=lines.append)
    train(one)
    first, waiting = one.current, one.waiting
    assert one.tuning.is_decided
    assert waiting is not None
    assert waiting.num_workers == first.num_workers
    one.cost = BatchCost(cpu_s=0.0, wait_s=0.32)
    one.batch_s = lambda settings: max(
        STEP_S, one.cost.wait_s / max(1, settings.num_workers)
    )
    one.look_again("training waits for data 75 % of the time")
    assert lines[-1].endswith("settings are reconsidered")
    assert not one.tuning.is_decided
    train(one)
    assert one.current.num_workers > 2 * first.num_workers
    assert one.tuning.is_decided
    assert len(one.tuning.switches) > one.earlier_switches > 0
    assert one.waiting is not waiting


@pytest.mark.parametrize("changes", [{"once": True}, {"others": object()}])
def test_settings_stay_where_that_is_asked_for_or_ranks_would_have_to_agree(
    changes: dict[str, Any],
) -> None:
    one = tuner(4, **changes)
    one.trials[one.current] = recorded_trial(4, COST, LoopCosts())
    one.watch_on()
    assert one.waiting is None
