import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nws_sweep import cli
from nws_sweep.analysis.comparing import ALARMS, RunComparison, compare
from nws_sweep.analysis.summary import Summary
from nws_sweep.analysis.time_ratios import (
    Change,
    Quantity,
    Ratio,
    Times,
    change_of,
    ratio_of,
)
from nws_sweep.errors import ConfigurationError
from nws_sweep.records import Estimate, Host, SearchRecord
from nws_sweep.report import command_text, formats
from tests.factories import (
    FACTS,
    HOST,
    configuration,
    endless_trial,
    failed_trial,
    loader_settings,
    measurement,
    points,
    search_result,
    steady,
    store_grid,
    store_run,
    summary_of_grid,
    summary_of_run,
    trial,
)


def timed(value: float, half_width: float | None) -> Estimate:
    """A time with this half-width of its interval on the log scale."""
    low, high = (half_width and value * math.exp(sign * half_width) for sign in (-1, 1))
    return Estimate(value=value, low=low, high=high, n=5)


def test_half_widths_add_in_quadrature_on_the_log_scale_if_both_times_have_one() -> (
    None
):
    found = Times(
        quantity=Quantity.BATCH, base=timed(2.0, 0.03), compared=timed(3.0, 0.04)
    ).ratio
    assert (found.value, found.half_width) == pytest.approx((1.5, 0.05))
    assert (str(found), found.speed_up) == (
        "1.50 (1.43 to 1.58)",
        "1.50x (1.43 to 1.58)",
    )
    # a wide interval stands in the place of the ratio
    assert replace(found, half_width=0.5).speed_up == "0.9x to 2.5x"
    assert replace(found, half_width=0.2).speed_up == "1.5x (1.2 to 1.8)"
    assert replace(found, half_width=None).speed_up == "1.5x"
    assert replace(found, half_width=0.0).speed_up == "the same"
    unknown = replace(found, half_width=2.6)
    assert (str(unknown), unknown.speed_up) == ("unknown", "unknown")
    assert unknown.as_fast_as("0") == ""
    assert unknown.times_as_long == "an unknown time"
    assert found.times_as_long == "1.50 times as long (1.43 to 1.58)"
    assert found.as_fast_as("0") == "1.50 times as fast as 0 (1.43 to 1.58)"
    wide, equal = replace(found, half_width=0.5), replace(found, value=1.004)
    assert wide.as_fast_as("0") == "0.9 to 2.5 times as fast as 0"
    assert equal.as_fast_as("0") == "as fast as 0 (0.96 to 1.06)"
    assert ratio_of(trial(2, 128.0), trial(2, 128.0)) == Ratio(
        value=1.0, half_width=0.0
    )
    lacking = Times(
        quantity=Quantity.BATCH, base=timed(2.0, None), compared=timed(1.0, 0.1)
    ).ratio
    assert (lacking.value, lacking.ends, str(lacking)) == (0.5, None, "0.50")


@pytest.mark.parametrize(
    ("value", "half_width", "change"),
    [
        (1.02, 0.005, Change.SAME), (0.98, 0.005, Change.SAME),
        (1.02, 0.02, Change.UNCLEAR), (0.98, 0.02, Change.UNCLEAR), (1.0, 0.05, Change.UNCLEAR),
        (1.05, 0.01, Change.SLOWER), (1.05, 0.03, Change.UNCLEAR),
        (0.95, 0.01, Change.FASTER), (0.95, 0.03, Change.UNCLEAR),
        (1.0, None, Change.UNCLEAR), (9.0, None, Change.UNCLEAR),
        # symmetrical limits
        (1 / 1.029, 0.0, Change.SAME), (1 / 1.031, 0.0, Change.FASTER),
    ],
)  # fmt: skip
def test_the_whole_interval_decides(
    value: float, half_width: float | None, change: Change
) -> None:
    assert change_of(Ratio(value=value, half_width=half_width), 0.03) is change


LIMIT = 0.03


def found(
    batch_s: float, columns: Mapping[str, Any] | None = None, **changes: Any
) -> SearchRecord:
    return search_result(steady(2, batch_s), columns=columns, **changes)


def grid(**seconds: float) -> Summary:
    """A configuration per batch size: ``b64=1.0`` took 1 s a batch."""
    return summary_of_grid(
        *(
            found(value, {"batch_size": int(name[1:])})
            for name, value in seconds.items()
        )
    )


def runs(a: SearchRecord, b: SearchRecord) -> RunComparison:
    return compare(summary_of_run(a), summary_of_run(b), LIMIT)


def test_configurations_of_equal_columns_are_compared_in_the_order_of_a_and_the_others_named() -> (
    None
):
    comparison = compare(
        grid(b8=1.0, b16=1.0, b32=1.0, b64=1.0),
        grid(b32=1.5, b16=1.0, b8=0.5, b128=1.0),
        LIMIT,
    )
    assert [(pair.label, pair.change) for pair in comparison.pairs] == [
        ("batch_size=8", Change.FASTER),
        ("batch_size=16", Change.SAME),
        ("batch_size=32", Change.SLOWER),
    ]
    assert [
        pair.times.ratio.value for pair in comparison.pairs if pair.times
    ] == pytest.approx([0.5, 1.0, 1.5])
    assert (comparison.only_a, comparison.only_b) == (
        ("batch_size=64",),
        ("batch_size=128",),
    )
    assert (comparison.settings, comparison.hosts) == ((), ())
    # equal columns: one by one
    a, b = (summary_of_grid(found(seconds), found(2.0)) for seconds in (1.0, 2.0))
    assert [pair.change for pair in compare(a, b, LIMIT).pairs] == [
        Change.SLOWER,
        Change.SAME,
    ]
    line = "^no combination is in both: A has batch_size=8, batch_size=16; B has batch_size=32$"
    with pytest.raises(ConfigurationError, match=line):
        compare(grid(b8=1.0, b16=1.0), grid(b32=1.0), LIMIT)


def test_constant_columns_of_a_and_of_b_are_reported_and_do_not_prevent_pairing() -> (
    None
):
    a, b = (
        summary_of_grid(
            *(found(1.0, one) for one in points(batch_size=(8, 16), pin_memory=(p,)))
        )
        for p in (0, 1)
    )
    comparison = compare(a, b, LIMIT)
    assert [pair.label for pair in comparison.pairs] == [
        "batch_size=8",
        "batch_size=16",
    ]
    assert comparison.settings == (("pin_memory", "0", "1"),)
    both = summary_of_grid(*(found(2.0, each) for each in points(pin_memory=(0, 1))))
    assert compare(
        summary_of_run(found(1.0, {"pin_memory": 1})), both, LIMIT
    ).only_b == ("pin_memory=0",)


OTHER = configuration(
    dataset={"_target_": "package.Photos", "files": 200},
    loader=loader_settings(shuffle=True),
)
NODE_2 = replace(
    HOST,
    hostname="node2",
    usable_cpus=4,
    memory_bytes=HOST.memory_bytes + 4096,
    torch="2.5.0",
)


@pytest.mark.parametrize(
    ("b", "settings", "hosts"),
    [
        (found(1.0, {"dataset": "cifar10", "training_step": "train"}),
         [("dataset", "photos", "cifar10"), ("training_step", "-", "train")], []),
        (found(1.0, configuration=OTHER, facts=replace(FACTS, samples=200)),
         [("dataset.files", "100", "200"), ("shuffle", "false", "true"),
          ("samples of the dataset", "8192", "200")],
         []),
        (found(1.0, host=NODE_2, facts=replace(FACTS, accelerator="cuda")), [],
         [("hostname", "node1", "node2"), ("usable_cpus", "8", "4"), ("torch", "2.4.0", "2.5.0"),
          ("accelerator", "none", "cuda")]),
    ],
)  # fmt: skip
def test_other_differences_are_reported(
    b: SearchRecord,
    settings: list[tuple[str, str, str]],
    hosts: list[tuple[str, str, str]],
) -> None:
    comparison = runs(found(1.0), b)
    assert ([*comparison.settings], [*comparison.hosts]) == (settings, hosts)


LARGER_BATCHES = search_result(
    trial(2, 1.0, settings=loader_settings(2, batch_size=128)),
    configuration=configuration({"batch_size": 128}),
)
BROKEN = search_result(failed_trial(2))
PERSISTENT = search_result(
    steady(2, 1.0, settings=loader_settings(2, persistent_workers=True))
)
# an epoch of fewer than two queues
SHORT = search_result(replace(steady(2, 1.0), batches=7))
WHOLE = [
    search_result(trial(2, value, measurement=measurement(value, batch_s=None)))
    for value in (1.0, 9.0)
]


@pytest.mark.parametrize(
    ("a", "b", "ratio", "verdict", "note"),
    [
        (found(1.0), found(1.5), (Quantity.BATCH, 1.5), "slower", ""),
        (found(1.0), found(1.0), (Quantity.BATCH, 1.0), "same", ""),
        (found(1.0), search_result(steady(2, 1.0), steady(4, 0.5)), (Quantity.BATCH, 0.5), "faster",
         "the best num_workers differs; in B the value of A takes 2.00 (2.00 to 2.00) times as long as the best"),
        (found(1.0), LARGER_BATCHES, (Quantity.SAMPLE, 1 / 128), "faster",
         "the batch sizes differ, so times per sample are compared"),
        (found(1.0), PERSISTENT, (Quantity.EPOCH, 1.0), "same", ""),
        (found(1.0), SHORT, (Quantity.EPOCH, 1.0), "same", ""),
        (found(1.0), BROKEN, None, "failed in B", "nothing could be measured in B"),
        (BROKEN, found(1.0), None, "failed in A", "nothing could be measured in A"),
        (*WHOLE, (Quantity.EPOCH, 9.0), "inconclusive",
         "inconclusive without intervals in A and B: too little was measured"),
        (found(1.0), search_result(endless_trial(2, 1.0), stop_reason=""), (Quantity.BATCH, 1.0), "inconclusive",
         "B is provisional: the search did not finish"),
        (search_result(endless_trial(2, 1.0)), WHOLE[0], None, "inconclusive", "A and B have no comparable time"),
    ],
)  # fmt: skip
def test_times_verdict_alarms_and_note_of_a_pair(
    a: SearchRecord,
    b: SearchRecord,
    ratio: tuple[Quantity, float] | None,
    verdict: str,
    note: str,
) -> None:
    comparison = runs(a, b)
    (pair,) = comparison.pairs
    assert (pair.times and (pair.times.quantity, pair.times.ratio.value)) == ratio
    assert "".join(pair.notes) == note
    assert command_text._row(pair)[-1] == verdict
    alarms = {
        "slower": {"slower", "changed"},
        "failed in B": {"slower", "changed"},
        "faster": {"faster", "changed"},
    }
    assert {alarm for alarm in ALARMS if comparison.alarming(alarm)} == alarms.get(
        verdict, set()
    )


SMALL = replace(HOST, hostname="node2", usable_cpus=4)


def on(host: Host) -> list[SearchRecord]:
    """Two batch sizes; everything takes twice as long on the smaller machine."""
    times = 8 / host.usable_cpus
    return [
        search_result(
            trial(0, times * 256 / size), columns={"batch_size": size}, host=host
        )
        for size in (32, 64)
    ]


def test_of_unlike_machines_only_configurations_of_like_ones_are_paired_and_a_warning_names_them() -> (
    None
):
    both = summary_of_grid(*on(HOST), *on(SMALL))
    line = (
        "times of unlike machines cannot be compared: Example CPU, 8 CPUs, 69.0 GB; Example CPU, 4 CPUs, 69.0 GB "
        "(use one folder for each kind of machine)"
    )
    assert (both.varying, both.warnings) == (("dataset", "batch_size"), (line,))
    compared = compare(
        both, summary_of_grid(*on(replace(SMALL, hostname="node3"))), LIMIT
    )
    assert [pair.a.run.result.host for pair in compared.pairs] == [SMALL, SMALL]
    assert (len(compared.only_a), compared.only_b) == (2, ())
    assert f"warning: A: {line}" in command_text.of_comparison(compared)
    for form in ("table", "overrides"):
        assert line in formats.render(both, form).comments
    # each of one kind: all are paired
    unlike = compare(summary_of_grid(*on(HOST)), summary_of_grid(*on(SMALL)), LIMIT)
    assert [pair.change for pair in unlike.pairs] == [Change.SLOWER] * 2
    assert {difference.name for difference in unlike.hosts} == {
        "hostname",
        "usable_cpus",
    }


def test_like_machines_and_lost_jobs_have_no_warning() -> None:
    memory = replace(
        HOST, hostname="node2", memory_bytes=int(1.001 * HOST.memory_bytes)
    )
    # before any measurement: its machine is unknown
    lost = search_result(host=SMALL, error="the job was lost")
    assert summary_of_grid(*on(HOST), *on(memory), lost).warnings == ()
    cuda = search_result(trial(0, 8.0), facts=replace(FACTS, accelerator="cuda"))
    (line,) = summary_of_grid(*on(HOST), cuda).warnings
    assert "; Example CPU, 8 CPUs, 69.0 GB, cuda (use" in line


def test_the_text_has_a_row_for_each_configuration_and_a_line_for_the_rest() -> None:
    a, b = grid(b8=1.0, b16=1.0, b64=1.0), grid(b8=1.0, b16=2.0)
    b = replace(
        b, stored=replace(b.stored, unreadable=("x/result.json: cannot be read",))
    )
    lines = command_text.of_comparison(compare(a, b, LIMIT)).splitlines()
    assert lines[0] == "B against A: 1 same, 1 slower"
    assert (
        "A: sweeps/all, measured on node1, started at 2024-05-01T12:00:00+00:00"
        in lines
    )
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[5:7]]
    assert cells == [
        [
            "batch_size=8",
            "2",
            "batch",
            "1.00 s ±0.1 %",
            "1.00 s ±0.1 %",
            "1.00 (1.00 to 1.00)",
            "same",
        ],
        [
            "batch_size=16",
            "2",
            "batch",
            "1.00 s ±0.1 %",
            "2.00 s ±0.1 %",
            "2.00 (2.00 to 2.00)",
            "slower",
        ],
    ]
    assert lines[-2:] == [
        "only in A: batch_size=64",
        "warning: B: x/result.json: cannot be read",
    ]


def test_a_single_pair_is_answered_by_its_ratio() -> None:
    lines = command_text.of_comparison(
        compare(grid(b8=1.0), grid(b8=2.0), LIMIT)
    ).splitlines()
    assert lines[:2] == [
        "B is slower than A: it takes 2.00 times as long (2.00 to 2.00)",
        "why    to be slower or faster, the whole 95 % interval lies beyond 3 %; to be the same, within",
    ]


def test_the_command_compares_two_folders_and_sets_the_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (
        store_grid(
            tmp_path / name, found(1.0, {"batch_size": 8}), found(s, {"batch_size": 16})
        )
        for name, s in (("a", 1.0), ("b", 1.2))
    )
    compared = ["compare", str(a), str(b), "--fail-if", "slower"]
    assert cli.run(compared) == 1
    assert capsys.readouterr().out.startswith("B against A: 1 same, 1 slower\n")
    for condition in (["--within", "30"], ["--where", "batch_size=8"]):
        assert cli.run([*compared, *condition]) == 0, condition
    capsys.readouterr()
    run = store_run(tmp_path, found(1.0, {"batch_size": 32}))
    assert cli.run(["compare", str(a), str(run), "--where", "batch_size=8"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.partition(";")[0]) == (
        "",
        f"nws_sweep: {run}: --where batch_size=8: no such combination",
    )
