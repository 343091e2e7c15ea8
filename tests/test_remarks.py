"""What puts an answer into question, or helps to a better one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.records import Noise, ObjectStore, SearchRecord, Trial, TrialState, Verdict
from nws_sweep.remarks import about_leaner, leaner
from tests.factories import (
    FACTS,
    HOST,
    configuration,
    failed_trial,
    loader_settings,
    measurement,
    search_result,
    search_rules,
    summary_of_grid,
    summary_of_run,
    trial,
)

GB = 1_000_000_000
STORE = ObjectStore(attribute="samples", type="list of tuple", count=1_281_167, bytes=200_000_000)
HOLDING = replace(FACTS, handles=("dataset.file (FileIO of data.bin)",))
CLOCK = ("the clock was set back",)


def loading(num_workers: int, epoch_s: float, loading_s: float | None) -> Trial:
    return trial(num_workers, epoch_s, measurement=measurement(epoch_s, loading_s=loading_s))


def verdict(*tied: int, **changes: Any) -> Verdict:
    two = loader_settings(2)
    return Verdict(recommended=two, fastest=two, tied=tuple(loader_settings(n) for n in tied), **changes)


@pytest.mark.parametrize(
    ("result", "warnings"),
    [
        (search_result(trial(2, 2.0), trial(4, 8.0)), []),
        (
            search_result(trial(2, 8.0), trial(4, 2.0)),
            ["the best stands at the edge of what was tried (num_workers=4); a larger search.max_workers may "],
        ),
        (
            search_result(trial(4, 2.0), configuration=configuration(search=search_rules((4,)))),
            ["num_workers=4 was the only candidate; it was compared with no other"],
        ),
        (
            search_result(trial(0, 8.0), failed_trial(1, "no pickle"), failed_trial(2, "no room")),
            ["every candidate with workers failed; the first one: no pickle"],
        ),
        (search_result(trial(0, 8.0), failed_trial(1), trial(2, 9.0)), []),
        (
            search_result(trial(0, 8.0), trial(1, 9.0, finished=False), stop_reason=""),
            ["the search did not finish; 1 candidates were measured, 1 more were begun"],
        ),
        (search_result(error="no such folder: /data", stop_reason=""), []),
        (
            search_result(trial(2, 8.0), verdict=verdict(provisional=True)),
            ["the search was ended by its time budget; this is the best so far"],
        ),
        (
            search_result(trial(2, 8.0), trial(4, 8.0), verdict=verdict(8, 4, settle_s=40.0)),
            ["num_workers=4, 8 may be as good as 2 or better: about 40.0 s more of measuring would tell"],
        ),
        (
            search_result(
                trial(0, 8.0), trial(2, 4.0), failed_trial(4, "all differ", TrialState.WRONG_SAMPLES), facts=HOLDING
            ),
            ["num_workers=4 is no choice: all differ", "forked workers share dataset.file (FileIO of data.bin): open"],
        ),
        (search_result(trial(0, 4.0), trial(2, 8.0), facts=HOLDING), []),
        (
            search_result(loading(0, 8.0, 0.05), loading(2, 4.0, 0.02), loading(4, 5.0, 0.01)),
            ["loading alone would be fastest with num_workers=4 (10.0 ms a batch instead of 20.0 ms), but training "],
        ),
        (search_result(loading(2, 4.0, 0.02), loading(4, 4.05, 0.01)), []),
        (search_result(loading(2, 4.0, 0.02), loading(4, 5.0, 0.0199)), []),
        (search_result(loading(2, 4.0, 0.02), loading(4, 5.0, None)), []),
        (  # each warning of a trial once; not what num_workers=0 has no use for
            search_result(trial(0, 2.0, notes=("-",), warnings=CLOCK), trial(1, 3.0, warnings=(*CLOCK, "a full disk"))),
            [*CLOCK, "a full disk"],
        ),
        (
            search_result(trial(0, 2.0), trial(8, 1.0), trial(2, 1.5), facts=replace(FACTS, objects=(STORE,))),
            ["the dataset keeps 1,281,167 Python objects in samples (list of tuple, about 200 MB): each forked worker "
             "comes to hold its own copy as it reads them, up to 1.60 GB with 8"],
        ),
        (search_result(trial(0, 1.0), facts=replace(FACTS, objects=(STORE,))), []),
        (
            search_result(
                trial(0, 1.0), trial(2, 2.0, settings=loader_settings(2, multiprocessing_context="spawn")),
                facts=replace(FACTS, objects=(STORE,)),
            ),
            [],
        ),
    ],
)  # fmt: skip
def test_warnings_of_a_search_begin(result: SearchRecord, warnings: list[str]) -> None:
    found = summary_of_run(result).configurations[0].warnings
    assert [line[: len(start)] for line, start in zip(found, warnings, strict=True)] == warnings


@pytest.mark.parametrize(
    ("noise", "line"),
    [
        (Noise(other_cpus=1.25), "other programs used 1.2 CPUs while num_workers=1 was measured"),
        (Noise(steal=0.12), "the hypervisor took 12 % of the CPU time from num_workers=1"),
        (Noise(throttled=0.5), "num_workers=1 was throttled by its CPU quota 50 % of the time"),
        (Noise(outliers=(3, 5)), "windows far from the others, which count all the same: 2 of num_workers=1"),
        (Noise(other_cpus=0.1, steal=0.01, throttled=0.01), None),
    ],
)
def test_noise_is_warned_about_with_its_figure(noise: Noise, line: str | None) -> None:
    result = search_result(trial(0, 8.0), trial(1, 9.0, noise=noise))
    assert summary_of_run(result).configurations[0].warnings == ((line,) if line else ())


def pinned(accelerator: str | None) -> SearchRecord:
    setting = configuration(loader=loader_settings(pin_memory=True))
    return search_result(trial(0, 1.0), configuration=setting, facts=replace(FACTS, accelerator=accelerator))


@pytest.mark.parametrize(
    ("results", "warnings"),
    [
        (
            (pinned(None), pinned(None)),
            ("pin_memory=true has no effect here: there is no accelerator; it was measured all the same",),
        ),
        ((pinned("cuda"), search_result(trial(0, 1.0), facts=replace(FACTS, accelerator="cuda"))), ()),
        (
            (search_result(trial(0, 1.0)), search_result(trial(0, 1.0), host=replace(HOST, torch="2.5.0"))),
            ("the configurations were measured on hosts of one kind with different systems or versions; their times "
             "do not compare",),
        ),
        ((search_result(trial(0, 1.0), forced="other versions"),) * 2, ("other versions",)),
    ],
)  # fmt: skip
def test_what_concerns_all_configurations_is_told_once(
    results: tuple[SearchRecord, ...], warnings: tuple[str, ...]
) -> None:
    found = summary_of_grid(*results, unreadable=("a/result.json: cannot be read (gone)",))
    assert found.warnings == (*warnings, "a/result.json: cannot be read (gone)")
    assert [each.warnings for each in found.configurations] == [(), ()]


def holding(num_workers: int, epoch_s: float, memory_bytes: int | None) -> Trial:
    return trial(num_workers, epoch_s, measurement=measurement(epoch_s, memory_bytes=memory_bytes))


@pytest.mark.parametrize(
    ("memory_bytes", "others", "number"),
    [
        (4 * GB, [(0, 3.0, GB), (2, 1.06, GB), (4, 1.05, 2 * GB), (6, 1.01, 3 * GB)], 4),
        (4 * GB, [(6, 1.0, 3 * GB + 700_000_000)], None),  # a little less is not worth a word
        (4 * GB, [(16, 1.0, GB)], None),  # more workers are not leaner
        (4 * GB, [(4, 1.0, None)], None),
        (None, [(4, 1.0, GB)], None),
    ],
)
def test_the_leaner_candidate_is_nearly_as_fast_with_far_less_memory(
    memory_bytes: int | None, others: list[tuple[int, float, int | None]], number: int | None
) -> None:
    best = holding(8, 1.0, memory_bytes)
    found = leaner(search_result(*(holding(*other) for other in others), best), best)
    assert (found.num_workers if found else None) == number


def test_a_leaner_candidate_is_named_with_what_it_saves_and_loses() -> None:
    best = replace(holding(4, 1.0, 2 * GB), settings=loader_settings(4, prefetch_factor=8))
    lean = replace(holding(4, 1.05, GB), settings=loader_settings(4, prefetch_factor=2))
    assert about_leaner(best, lean) == (
        "num_workers=4 prefetch_factor=2 has 95 % of the speed with 1.00 GB less memory (1.00 GB instead of 2.00 GB)"
    )
    assert about_leaner(best, holding(0, 1.0, GB)).startswith("num_workers=0 has 100 % ")
