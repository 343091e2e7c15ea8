from typing import Any

import pytest
from omegaconf import OmegaConf

from nws_sweep.config.project_keys import keys_of
from nws_sweep.records import ProjectFacts

TRAIN_AND_VAL = ("data.num_workers.train", "data.num_workers.val")


@pytest.mark.parametrize(
    ("data", "keys", "of_all"),
    [
        ({"num_workers": {"train": 4, "val": 2}}, "data.num_workers.train", TRAIN_AND_VAL),
        ({"num_workers": {"fit": 4, "validation": 2}}, "data.num_workers.fit",
            ("data.num_workers.fit", "data.num_workers.validation")),
        ({"num_workers": "${both}"}, "data.num_workers.train", TRAIN_AND_VAL),
        ({"num_workers": [4, 2]}, None, None),
        ({"num_workers": 4}, "data.num_workers", "data.num_workers"),
        ({"val_loader": {"num_workers": 1}, "train_loader": {"num_workers": 2}}, "data.train_loader.num_workers",
            ("data.val_loader.num_workers", "data.train_loader.num_workers")),
        ({"a": {"num_workers": 1}, "b": {"num_workers": 2}}, *2 * [("data.a.num_workers", "data.b.num_workers")]),
    ],
)  # fmt: skip
def test_keys_are_those_of_training_or_of_all_splits(
    data: dict[str, Any],
    keys: str | tuple[str, ...] | None,
    of_all: str | tuple[str, ...] | None,
) -> None:
    config = OmegaConf.create({"data": data, "both": {"train": 1, "val": 2}})
    for is_training, expected in ((True, keys), (False, of_all)):
        found = keys_of(config, is_training=is_training)
        assert (
            found.keys.get("num_workers", found.unclear.get("num_workers")) == expected
        )


def test_the_outermost_key_counts_and_no_node_counts_twice() -> None:
    inner = {"num_workers": 1, "batch_size": 9, "sizes": [1, 2]}
    data = {"root": "${root}", "batch_size": 8, "other": "${elsewhere}", "inner": inner}
    config = OmegaConf.create(
        {"root": "/data", "data": data, "elsewhere": {"pin_memory": True}}
    )
    keys = {
        "batch_size": "data.batch_size", "num_workers": "data.inner.num_workers", "pin_memory": "elsewhere.pin_memory",
    }  # fmt: skip
    assert keys_of(config) == ProjectFacts(keys=keys)
