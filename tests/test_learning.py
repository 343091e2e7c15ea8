from __future__ import annotations

from dataclasses import replace

from nws_sweep.learning import first_guess, same_search, same_trials
from nws_sweep.records import Configuration, SearchRecord, TrialState, Verdict
from tests import factories


def configuration(prefetch_factor: int = 2, batch_size: int = 64, **changes: object) -> Configuration:
    loader = factories.loader_settings(prefetch_factor=prefetch_factor, batch_size=batch_size)
    columns = {"prefetch_factor": prefetch_factor, "batch_size": batch_size}
    return factories.configuration(columns, loader=loader, **changes)


def found(chosen: Configuration, best: int = 4, workers: tuple[int, ...] = (0, 4)) -> SearchRecord:
    """A search of that configuration that ended."""
    trials = [factories.trial(n, 8.0, settings=replace(chosen.loader, num_workers=n).canonical()) for n in workers]
    settings = replace(chosen.loader, num_workers=best).canonical()
    return factories.search_result(
        *trials, configuration=chosen, verdict=Verdict(recommended=settings, fastest=settings)
    )


def test_the_guess_is_the_best_of_the_most_similar_configuration_of_the_same_dataset() -> None:
    earlier = [
        found(configuration(batch_size=32, prefetch_factor=4), best=3),
        found(configuration(batch_size=64, prefetch_factor=4), best=5),
        found(configuration(dataset={"_target_": "other.Data"}), best=9),
    ]
    assert first_guess(configuration(batch_size=64, prefetch_factor=2), earlier) == 5


def test_another_dataset_or_consumer_teaches_nothing() -> None:
    earlier = [found(configuration())]
    assert first_guess(configuration(dataset={"_target_": "other.Data"}), earlier) is None
    assert first_guess(configuration(consumer={"_target_": "other.Step"}), earlier) is None
    assert first_guess(configuration(), []) is None


def test_num_workers_0_is_the_same_under_every_prefetch_factor() -> None:
    known = same_trials(configuration(prefetch_factor=4), [found(configuration(prefetch_factor=2))])
    assert [trial.num_workers for trial in known] == [0]
    assert "measured once, as" in known[0].notes[-1]
    assert "prefetch_factor=2" in known[0].notes[-1]


def test_all_trials_of_the_same_settings_are_known_whatever_the_search() -> None:
    other_search = configuration(search=factories.search_rules(strategy="patience"))
    known = same_trials(other_search, [found(configuration()), found(configuration())])
    assert [trial.num_workers for trial in known] == [0, 4]


def test_nothing_is_taken_over_from_another_dataset_batch_size_or_precision() -> None:
    earlier = [found(configuration())]
    assert same_trials(configuration(dataset={"_target_": "other.Data"}), earlier) == ()
    assert same_trials(configuration(batch_size=32), earlier) == ()
    assert same_trials(configuration(measure=replace(configuration().measure, precision=0.01)), earlier) == ()
    assert same_trials(configuration(seed=1), earlier) == ()


def test_what_failed_or_is_no_candidate_is_not_taken_over() -> None:
    result = found(configuration())
    failed = replace(result.trials[0], state=TrialState.FAILED)
    unfinished = replace(result.trials[1], finished=False)
    assert same_trials(configuration(), [replace(result, trials=(failed, unfinished))]) == ()
    few = configuration(search=factories.search_rules((0, 1)))
    assert [trial.num_workers for trial in same_trials(few, [result])] == [0]


def test_the_same_search_under_another_name_is_found_if_it_came_to_its_end() -> None:
    result = found(configuration())
    twin = replace(configuration(), columns={"name": "twin"})
    assert same_search(twin, [result]) is result
    assert same_search(twin, [replace(result, stop_reason="")]) is None
    assert same_search(configuration(batch_size=32), [result]) is None
