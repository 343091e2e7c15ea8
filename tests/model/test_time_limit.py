import math
from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.model import time_limit
from nws_sweep.records import MeasureRules
from tests.factories import configuration, search_rules


@pytest.mark.parametrize(
    ("rules", "mode", "limit_s"),
    [
        ({}, "steady", 60.0), ({"settings": ("pin_memory",)}, "steady", 90.0), ({"time_limit_s": 5.0}, "epoch", 5.0),
        ({"settings": None}, "steady", 60.0), ({}, "epoch", math.inf), ({"strategy": "patience"}, "steady", math.inf),
    ],
)  # fmt: skip
def test_the_default_limit(rules: dict[str, Any], mode: str, limit_s: float) -> None:
    searched = configuration(
        search=replace(search_rules((0, 1)), **{"strategy": "adaptive", **rules}),
        measure=MeasureRules(mode=mode),
    )
    assert time_limit.limit_s(searched) == limit_s
