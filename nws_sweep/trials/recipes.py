"""Makes the objects of which a configuration has recipes: dataset, training step and
collate_fn.

Recipes of this package with plain arguments, such as the file of a pickle, are made
without Hydra, so that the trial processes of a program without Hydra do not import it.
"""

import os
import pkgutil
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nws_sweep.errors import ConfigurationError, NwsSweepError
from nws_sweep.records import Recipe
from nws_sweep.trials.failures import describe

_OF_PACKAGE = f"{__name__.partition('.')[0]}."
_PLAIN = (str, int, float, bool, type(None))
_IS_FUNCTION = "; a function needs ++{}._partial_=true"


def needs_hydra(recipe: Recipe) -> bool:
    """Tells whether Hydra makes the object: its target is not of this package, or its
    arguments are not plain."""
    for name, value in recipe.items():
        if name != "_target_" and (
            name.startswith("_") or not isinstance(value, _PLAIN)
        ):
            return True
    return not str(recipe.get("_target_")).startswith(_OF_PACKAGE)


def make(key: str, recipe: Recipe | None, error_type: type[NwsSweepError]) -> Any:
    """Makes the object of the configuration's recipe at ``key``; returns None for None.

    Raises:
        NwsSweepError: Of ``error_type`` if the target raises another exception.
    """
    if recipe is None:
        return None
    try:
        return _made(recipe)
    except NwsSweepError:
        raise
    except Exception as error:
        traceback.print_exc()
        remedy = _folder_of_files(recipe)
        if key != "dataset" and re.search("missing .* argument", str(error)):
            remedy = _IS_FUNCTION.format(key)
        raise error_type(
            f"{key} {recipe.get('_target_')}: {describe(error)}{remedy}"
        ) from error


def _made(recipe: Recipe) -> Any:
    """Calls the target; an exception is the target's own, not what Hydra 1.3 raises
    from it."""
    if not needs_hydra(recipe):
        arguments = {
            name: value for name, value in recipe.items() if name != "_target_"
        }
        return pkgutil.resolve_name(recipe["_target_"])(**arguments)
    from hydra.errors import HydraException

    from nws_sweep.config.hydra_versions import instantiate

    try:
        return instantiate(dict(recipe), _convert_="all")
    except HydraException as error:
        raise error.__cause__ or error from None


def make_training_step(recipe: Recipe) -> Any:
    """Makes the training step; ConfigurationError if it cannot be called."""
    training_step = make("training_step", recipe, ConfigurationError)
    if not callable(training_step):
        reason = (
            f"got {type(training_step).__name__}, which cannot be called with a batch"
        )
        remedy = _IS_FUNCTION.format("training_step")
        raise ConfigurationError(
            f"training_step {recipe.get('_target_')}: {reason}{remedy}"
        )
    return training_step


def _folder_of_files(recipe: Recipe) -> str:
    """Says where a dataset of torchvision reads its files, which its errors do not
    name; empty for other datasets."""
    module, _, name = str(recipe.get("_target_")).rpartition(".")
    if module.startswith("torchvision.datasets") and "root" in recipe:
        root = Path(os.path.expanduser(recipe["root"]))  # noqa: PTH111 - as torchvision, which keeps an unknown ~user
        if name.endswith("MNIST"):
            root = root / name / "raw"
        return f"; put its files into {root.absolute()}"
    for value in recipe.values():
        if isinstance(value, Mapping) and (remedy := _folder_of_files(value)):
            return remedy
    return ""
