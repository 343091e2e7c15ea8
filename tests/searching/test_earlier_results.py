from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.records import Configuration, SearchRecord, TrialState, Verdict
from nws_sweep.searching.earlier_results import (
    continued,
    first_guess,
    measured_once,
    same_trials,
)
from tests import factories


def configuration(
    prefetch_factor: int = 2, batch_size: int = 64, **changes: Any
) -> Configuration:
    loader = factories.loader_settings(
        prefetch_factor=prefetch_factor, batch_size=batch_size
    )
    columns = {"prefetch_factor": prefetch_factor, "batch_size": batch_size}
    return factories.configuration(columns, loader=loader, **changes)


def found(
    chosen: Configuration, best: int = 4, workers: tuple[int, ...] = (0, 4)
) -> SearchRecord:
    trials = [
        factories.trial(
            n, 8.0, settings=replace(chosen.loader, num_workers=n).canonical()
        )
        for n in workers
    ]
    settings = replace(chosen.loader, num_workers=best).canonical()
    return factories.search_result(
        *trials,
        configuration=chosen,
        verdict=Verdict(recommended=settings, fastest=settings),
    )


def test_the_guess_is_the_best_of_the_most_similar_configuration_of_the_same_dataset_and_training_step() -> (
    None
):
    earlier = [
        found(configuration(batch_size=32, prefetch_factor=4), best=3),
        found(configuration(batch_size=64, prefetch_factor=4), best=5),
        found(configuration(dataset={"_target_": "other.Data"}), best=9),
        found(configuration(training_step={"_target_": "other.Step"}), best=9),
    ]
    assert first_guess(configuration(), earlier[2:]) is None
    assert first_guess(configuration(batch_size=64, prefetch_factor=2), earlier) == 5


def test_num_workers_0_is_equal_under_every_prefetch_factor() -> None:
    (known,) = same_trials(
        configuration(prefetch_factor=4), [found(configuration(prefetch_factor=2))]
    )
    assert known.num_workers == 0
    assert "measured once, as" in known.notes[-1]
    assert "prefetch_factor=2" in known.notes[-1]


RESULT = found(configuration())
FAILED = replace(RESULT.trials[0], state=TrialState.FAILED)


@pytest.mark.parametrize(
    ("changes", "earlier", "known"),
    [
        (
            {"search": factories.search_rules(strategy="patience")},
            [RESULT, RESULT],
            [0, 4],
        ),
        ({"search": factories.search_rules((0, 1))}, [RESULT], [0]),
        (
            {},
            [
                replace(
                    RESULT, trials=(FAILED, replace(RESULT.trials[1], finished=False))
                )
            ],
            [],
        ),
        ({"dataset": {"_target_": "other.Data"}}, [RESULT], []),
        (
            {"measure": replace(RESULT.configuration.measure, precision=0.01)},
            [RESULT],
            [],
        ),
        ({"seed": 1}, [RESULT], []),
    ],
)
def test_trials_of_equal_settings_apply_under_other_search_rules(
    changes: dict[str, Any], earlier: list[SearchRecord], known: list[int]
) -> None:
    assert [
        trial.num_workers for trial in same_trials(configuration(**changes), earlier)
    ] == known


@pytest.mark.parametrize("accelerator", [None, "cuda"])
def test_an_equal_search_is_measured_once_with_pinned_memory_where_it_changes_nothing(
    accelerator: str | None,
) -> None:
    assert RESULT.facts is not None
    known = replace(RESULT, facts=replace(RESULT.facts, accelerator=accelerator))
    twin = replace(RESULT.configuration, columns={"name": "twin"})
    pinned = replace(twin, loader=replace(twin.loader, pin_memory=True))
    assert (same := measured_once(twin, [known]))
    assert (same.configuration, same.trials, same.cost_s) == (twin, known.trials, 0.0)
    assert measured_once(twin, [replace(known, stop_reason="")]) is None
    assert known.verdict is not None
    assert (
        measured_once(
            twin, [replace(known, verdict=replace(known.verdict, provisional=True))]
        )
        is None
    )
    assert measured_once(configuration(batch_size=32), [known]) is None
    if accelerator:
        assert measured_once(pinned, [known]) is None
        return
    assert (same := measured_once(pinned, [known]))
    assert same.verdict
    assert (
        {one.settings.pin_memory for one in same.trials}
        == {same.verdict.recommended.pin_memory}
        == {True}
    )
    assert same.stop_reason.endswith(
        "(measured once, as dataset=photos batch_size=64 pin_memory=false prefetch_factor=2 patience=3)"
    )


def test_a_search_goes_on_with_the_results_of_the_search_that_was_ended() -> None:
    killed = replace(RESULT.trials[1], state=TrialState.INTERRUPTED, measurement=None)
    earlier = replace(RESULT, trials=(RESULT.trials[0], killed), cost_s=60.0)
    start = replace(
        RESULT,
        trials=(),
        cost_s=0.0,
        stop_reason="",
        verdict=None,
        facts=None,
        started_at="now",
    )
    further = continued(start, earlier)
    assert further == replace(
        earlier, trials=RESULT.trials[:1], stop_reason="", verdict=None
    )
    with_one_more = continued(replace(start, trials=(RESULT.trials[1],)), earlier)
    assert {trial.num_workers for trial in with_one_more.trials} == {0, 4}
