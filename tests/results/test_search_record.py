from dataclasses import replace
from typing import Any

import pytest

from tests.factories import FACTS, HOST, configuration, loader_settings, search_result


@pytest.mark.parametrize(("usable_cores", "ranks", "cpus"), [(None, 1, 8), (None, 2, 4), (0.5, 1, 0.5), (1.5, 2, 0.75)])
def test_the_cpus_of_a_loader_are_the_usable_ones_with_their_fraction(
    usable_cores: float | None, ranks: int, cpus: float
) -> None:
    host = replace(HOST, usable_cores=usable_cores)
    assert search_result(host=host, configuration=configuration(ranks=ranks)).cpus == cpus


@pytest.mark.parametrize(
    ("changes", "samples"), [({}, 4097), ({"drop_last": True}, 4096), ({"batch_size": None}, None)]
)
def test_two_ranks_divide_the_samples_of_an_epoch(changes: dict[str, Any], samples: int | None) -> None:
    facts, settings = replace(FACTS, samples=8193), loader_settings(**changes)
    assert facts.samples_of(settings, 2) == samples
    assert replace(facts, iterable=True).samples_of(settings, 2) == facts.samples_of(settings, 1)
