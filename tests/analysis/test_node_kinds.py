from dataclasses import replace

import pytest

from nws_sweep.analysis import comparing, node_kinds
from nws_sweep.cli import select
from nws_sweep.results import SearchRecord
from tests.factories import FACTS, HOST, search_result, summary_of_grid, trial

SMALL = replace(HOST, hostname="node2", usable_cpus=4)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"usable_cpus": 1}, "Example_1-CPU_64-GiB"),
        ({"cpu_model": "Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz"}, "Xeon-E5-2690-v4_8-CPUs_64-GiB"),
        ({"cpu_model": "AMD EPYC 7763 64-Core Processor"}, "EPYC-7763_8-CPUs_64-GiB"),
        ({"cpu_model": ""}, "8-CPUs_64-GiB"),
        ({"memory_bytes": int(251.6 * 2**30)}, "Example_8-CPUs_250-GiB"),
        ({"memory_bytes": 2**29}, "Example_8-CPUs"),
    ],
)
def test_a_kind_has_a_short_name(changes: dict[str, object], name: str) -> None:
    assert node_kinds.kind(search_result(trial(0, 8.0), host=replace(HOST, **changes))) == name  # type: ignore[arg-type]
    with_one = search_result(trial(0, 8.0), facts=replace(FACTS, accelerator="cuda"))
    assert node_kinds.kind(with_one) == "Example_8-CPUs_64-GiB_cuda"


def test_nothing_changes_where_all_are_of_one_kind() -> None:
    twin = search_result(trial(0, 8.0), host=replace(HOST, hostname="node2"))
    results = [search_result(trial(0, 8.0)), twin]
    found = summary_of_grid(*results)
    assert (found.varying, found.warnings) == (("dataset",), ())
    lost = search_result(host=SMALL, error="the job was lost")  # before any measurement: no kind
    assert summary_of_grid(results[0], lost).varying == ("dataset",)
    own = search_result(trial(0, 8.0), columns={"node": 7})  # a user's column has this name
    small = search_result(trial(0, 8.0), host=SMALL)
    assert summary_of_grid(own, small).stored.runs[0].result == own


def on_two_kinds() -> list[SearchRecord]:
    """Two batch sizes on two kinds of nodes; everything takes twice as long on the smaller one."""
    return [
        search_result(trial(0, factor * epoch_s), columns={"batch_size": size}, host=host)
        for host, factor in ((HOST, 1.0), (SMALL, 2.0))
        for size, epoch_s in ((32, 8.0), (64, 4.0))
    ]


def test_the_kind_is_an_axis_others_are_compared_within_one_and_one_can_be_picked() -> None:
    found = summary_of_grid(*on_two_kinds())
    assert (found.varying, found.warnings) == (("dataset", "batch_size", "node"), ())
    compared = comparing.compare(found, summary_of_grid(*on_two_kinds()[2:]), 0.05)  # with a grid on one of them
    assert (len(compared.pairs), len(compared.only_a), compared.only_b) == (2, 2, ())
    picked = select(found.stored, ["node=Example_4-CPUs_64-GiB", "batch_size=64"])
    assert [run.result.host for run in picked.runs] == [SMALL]
