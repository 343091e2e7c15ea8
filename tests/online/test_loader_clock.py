"""Whose time it is: each second belongs to one DataLoader or to none."""

from nws_sweep.online.loader_clock import LoaderClock, LoaderTime
from nws_sweep.records import OtherLoader


class Seconds:
    """A clock that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


CLOCK = Seconds()


def call(
    clock: LoaderClock, loader: LoaderTime, seconds: float, *, has_ended: bool = False
) -> None:
    """An iterator is called, and returns."""
    clock.enter(loader)
    CLOCK.now_s += seconds
    clock.leave(loader, has_ended=has_ended)


def test_a_validation_has_the_time_in_its_loop_until_its_epoch_ends() -> None:
    training, validation, clock = (
        LoaderTime("Train"),
        LoaderTime("Val", has_loop=True),
        LoaderClock(CLOCK),
    )
    call(clock, training, 1.0)
    CLOCK.now_s += 5.0  # a training step
    with clock.entered(validation):
        pass
    call(clock, validation, 0.5)
    CLOCK.now_s += 2.0  # a step of the validation
    call(clock, validation, 0.25, has_ended=True)
    CLOCK.now_s += 7.0
    clock.enter(training)
    assert (training.spent_s, validation.spent_s) == (1.0, 2.75)
    assert clock.others_and_calls_s(training) == (2.75, 1.0)
    assert (training.is_parallel, validation.is_parallel) == (False, False)
    assert clock.since({}, training) == (
        OtherLoader(name="Val", workers=0, seconds=2.75, called_s=0.75),
    )


def test_two_training_loaders_in_turn_leave_the_step_to_the_training() -> None:
    """The second one has a fixed order, as that of a validation: until it is asked in
    turn with the first."""
    first, second, clock = (
        LoaderTime("A"),
        LoaderTime("B", has_loop=True),
        LoaderClock(CLOCK),
    )
    call(clock, first, 1.0)
    call(clock, second, 1.0)
    call(clock, first, 1.0)
    CLOCK.now_s += 5.0
    call(clock, second, 1.0)
    CLOCK.now_s += 5.0
    clock.enter(first)
    assert (first.spent_s, second.spent_s) == (2.0, 2.0)
    assert first.is_parallel
    assert second.is_parallel


def test_a_loader_in_the_dataset_of_another_is_a_part_of_it() -> None:
    outer, inner, clock = LoaderTime("Outer"), LoaderTime("Inner"), LoaderClock(CLOCK)
    clock.enter(outer)
    call(clock, inner, 3.0)
    clock.leave(outer, has_ended=False)
    assert (outer.spent_s, inner.spent_s) == (3.0, 0.0)


def test_what_a_loader_took_before_is_not_counted() -> None:
    training, validation, clock = (
        LoaderTime("Train"),
        LoaderTime("Val", has_loop=True),
        LoaderClock(CLOCK),
    )
    call(clock, validation, 9.0)
    before = clock.now()
    assert clock.since(before, training) == ()
    call(clock, validation, 1.0, has_ended=True)
    assert [other.seconds for other in clock.since(before, training)] == [1.0]
