"""Objects of which a configuration has recipes."""

from typing import Any

import pytest

from nws_sweep.errors import ConfigurationError, DatasetError
from nws_sweep.trials import recipes

SLEEP = "nws_sweep.dataloading.training_steps.Sleep"


@pytest.mark.parametrize(
    ("recipe", "needs_hydra"),
    [
        ({"_target_": SLEEP, "seconds_per_batch": 0.5}, False),
        ({"_target_": SLEEP, "_partial_": True}, True),
        (
            {
                "_target_": "nws_sweep.datasets.remote.Remote",
                "decode": {"_target_": "builtins.len"},
            },
            True,
        ),
        ({"_target_": "builtins.dict", "size": 3}, True),
    ],
)
def test_recipes_of_this_package_with_plain_arguments_need_no_hydra(
    recipe: dict[str, Any], needs_hydra: bool
) -> None:
    assert recipes.needs_hydra(recipe) is needs_hydra


def test_an_object_is_made_by_its_target() -> None:
    step = recipes.make(
        "training_step",
        {"_target_": SLEEP, "seconds_per_batch": 0.5},
        ConfigurationError,
    )
    assert type(step).__name__ == "Sleep"
    assert recipes.make(
        "dataset", {"_target_": "builtins.dict", "size": 3}, DatasetError
    ) == {"size": 3}
    assert recipes.make("collate_fn", None, ConfigurationError) is None


@pytest.mark.parametrize("recipe", [{"_target_": "math.sqrt"}, {"_target_": SLEEP}])
def test_an_exception_of_the_target_is_named_with_the_target(
    recipe: dict[str, Any],
) -> None:
    with pytest.raises(
        DatasetError, match=rf"^dataset {recipe['_target_']}: TypeError: "
    ):
        recipes.make("dataset", recipe, DatasetError)
