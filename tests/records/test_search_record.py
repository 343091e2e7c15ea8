from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.records import SearchRecord, Status, TrialState, Verdict
from tests.factories import (
    FACTS,
    HOST,
    configuration,
    failed_trial,
    loader_settings,
    search_result,
    search_rules,
    trial,
)


@pytest.mark.parametrize(
    ("usable_cores", "ranks", "cpus"),
    [(None, 1, 8), (None, 2, 4), (0.5, 1, 0.5), (1.5, 2, 0.75)],
)
def test_the_cpus_of_a_loader_are_the_usable_ones_with_their_fraction(
    usable_cores: float | None, ranks: int, cpus: float
) -> None:
    host = replace(HOST, usable_cores=usable_cores)
    assert (
        search_result(host=host, configuration=configuration(ranks=ranks)).cpus == cpus
    )


@pytest.mark.parametrize(
    ("changes", "samples"),
    [({}, 4097), ({"drop_last": True}, 4096), ({"batch_size": None}, None)],
)
def test_two_ranks_divide_the_samples_of_an_epoch(
    changes: dict[str, Any], samples: int | None
) -> None:
    facts, settings = replace(FACTS, samples=8193), loader_settings(**changes)
    assert facts.samples_of(settings, 2) == samples
    assert replace(facts, iterable=True).samples_of(settings, 2) == facts.samples_of(
        settings, 1
    )


BEST = loader_settings(2)
ENDED = Verdict(recommended=BEST, fastest=BEST, provisional=True)
INTERRUPTED = failed_trial(4, "killed", TrialState.INTERRUPTED)
OF_FOUR = configuration(loader=loader_settings(4), search=search_rules((0, 1, 2, 4)))
ONLY_0 = configuration(search=search_rules((0,)))
ONLINE = configuration(search=search_rules(strategy="online"))


@pytest.mark.parametrize(
    ("record", "status"),
    [
        (search_result(trial(0, 8.0), trial(2, 4.0)), Status.MEASURED),
        (search_result(trial(0, 8.0)), Status.MEASURED),  # by its rule
        (
            search_result(trial(0, 8.0), trial(2, 4.0), verdict=ENDED),
            Status.PROVISIONAL,
        ),
        (
            search_result(trial(0, 8.0), trial(2, 4.0), stop_reason=""),
            Status.PROVISIONAL,
        ),
        (
            search_result(trial(0, 8.0), trial(2, 4.0), error="no space"),
            Status.PROVISIONAL,
        ),
        (search_result(trial(0, 8.0), trial(2, 4.0), INTERRUPTED), Status.PROVISIONAL),
        (search_result(trial(0, 8.0), failed_trial(4)), Status.MEASURED),
        (search_result(trial(0, 8.0), verdict=ENDED), Status.UNDECIDED),
        (search_result(trial(0, 8.0), INTERRUPTED), Status.UNDECIDED),
        (
            search_result(
                trial(0, 8.0), trial(4, 4.0), verdict=ENDED, configuration=OF_FOUR
            ),
            Status.UNDECIDED,
        ),
        (
            search_result(
                trial(0, 8.0), trial(1, 4.0), verdict=ENDED, configuration=OF_FOUR
            ),
            Status.PROVISIONAL,
        ),
        # there are no others
        (
            search_result(trial(0, 8.0), verdict=ENDED, configuration=ONLY_0),
            Status.PROVISIONAL,
        ),
        (
            search_result(trial(0, 8.0), verdict=ENDED, configuration=ONLINE),
            Status.PROVISIONAL,
        ),
        (search_result(failed_trial(0)), None),
    ],
)
def test_how_an_answer_was_found(record: SearchRecord, status: Status | None) -> None:
    assert record.status is status
    assert record.is_final is (status in (None, Status.MEASURED))


def test_a_search_that_goes_on_does_not_measure_results_again() -> None:
    kept = trial(0, 8.0), failed_trial(1)
    skipped = failed_trial(8, "it needs 9.00 GB of memory", TrialState.SKIPPED)
    record = search_result(*kept, INTERRUPTED, skipped, trial(2, 4.0, finished=False))
    assert record.results == kept
