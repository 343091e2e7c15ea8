from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nws_sweep.records import BatchCost, SearchRecord, Verdict
from nws_sweep.records.result_cache import FRESH_FOR, ResultStore, staleness
from tests.factories import failed_trial, recorded_trial, search_result, trial


def record() -> SearchRecord:
    found = search_result(
        trial(0, 4.0), recorded_trial(2, BatchCost(cpu_s=0.25, wait_s=0.5))
    )
    best = found.trials[1].settings
    verdict = Verdict(recommended=best, fastest=best)
    now = datetime.now().astimezone().isoformat()
    return replace(found, stop_reason="done", verdict=verdict, started_at=now)


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(str(tmp_path))


def test_a_result_is_found_for_an_equal_configuration_with_other_identifying_columns(
    store: ResultStore,
) -> None:
    kept = record()
    store.add(kept, "/one")
    renamed = replace(kept.configuration, columns={"dataset": "another name"})
    found = store.find(renamed, kept.host, "fresh", "/one")
    assert found is not None
    assert (found.verdict, found.configuration) == (kept.verdict, renamed)
    assert [(t.num_workers, len(t.records)) for t in found.trials] == [(0, 0), (2, 20)]
    assert store.find(kept.configuration, kept.host, "never", "/one") is None
    assert (
        store.find(replace(kept.configuration, seed=7), kept.host, "fresh", "/one")
        is None
    )
    # base of relative paths
    assert store.find(kept.configuration, kept.host, "fresh", "/other") is None


OLD = (datetime.now().astimezone() - FRESH_FOR - timedelta(days=2)).isoformat()
AHEAD = (datetime.now().astimezone() + FRESH_FOR + timedelta(days=2)).isoformat()


@pytest.mark.parametrize(
    ("host", "kept", "why"),
    [
        ({"torch": "0.0"}, {}, "measured with torch 2.4.0, this is 0.0"),
        ({}, {"started_at": OLD}, "measured 32 days ago"),
        ({}, {"started_at": AHEAD}, "measured 32 days ahead"),  # the clock was wrong
        ({"hostname": "other"}, {}, None),  # another machine: no result
        ({}, {"verdict": None}, None),  # an incomplete search is not stored
        ({}, {"error": "broken"}, None),
    ],
)
def test_old_results_are_stale(
    store: ResultStore, host: dict[str, Any], kept: dict[str, Any], why: str | None
) -> None:
    stored = replace(record(), **kept)
    store.add(stored)
    now = replace(stored.host, **host)
    assert store.find(stored.configuration, now, "fresh") is None
    found = store.find(stored.configuration, now, "always")
    assert (staleness(stored, now) if found else None) == why


def test_an_interrupted_search_is_stored_once_a_candidate_has_a_time(
    store: ResultStore,
) -> None:
    answer = record()
    interrupted = replace(
        answer, verdict=None, stop_reason="", trials=answer.trials[:1]
    )
    store.add(answer)
    store.add(
        replace(
            interrupted,
            trials=(replace(answer.trials[0], finished=False), failed_trial(2)),
        )
    )
    stored = store.find(answer.configuration, answer.host, "fresh")
    assert stored is not None
    assert stored.is_final
    store.add(interrupted)
    stored = store.find(answer.configuration, answer.host, "fresh")
    assert stored is not None
    assert not stored.is_final
    assert [kept.num_workers for kept in stored.results] == [0]


def test_unreadable_results_and_an_unwritable_folder_are_ignored(
    store: ResultStore, tmp_path: Path
) -> None:
    kept = record()
    store.add(kept)
    (file,) = (tmp_path / "results").glob("*.json")
    file.write_text("{")
    assert store.find(kept.configuration, kept.host, "always") is None
    elsewhere = ResultStore(str(file))  # a folder that cannot be made
    elsewhere.add(kept)
    assert elsewhere.find(kept.configuration, kept.host, "always") is None
