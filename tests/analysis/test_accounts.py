"""The account of an epoch in words: the largest part that can be changed, and what to
do."""

from typing import Any

import pytest

from nws_sweep.analysis import accounts
from nws_sweep.analysis.answers import Answer
from nws_sweep.analysis.remedies import Remedy
from nws_sweep.records import Account, OtherLoader, Part
from tests.factories import loader_settings, measurement, trial

VALIDATION = OtherLoader(name="Scans", seconds=6.0, starting_s=5.0, starts=20)
STEP = Account(step_s=9.8, making_s=0.2)


def test_a_part_that_was_measured_elsewhere_never_makes_an_epoch_longer() -> None:
    account = Account(
        step_s=3.0,
        making_s=1.0,
        sampler_s=1.0,
        others=(OtherLoader(name="Val", seconds=4.0, called_s=3.0, starting_s=2.0),),
    )
    assert account.lasting(10.0).seconds == {**account.seconds, Part.MAKING: 2.0}
    shorter = account.lasting(4.0)
    assert shorter.total_s == 4.0
    assert shorter.others == (
        OtherLoader(name="Val", seconds=2.0, called_s=1.5, starting_s=1.0),
    )
    assert [*shorter.seconds.items()][:3] == [
        (Part.OTHERS, 2.0),
        (Part.STEP, 1.5),
        (Part.SAMPLER, 0.5),
    ]


@pytest.mark.parametrize(
    "part", [part for part in Part if part not in (Part.STEP, Part.OTHERS)]
)
def test_every_part_is_scaled_and_has_a_remedy(part: Part) -> None:
    seconds: dict[str, Any] = {
        "step_s": 1.0,
        "making_s": 0.0,
        f"{part.name.lower()}_s": 9.0,
    }
    account = Account(**seconds)
    assert account.lasting(5.0).total_s == 5.0
    assert accounts.to_change(account, loader_settings(4)) is part
    assert "90 %" in accounts.cause(account, part)
    (remedy,) = accounts.remedies(account, loader_settings(4))
    assert "90 %" in remedy


def test_a_line_has_the_parts_that_are_worth_a_word() -> None:
    account = Account(step_s=3.0, making_s=6.99, sampler_s=0.01)
    measured = trial(2, 10.0, measurement=measurement(10.0, account=account))
    assert (
        accounts.line(measured, has_step=True)
        == "where the time goes: making samples 70 %, training step 30 %"
    )
    assert "the loop itself 30 %" in accounts.line(measured, has_step=False)
    assert accounts.line(trial(2, 10.0), has_step=True) == ""


def test_the_table_has_the_largest_part_first_and_what_other_loaders_start() -> None:
    account = Account(step_s=3.0, making_s=0.99, others=(VALIDATION,), sampler_s=0.01)
    assert accounts.table(account, 4) == [
        "where 10.0 s went, with num_workers=4:",
        "other loaders    60 %  6.00 s  (Scans: 6.00 s, 5.00 s of it starting and ending workers 20 times)",
        "training step    30 %  3.00 s",
        "making samples   10 %  990 ms",
    ]


@pytest.mark.parametrize(
    ("account", "part", "lines"),
    [
        (STEP, None, [
            "the training step limits training; more workers save nothing",
            "why    the training step takes 98 % of the time (9.80 s of 10.0 s)",
        ]),
        (Account(step_s=9.0, making_s=0.0, main_s=1.0), Part.MAIN, [
            "the training step limits training",
            "why    the training step takes 90 % of the time (9.00 s of 10.0 s)",
            "next   fewer and larger tensors in a batch save up to 10 %",
        ]),
        (Account(step_s=3.0, making_s=7.0), Part.MAKING, [
            "the loader limits training: 70 % of the time is waiting for data",
            "why    making samples takes 70 % of the time (7.00 s of 10.0 s)",
            "next   cheaper samples save up to 70 %; more workers save nothing",
        ]),
        (Account(step_s=1.0, making_s=2.0, sampler_s=7.0), Part.SAMPLER, [
            "the loader limits training: 90 % of the time is waiting for data",
            "why    the sampler takes 70 % of the time in the main process (7.00 s of 10.0 s)",
            "next   a cheaper sampler saves up to 70 %; no num_workers does",
        ]),
        (Account(step_s=1.0, making_s=2.0, starting_s=7.0), Part.STARTING, [
            "the loader limits training: 90 % of the time is waiting for data",
            "why    starting and ending workers takes 70 % of the time (7.00 s of 10.0 s)",
            "next   persistent_workers=True saves 70 % of each later epoch",
        ]),
        (Account(step_s=1.0, making_s=2.0, unseen_s=7.0), Part.UNSEEN, [
            "neither loader nor training step limits training: 70 % of the time is beside them",
            "why    what is outside of DataLoaders and training steps takes 70 % of the time (7.00 s of 10.0 s)",
            "next   look at what follows an epoch, such as saving: it takes 70 %",
        ]),
        (Account(step_s=4.0, making_s=0.0, others=(VALIDATION,)), Part.OTHERS, [
            "other loaders limit training: they take 60 % of the time",
            "why    starting the workers of Scans 20 times takes 50 % of the time (5.00 s of 10.0 s)",
            "next   one DataLoader of Scans for all passes, with persistent_workers=True, saves 48 %",
        ]),
        (Account(step_s=4.0, making_s=0.0, others=(OtherLoader(name="Val", seconds=6.0, starting_s=5.0, starts=1),)),
         Part.OTHERS, [
            "other loaders limit training: they take 60 % of the time",
            "why    other loaders (Val) take 60 % of the time (6.00 s of 10.0 s)",
            "next   tune the other loaders: they take 60 %",
        ]),
        (Account(step_s=4.0, making_s=0.0, others=(OtherLoader(name="Val", workers=0, seconds=6.0, called_s=5.0),)),
         Part.OTHERS, [
            "other loaders limit training: they take 60 % of the time",
            "why    Val loads without workers, which takes 50 % of the time (5.00 s of 10.0 s)",
            "next   workers for the DataLoader of Val save up to 50 %",
        ]),
    ],
)  # fmt: skip
def test_the_largest_part_has_a_cause_and_a_remedy(
    account: Account, part: Part | None, lines: list[str]
) -> None:
    settings = loader_settings(4)
    assert accounts.to_change(account, settings) is part
    answer = Answer(
        answer=accounts.limit(account, part),
        why=accounts.cause(account, part),
        remedies=accounts.remedies(account, settings),
    )
    assert answer.lines == lines
    assert all(len(line.split()) <= 25 for line in lines)


def test_later_epochs_are_without_the_start_of_workers_that_persist() -> None:
    first = Account(step_s=5.5, making_s=0.5, starting_s=4.0)
    persistent = loader_settings(4, persistent_workers=True)
    later, left_out = accounts.of_later_epochs(first, persistent)
    assert (later.total_s, later.seconds[Part.STEP]) == (6.0, 5.5)
    assert left_out == (
        "without 4.00 s of starting workers, which later epochs do not have"
    )
    assert accounts.of_later_epochs(first, loader_settings(4)) == (first, "")
    short = Account(step_s=9.8, making_s=0.1, starting_s=0.1)
    assert accounts.of_later_epochs(short, persistent) == (short, "")


def test_what_is_known_of_a_part_is_said_where_it_is_the_cause() -> None:
    details = {Part.MAKING: "most of it Photos.__getitem__"}
    making = Account(step_s=2.0, making_s=8.0)
    assert accounts.cause(making, Part.MAKING, details) == (
        "making samples takes 80 % of the time (8.00 s of 10.0 s), most of it "
        "Photos.__getitem__"
    )
    step = Account(step_s=8.0, making_s=2.0)
    assert accounts.cause(step, Part.MAKING, details) == (
        "the training step takes 80 % of the time (8.00 s of 10.0 s)"
    )


def test_a_second_remedy_saves_more_than_half_as_much_and_the_larger_one_is_first() -> (
    None
):
    settings = loader_settings(4)
    account = Account(step_s=1.0, making_s=5.0, sampler_s=3.0, main_s=1.0)
    making, sampler = accounts.remedies(account, settings)
    assert making.startswith("cheaper samples save up to 50 %")
    assert sampler.startswith("a cheaper sampler saves up to 30 %")
    predicted = Remedy("num_workers=8 saves {} (predicted)", 0.4)
    assert accounts.remedies(account, settings, predicted) == (
        "num_workers=8 saves 40 % (predicted)",
        sampler,
    )
    little = Remedy("num_workers=8 saves {} (predicted)", 0.05)
    assert accounts.remedies(account, settings, little) == (
        "cheaper samples save up to 50 %",
        sampler,
    )
    account = Account(step_s=1.0, making_s=5.0, sampler_s=2.0, main_s=2.0)
    assert len(accounts.remedies(account, settings)) == 1


def test_the_first_remedy_is_that_of_the_cause_also_if_another_one_saves_more() -> None:
    account = Account(step_s=0.0, making_s=5.0, others=(VALIDATION,))
    settings = loader_settings(4)
    part = accounts.to_change(account, settings)
    assert accounts.cause(account, part).startswith("starting the workers of Scans")
    first, second = accounts.remedies(account, settings)
    assert first.startswith("one DataLoader of Scans for all passes")
    assert first.endswith("saves 43 %")
    assert second.startswith("cheaper samples save up to 45 %")


def test_a_loader_that_is_made_for_each_epoch_has_to_be_made_once() -> None:
    account = Account(step_s=1.0, making_s=0.0, starting_s=9.0)
    assert accounts.remedies(account, loader_settings(4), is_remade=True) == (
        "one DataLoader for all epochs, and persistent_workers=True saves 90 % of each later epoch",
    )


def test_persistent_workers_start_in_the_first_epoch_only() -> None:
    account = Account(step_s=1.0, making_s=2.0, starting_s=7.0)
    assert (
        accounts.to_change(account, loader_settings(4, persistent_workers=True))
        is Part.MAKING
    )
