"""Makes the objects that a configuration names by ``_target_``: dataset, training step and collate_fn."""

import os
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.errors import HydraException

from nws_sweep.config.hydra_versions import instantiate
from nws_sweep.errors import ConfigurationError, NwsSweepError
from nws_sweep.executor.failures import describe

_IS_FUNCTION = "; a function needs ++{}._partial_=true"


def make(key: str, node: Mapping[str, Any] | None, error_type: type[NwsSweepError]) -> Any:
    """Makes the object of the configuration's node at ``key``; returns None for None.

    Raises:
        NwsSweepError: Of ``error_type`` if the target raises another exception.
    """
    if node is None:
        return None
    try:
        return instantiate(dict(node), _convert_="all")
    except Exception as error:  # Hydra 1.4 raises the exception of the target itself
        cause: BaseException = error
        if isinstance(error, HydraException) and error.__cause__ is not None:
            cause = error.__cause__
        if isinstance(cause, NwsSweepError):
            raise cause from None
        traceback.print_exc()
        remedy = _folder_of_files(node)
        if key != "dataset" and re.search("missing .* argument", str(cause)):
            remedy = _IS_FUNCTION.format(key)
        raise error_type(f"{key} {node.get('_target_')}: {describe(cause)}{remedy}") from error


def make_training_step(node: Mapping[str, Any]) -> Any:
    """Makes the training step; ConfigurationError if it cannot be called."""
    training_step = make("training_step", node, ConfigurationError)
    if not callable(training_step):
        reason = f"got {type(training_step).__name__}, which cannot be called with a batch"
        remedy = _IS_FUNCTION.format("training_step")
        raise ConfigurationError(f"training_step {node.get('_target_')}: {reason}{remedy}")
    return training_step


def _folder_of_files(node: Mapping[str, Any]) -> str:
    """Says where a dataset of torchvision reads its files, which its errors do not name; empty for other datasets."""
    module, _, name = str(node.get("_target_")).rpartition(".")
    if module.startswith("torchvision.datasets") and "root" in node:
        root = Path(os.path.expanduser(node["root"]))  # noqa: PTH111 - as torchvision, which keeps an unknown ~user
        if name.endswith("MNIST"):
            root = root / name / "raw"
        return f"; put its files into {root.absolute()}"
    for value in node.values():
        if isinstance(value, Mapping) and (remedy := _folder_of_files(value)):
            return remedy
    return ""
