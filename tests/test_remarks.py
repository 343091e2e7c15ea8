from __future__ import annotations

from dataclasses import replace

from nws_sweep.records import ObjectStore, Trial
from nws_sweep.remarks import about_leaner, leaner, on
from tests.factories import FACTS, loader_settings, measurement, search_result, trial

GB = 1_000_000_000


def holding(num_workers: int, epoch_s: float, memory_bytes: int | None) -> Trial:
    return trial(num_workers, epoch_s, measurement=measurement(epoch_s, memory_bytes=memory_bytes))


def test_the_leaner_candidate_is_nearly_as_fast_with_far_less_memory() -> None:
    best = holding(8, 1.0, 4 * GB)
    others = holding(0, 3.0, GB), holding(2, 1.06, GB), holding(4, 1.05, 2 * GB), holding(6, 1.01, 3 * GB)
    found = leaner(search_result(*others, best), best)
    assert found is not None
    assert found.num_workers == 4
    assert about_leaner(best, found) == (
        "num_workers=4 has 95 % of the speed with 2.00 GB less memory (2.00 GB instead of 4.00 GB)"
    )


def test_a_little_less_memory_is_not_worth_a_word() -> None:
    best = holding(8, 1.0, 4 * GB)
    assert leaner(search_result(holding(6, 1.0, 3 * GB + 700_000_000), best), best) is None


def test_more_workers_are_not_leaner() -> None:
    best = holding(8, 1.0, 4 * GB)
    assert leaner(search_result(best, holding(16, 1.0, GB)), best) is None


def test_another_setting_of_the_same_workers_is_named() -> None:
    best = replace(holding(4, 1.0, 2 * GB), settings=loader_settings(4, prefetch_factor=8))
    lean = replace(holding(4, 1.0, GB), settings=loader_settings(4, prefetch_factor=2))
    assert about_leaner(best, lean).startswith(
        "num_workers=4 prefetch_factor=2 has 100 % of the speed with 1.00 GB less"
    )
    alone = replace(holding(0, 1.0, GB), settings=loader_settings(0))
    assert about_leaner(best, alone).startswith("num_workers=0 has 100 % ")


def test_where_memory_is_unknown_nothing_is_said() -> None:
    best = holding(8, 1.0, None)
    assert leaner(search_result(holding(4, 1.0, GB), best), best) is None
    assert leaner(search_result(holding(4, 1.0, None), holding(8, 1.0, GB)), holding(8, 1.0, GB)) is None
    assert leaner(search_result(), None) is None


STORE = ObjectStore(attribute="samples", type="list of tuple", count=1_281_167, bytes=200_000_000)


def test_what_workers_come_to_copy_is_named_with_the_remedy() -> None:
    result = search_result(trial(0, 2.0), trial(8, 1.0), trial(2, 1.5), facts=replace(FACTS, objects=(STORE,)))
    assert list(on(result, trial(2, 1.5))) == [
        "the dataset keeps 1,281,167 Python objects in samples (list of tuple, about 200 MB): each forked worker comes "
        "to hold its own copy as it reads them, up to 1.60 GB with 8; NumPy arrays of fixed-width strings or numbers, "
        "or pyarrow, are shared"
    ]


def test_without_forked_workers_nothing_is_copied() -> None:
    facts = replace(FACTS, objects=(STORE,))
    spawned = trial(2, 1.0, settings=loader_settings(2, multiprocessing_context="spawn"))
    for trials in ((trial(0, 1.0),), (trial(0, 1.0), spawned)):
        assert not [line for line in on(search_result(*trials, facts=facts), trials[0]) if "objects" in line]
