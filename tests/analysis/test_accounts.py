"""The account of an epoch in words: the largest part that can be changed, and what to
do."""

from typing import Any

import pytest

from nws_sweep.analysis import accounts
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
    assert "90 %" in accounts.remedy(account, part)


def test_a_line_has_the_parts_that_are_worth_a_word() -> None:
    account = Account(step_s=3.0, making_s=6.99, sampler_s=0.01)
    measured = trial(2, 10.0, measurement=measurement(10.0, account=account))
    assert (
        accounts.line(measured)
        == "where the time goes: making samples 70 %, training step 30 %"
    )
    assert accounts.line(trial(2, 10.0)) == ""


@pytest.mark.parametrize(
    ("account", "shares"),
    [
        (Account(step_s=3.0, making_s=6.0, sampler_s=1.0), ""),
        (
            Account(step_s=3.0, making_s=1.0, sampler_s=6.0),
            "sampler 60 %, training step 30 %, making samples 10 %",
        ),
    ],
)
def test_the_line_stands_beside_the_share_of_waiting_where_that_does_not_tell_it(
    account: Account, shares: str
) -> None:
    measured = trial(2, 10.0, measurement=measurement(10.0, account=account))
    assert accounts.line_beside_waiting(measured) == (
        shares and f"where the time goes: {shares}"
    )


def test_the_table_has_the_largest_part_first_and_what_other_loaders_start() -> None:
    account = Account(step_s=3.0, making_s=0.99, others=(VALIDATION,), sampler_s=0.01)
    assert accounts.table(account, 4) == [
        "where 10.0 s went, with num_workers=4:",
        "other loaders    60 %  6.00 s  (Scans: 6.00 s, 5.00 s of it starting and ending workers 20 times)",
        "training step    30 %  3.00 s",
        "making samples   10 %  990 ms",
    ]


@pytest.mark.parametrize(
    ("account", "part", "words"),
    [
        (STEP, None, "the training step takes 98 % of the time; the loader does not limit it"),
        (Account(step_s=9.0, making_s=1.0), Part.MAKING,
         "the training step takes 90 % of the time; training waits for data 10 % of the time"),
        (Account(step_s=1.0, making_s=2.0, sampler_s=7.0), Part.SAMPLER,
         "the sampler takes 70 % of the time in the main process: make it cheaper; no number of workers helps"),
        (Account(step_s=1.0, making_s=2.0, main_s=7.0), Part.MAIN,
         "receiving batches takes the main process 70 % of the time: give it fewer and larger tensors"),
        (Account(step_s=1.0, making_s=2.0, starting_s=7.0), Part.STARTING,
         "starting and ending workers takes 70 % of the time: persistent_workers=True saves 7.00 s of each later "
         "epoch"),
        (Account(step_s=9.0, making_s=0.0, main_s=1.0), Part.MAIN,
         "the training step takes 90 % of the time; receiving batches takes the main process 10 % of the time: give it "
         "fewer and larger tensors"),
        (Account(step_s=1.0, making_s=2.0, unseen_s=7.0), Part.UNSEEN,
         "70 % of the time passes outside of DataLoaders and training steps: look at what follows an epoch, such as "
         "saving"),
        (Account(step_s=4.0, making_s=0.0, others=(VALIDATION,)), Part.OTHERS,
         "other loaders take 60 % of the time: the DataLoader of Scans starts its workers 20 times; made once, with "
         "persistent_workers=True, it saves 4.75 s"),
        (Account(step_s=4.0, making_s=0.0, others=(OtherLoader(name="Val", seconds=6.0, starting_s=5.0, starts=1),)),
         Part.OTHERS, "other loaders (Val) take 60 % of the time: tune each of them"),
        (Account(step_s=4.0, making_s=0.0, others=(OtherLoader(name="Val", workers=0, seconds=6.0, called_s=5.0),)),
         Part.OTHERS, "other loaders take 60 % of the time: the DataLoader of Val has no workers: give it some"),
        (Account(step_s=4.0, making_s=0.0, others=(OtherLoader(name="Val", workers=0, seconds=6.0, called_s=0.1),)),
         Part.OTHERS, "other loaders (Val) take 60 % of the time: tune each of them"),
    ],
)  # fmt: skip
def test_the_largest_part_has_a_remedy(
    account: Account, part: Part | None, words: str
) -> None:
    assert accounts.to_change(account, loader_settings(4)) is part
    assert accounts.remedy(account, part) == words


def test_a_loader_that_is_made_for_each_epoch_has_to_be_made_once() -> None:
    text = accounts.remedy(
        Account(step_s=1.0, making_s=0.0, starting_s=9.0), Part.STARTING, is_remade=True
    )
    assert text.endswith(
        "one DataLoader for all epochs, with persistent_workers=True, saves 9.00 s of each later epoch"
    )


def test_workers_that_are_started_for_each_batch_have_a_remedy() -> None:
    account = Account(step_s=1.0, making_s=2.0, starting_s=7.0)
    takes = "starting and ending workers takes 70 % of the time"
    keep = "keep the iterator of the DataLoader for the next batch"
    assert (
        accounts.remedy_of_starts(account, 20, 20)
        == f"{takes}, 20 times for 20 batches: {keep}"
    )
    assert (
        accounts.remedy_of_starts(account, 8, 1)
        == f"{takes}, 8 times for 1 batch: {keep}"
    )


def test_persistent_workers_start_in_the_first_epoch_only() -> None:
    account = Account(step_s=1.0, making_s=2.0, starting_s=7.0)
    assert (
        accounts.to_change(account, loader_settings(4, persistent_workers=True))
        is Part.MAKING
    )
