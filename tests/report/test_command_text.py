import re
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nws_sweep import cli
from nws_sweep.analysis.summary import ConfigurationSummary, summarise
from nws_sweep.errors import ConfigurationError, NotARunError
from nws_sweep.records import BatchCost, storage
from nws_sweep.report import command_text
from tests.factories import (
    estimate,
    measurement,
    recorded_trial,
    search_result,
    store_grid,
    store_run,
    trial,
)

COST = BatchCost(cpu_s=0.08, wait_s=0.0)
DEFAULTS = {
    "num_workers": "0..64",
    "prefetch_factor": None,
    "in_order": None,
    "cpus": None,
    "training_step": None,
}


def options(**changes: Any) -> Namespace:
    return Namespace(**{**DEFAULTS, **changes})


@pytest.fixture
def run(tmp_path: Path) -> ConfigurationSummary:
    """Batches of 80 ms of CPU time, 8 CPUs."""
    found = measurement(2.7, batch_s=estimate(0.021))
    result = search_result(replace(recorded_trial(4, COST), measurement=found))
    (only,) = summarise(storage.find(store_run(tmp_path, result))).configurations
    return only


def test_predicted_and_measured_times_stand_side_by_side(
    run: ConfigurationSummary,
) -> None:
    assert command_text.predictions(run, options(num_workers="2,4")) == (
        "num_workers=4   an epoch takes about 2 to 4 s (measured)\n"
        "why    8 CPUs, no training step, prefetch_factor=2, in_order=true; from 20 batches with num_workers=4\n"
        "\n"
        "| num_workers | batch, measured   | batch, predicted | epoch, measured | epoch, predicted | samples/s, predicted |\n"  # noqa: E501
        "|-------------|-------------------|------------------|-----------------|------------------|----------------------|\n"
        "| 2           | -                 | 40 ms ±14 %      | -               | 5.1 s ±14 %      | 1600                 |\n"  # noqa: E501
        "| 4           | about 16 to 32 ms | 20.0 ms ±7.4 %   | about 2 to 4 s  | 2.56 s ±7.4 %    | 3200                 |\n"  # noqa: E501
    )


def test_epochs_without_a_steady_pace_have_no_time_per_batch(tmp_path: Path) -> None:
    trial = replace(recorded_trial(4, COST), batches=15)
    found = store_run(tmp_path, search_result(trial))
    (short,) = summarise(storage.find(found)).configurations
    table = command_text.predictions(short, options(num_workers="2,4"))
    assert re.findall(r"^\| (\d) +\| (\S+)", table, re.MULTILINE) == [
        ("2", "40"),
        ("4", "-"),
    ]


def test_with_another_training_step_the_cpus_of_a_node_are_told(
    run: ConfigurationSummary,
) -> None:
    enough = command_text.predictions(run, options(training_step=0.02)).splitlines()[2]
    assert enough.startswith("next   4 CPUs keep the training step busy: 20")
    assert enough.endswith(" a batch with num_workers=4, 40 ms on 2 CPUs")
    too_few = command_text.predictions(
        run, options(training_step=0.02, num_workers="0..1")
    ).splitlines()[2]
    assert too_few.startswith(
        "next   1 CPU is as fast as any, though the training step waits: 8"
    )


def test_the_gain_over_the_search_is_told(run: ConfigurationSummary) -> None:
    line, *_ = command_text.predictions(run, options(cpus=16.0)).splitlines()
    assert line.startswith("num_workers=16   an epoch takes ")
    assert line.endswith(" (predicted), 4.0 times as fast as 4 with 8 CPUs")


def test_of_many_settings_the_best_workers_of_each_are_shown(
    run: ConfigurationSummary,
) -> None:
    lines = command_text.predictions(
        run, options(num_workers="0..8", prefetch_factor="2,4", in_order="true,false")
    ).splitlines()
    cells = [
        [cell.strip() for cell in line.split("|")[1:4]]
        for line in lines
        if line.startswith("| ")
    ]
    assert cells[0] == ["prefetch_factor", "in_order", "num_workers"]
    assert [(row[0], row[1]) for row in cells[1:]] == [
        ("2", "true"),
        ("2", "false"),
        ("4", "true"),
        ("4", "false"),
    ]
    assert lines[0].startswith("num_workers=8 prefetch_factor=2 in_order=true   an ")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"num_workers": "3..1"},
            "num_workers=3..1: must be integers such as 2,4,8 or a range such as 0..16",
        ),
        ({"num_workers": "1.."}, "num_workers=1..: must be integers"),
        (
            {"num_workers": "0..99999999999"},
            "num_workers=99999999999: must be an integer from 0 to 4096",
        ),
        (
            {"prefetch_factor": "2,0"},
            "prefetch_factor=0: must be an integer from 1 to 4096",
        ),
        ({"in_order": "maybe"}, "in_order='maybe': must be true or false"),
    ],
)
def test_a_wrong_option_is_refused(
    run: ConfigurationSummary, asked: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        command_text.predictions(run, options(**asked))


def test_costs_that_cannot_be_read_or_are_missing_are_named(
    run: ConfigurationSummary,
) -> None:
    costs = run.run.folder / "costs.csv"
    costs.write_text("number,began_s\nx,y\n")
    with pytest.raises(NotARunError, match=r"costs\.csv: cannot be read \("):
        command_text.predictions(run, options())
    costs.unlink()
    with pytest.raises(
        NotARunError, match=r"no costs\.csv, so nothing can be predicted$"
    ):
        command_text.predictions(run, options())


def test_configurations_of_a_grid_without_costs_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known, unknown = (
        search_result(recorded_trial(4, COST)),
        search_result(trial(4, 8.0), columns={"batch_size": 128}),
    )
    assert (
        cli.run(
            ["predict", str(store_grid(tmp_path, unknown, known)), "--num-workers", "4"]
        )
        == 1
    )
    printed = capsys.readouterr()
    assert printed.out.startswith(
        "dataset=photos batch_size=64\nnum_workers=4   an epoch takes "
    )
    message = "no costs of batches were recorded, so nothing can be predicted\n"
    assert printed.err == f"nws_sweep: dataset=photos batch_size=128: {message}"
    assert cli.run(["predict", str(store_grid(tmp_path / "none", unknown))]) == 2
    assert capsys.readouterr().err == f"nws_sweep: dataset=photos: {message}"
