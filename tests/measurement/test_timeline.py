"""Windows of synthetic timelines; times are powers of two, so that they compare exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nws_sweep.measurement import timeline
from nws_sweep.measurement.timeline import Epoch, Timeline
from nws_sweep.results import DatasetFacts, LoaderSettings, Window, WindowKind

ITER_S, WAIT_S, USE_S, END_S = 0.5, 0.0625, 0.0625, 0.25
WARM_UP, STEADY, EPOCH = WindowKind.WARM_UP, WindowKind.STEADY, WindowKind.EPOCH


def epoch(batches: int, *, began_s: float = 0.0, ended: bool = True, breaks: dict[int, float] | None = None) -> Epoch:
    """An epoch of equal batches; ``breaks`` maps indices of batches to seconds of other work after them."""
    now, asked, given = began_s + ITER_S, [], []
    for index in range(batches):
        asked.append(now)
        given.append(now + WAIT_S)
        now += WAIT_S + USE_S + (breaks or {}).get(index, 0.0)
    over = (now, now + END_S) if ended else None
    return Epoch(began_s=began_s, iter_s=ITER_S, asked_s=asked, given_s=given, over_s=over, batch_length=4)


def line(*epochs: Epoch, num_workers: int = 2, batches: int | None = None, dataset: str = "my.Data") -> Timeline:
    settings = LoaderSettings(batch_size=4, num_workers=num_workers, prefetch_factor=2 if num_workers else None)
    facts = DatasetFacts(type=dataset, iterable=False, samples=None, accelerator=None)
    return Timeline(settings=settings, facts=facts, length=batches, epochs=list(epochs))


def windows(watched: Timeline, *others: Timeline) -> tuple[Window, ...]:
    return timeline.windows(watched, others)


def kinds(found: tuple[Window, ...]) -> list[tuple[WindowKind, int]]:
    return [(window.kind, window.batches) for window in found]


def test_an_epoch_is_warm_up_windows_and_the_end_of_the_queue() -> None:
    # 2 workers, queue 4: warm-up of 4, windows of 4 (0.5 s), and the last 4, for which the workers have no more work.
    found = windows(line(epoch(22)))
    assert kinds(found) == [(WARM_UP, 4), (STEADY, 4), (STEADY, 4), (STEADY, 4), (WARM_UP, 6)]
    assert found[0].startup_s == found[0].wait_s[0] == ITER_S + WAIT_S
    assert found[1].wait_s == (WAIT_S,) * 4
    assert found[1].step_s == (USE_S,) * 4
    assert [window.startup_s for window in found[1:]] == [None] * 4
    assert [window.end_s for window in found] == [None] * 4 + [END_S]
    assert [window.samples for window in found] == [16, 16, 16, 16, 24]
    assert sum(window.elapsed_s for window in found) == ITER_S + 22 * (WAIT_S + USE_S) + END_S  # the whole epoch
    (single,) = windows(line(epoch(1, ended=False), batches=1000))
    assert (single.startup_s, single.wait_s, single.step_s) == (ITER_S + WAIT_S, (ITER_S + WAIT_S,), (0.0,))


@pytest.mark.parametrize(
    ("watched", "expected"),
    [
        (line(epoch(50), num_workers=3), [(WARM_UP, 6), *[(STEADY, 6)] * 6, (WARM_UP, 8)]),  # 4 batches take 0.5 s
        (line(epoch(9), num_workers=0), [(WARM_UP, 1), (STEADY, 4), (STEADY, 4)]),  # no queue at the end
        (line(replace(epoch(6), iter_s=0.0), num_workers=0), [(WARM_UP, 3), (STEADY, 3)]),  # half of the epoch is left
        # The warm-up of the first epoch is as long as a window.
        (
            line(replace(epoch(11), iter_s=0.0), replace(epoch(9, began_s=100.0), iter_s=0.0), num_workers=0),
            [(WARM_UP, 4), (STEADY, 4), (WARM_UP, 3), (WARM_UP, 1), (STEADY, 4), (STEADY, 4)],
        ),
        # The training step of the last batch of an incomplete epoch is unknown.
        (line(epoch(14, ended=False), batches=1000), [(WARM_UP, 4), (STEADY, 4), (STEADY, 4), (WARM_UP, 1)]),
        (line(epoch(22, ended=False), batches=None), [(WARM_UP, 4), *[(STEADY, 4)] * 4, (WARM_UP, 1)]),
        (line(epoch(5, ended=False), batches=8), [(WARM_UP, 4)]),  # the start-up of a short incomplete epoch counts
        # Windows end before the end of each epoch.
        (
            line(epoch(22), epoch(50, began_s=100.0)),
            [(WARM_UP, 4), *[(STEADY, 4)] * 3, (WARM_UP, 6), (WARM_UP, 4), *[(STEADY, 4)] * 10, (WARM_UP, 6)],
        ),
        (line(epoch(8), epoch(8, began_s=10.0)), [(EPOCH, 8), (EPOCH, 8)]),  # too short for windows
        (line(epoch(0), batches=1000), []),
    ],
)
def test_an_epoch_is_cut_into(watched: Timeline, expected: list[tuple[WindowKind, int]]) -> None:
    assert kinds(windows(watched)) == expected


def validation(began_s: float) -> Timeline:
    """Two batches of another loader in 1 s."""
    asked, over = [began_s + 0.25, began_s + 0.5], (began_s + 0.75, began_s + 1.0)
    given = [moment + 0.125 for moment in asked]
    return line(Epoch(began_s=began_s, iter_s=0.25, asked_s=asked, given_s=given, over_s=over))


def test_a_validation_pass_is_not_the_trainings_time_and_fills_the_queue() -> None:
    interrupted = epoch(30, breaks={9: 2.0})
    other = validation(interrupted.given_s[9] + 0.5)
    assert timeline.pauses(interrupted, other.epochs) == {9: 1.0}
    found = windows(line(interrupted), other)
    # Batches 8 and 9 are too few for a window, 10 to 13 were ready.
    assert kinds(found) == [(WARM_UP, 4), (STEADY, 4), (WARM_UP, 6), *[(STEADY, 4)] * 3, (WARM_UP, 4)]
    assert found[2].step_s[1] == USE_S + 1.0
    steady = [window for window in found if window.kind is STEADY]
    assert {window.elapsed_s for window in steady} == {0.5}


def test_other_loaders_are_a_part_of_the_step_unless_they_run_rarely_between_two_batches() -> None:
    whole = epoch(30)
    others = [
        replace(whole, began_s=0.125),
        epoch(2, began_s=1e6),
        epoch(2, began_s=-1e6),
    ]  # the first is zipped with the training
    assert [timeline.pauses(whole, [other]) for other in others] == [{}, {}, {}]
    whole = epoch(30, breaks=dict.fromkeys(range(30), 2.0))
    passes = [validation(given_s + 0.5) for given_s in whole.given_s]
    assert timeline.pauses(whole, [one.epochs[0] for one in passes]) == {}
    assert sum(window.kind is STEADY for window in windows(line(whole), *passes)) > 3
    interrupted = epoch(30, breaks={9: 2.0})
    single = epoch(1, began_s=interrupted.given_s[9] + 0.25, ended=False)
    found = windows(line(interrupted), line(single))
    assert sum(sum(window.step_s) for window in found) == 30 * USE_S + 2.0


def test_the_training_is_the_longest_loader_with_the_number_of_workers() -> None:
    training, checking, other = line(epoch(30)), line(epoch(10), dataset="my.Val"), line(epoch(60), num_workers=1)
    assert timeline.training([checking, training, other], 2) is training
    assert timeline.training([checking, other], 3) is other
    assert timeline.training([checking, other], 2) is other  # the training has another number of workers
    assert timeline.training([line(epoch(0))], 2) is None
    assert timeline.training([], 2) is None


def test_loaders_with_equal_settings_are_merged() -> None:
    first, second, other = line(epoch(9)), line(epoch(8, began_s=50.0)), line(epoch(7), dataset="my.Val")
    found = timeline.merged([second, other, first])
    assert [[one.batches for one in two.epochs] for two in found] == [[9, 8], [7]]


@pytest.mark.parametrize(
    ("epochs", "declared", "length"),
    [((epoch(9),), 12, 9), ((epoch(9, ended=False),), 12, 12), ((epoch(9, ended=False),), None, None)],
)
def test_the_length_of_an_epoch_is_that_of_the_latest_complete_one(
    epochs: tuple[Epoch, ...], declared: int | None, length: int | None
) -> None:
    assert line(*epochs, batches=declared).batches_per_epoch == length
