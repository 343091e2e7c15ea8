from dataclasses import replace

import pytest

from nws_sweep.results import DatasetFacts
from tests.factories import FACTS, HOST, configuration, measurement, search_result, trial


@pytest.mark.parametrize(("usable_cores", "ranks", "cpus"), [(None, 1, 8), (None, 2, 4), (0.5, 1, 0.5), (1.5, 2, 0.75)])
def test_the_cpus_of_a_loader_are_the_usable_ones_with_their_fraction(
    usable_cores: float | None, ranks: int, cpus: float
) -> None:
    host = replace(HOST, usable_cores=usable_cores)
    assert search_result(host=host, configuration=configuration(ranks=ranks)).cpus == cpus


@pytest.mark.parametrize(
    ("batches", "epoch_s", "facts", "expected"),
    [
        (100, 8.0, replace(FACTS, samples=None), 100),  # a batch_sampler, or a stream whose end was seen
        (100, 8.0, None, 100),
        (128, 8.0, FACTS, 128),  # a sampler of the user, which does not divide the samples among the ranks
        (None, 8.0, FACTS, 64),  # of an earlier version
        (None, 8.0, None, None),
        (None, None, FACTS, None),  # the length was found wrong
    ],
)
def test_an_epoch_has_the_batches_that_the_loader_of_the_trial_had(
    batches: int | None, epoch_s: float | None, facts: DatasetFacts | None, expected: int | None
) -> None:
    """128 batches of 64 samples, shared by two ranks."""
    found = trial(2, 8.0, batches=batches, measurement=measurement(8.0, epoch_s=epoch_s))
    assert search_result(found, facts=facts, configuration=configuration(ranks=2)).batches_of(found) == expected
