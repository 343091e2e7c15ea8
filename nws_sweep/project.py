"""Makes what a project with Hydra configs of its own loads, as those configs compose it.

Runs in an arm, in the project's place: nothing of its program is run but what the configs name.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import UnsupportedInterpolationType
from torch.utils.data import DataLoader, Dataset

from nws_sweep import answers
from nws_sweep.errors import ConfigurationError
from nws_sweep.project_keys import fingerprint_of, is_of_another_split, keys_of
from nws_sweep.records import ProjectFacts, shown
from nws_sweep.sources import Project

_ROOT_MARKS = (".project-root", "pyproject.toml", "setup.py", ".git")
_LIKELY = re.compile(r"data|loader", re.IGNORECASE)
_STAGES = {"test_dataloader": "test", "predict_dataloader": "predict"}


def load(
    config: str,
    overrides: Sequence[str] = (),
    key: str | None = None,
    method: str = "train_dataloader",
    imports: Sequence[str] = (),
) -> Project:
    """Composes a project's config and makes what it loads.

    Args:
        config: The primary config's file.
        overrides: What the project's own command line would be given.
        key: Dotted key of the node that makes a DataLoader, a Dataset or a LightningDataModule; None to find it.
        method: What is asked of a LightningDataModule.
        imports: Modules to import first: those that register resolvers or structured configs.

    Raises:
        ConfigurationError: If the config cannot be composed, or does not say what to measure.
    """
    path = Path(config).absolute()
    if not path.is_file():
        raise ConfigurationError(f"dataset.config={config}: no such file; it is the project's primary config")
    _behave_like_the_program(path, imports)
    answers.stand_in()
    try:
        return _loaded(_composed(path, overrides), key, method)
    except UnsupportedInterpolationType as error:
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(
            f"dataset.imports={shown(list(imports))}: {reason}; allowed is a list with the project's module that "
            "registers it, such as [train]"
        ) from error


def _loaded(composed: DictConfig, key: str | None, method: str) -> Project:
    chosen = checked_key(composed, key) if key else found_node(composed)
    node = OmegaConf.select(composed, chosen)
    keys, unclear = keys_of(composed, chosen, method.removesuffix("_dataloader"))
    facts = ProjectFacts(
        key=chosen,
        keys=keys,
        fingerprint=fingerprint_of(composed, chosen),
        target=str(node.get("_target_", "")),
        unclear=unclear,
    )
    return Project(made=made_by(node, chosen, method), facts=facts)


def _behave_like_the_program(config: Path, imports: Sequence[str]) -> None:
    """Paths as most projects' programs set them, before anything of theirs is imported."""
    root = _root_of(config.parent)
    os.environ.setdefault("PROJECT_ROOT", str(root))  # what rootutils sets and lightning-hydra-template's configs read
    homes = (Path.cwd(), config.parent.parent, root, root / "src")  # where its program may lie, and what it imports
    sys.path[:0] = [str(folder) for folder in homes if str(folder) not in sys.path and folder.is_dir()]
    for module in imports:
        importlib.import_module(module)


def _root_of(folder: Path) -> Path:
    marked = (one for one in (folder, *folder.parents) if any((one / mark).exists() for mark in _ROOT_MARKS))
    return next(marked, folder.parent)


def _composed(path: Path, overrides: Sequence[str]) -> DictConfig:
    with initialize_config_dir(version_base="1.3", config_dir=str(path.parent)):
        composed = compose(config_name=path.stem, overrides=list(overrides), return_hydra_config=True)
    with open_dict(composed.hydra):
        composed.hydra.runtime.output_dir = tempfile.gettempdir()  # for ${hydra:runtime.output_dir}; nothing is written
        composed.hydra.job.num, composed.hydra.job.id = 0, "nws_sweep"
    HydraConfig.instance().set_config(composed)
    with open_dict(composed):
        del composed["hydra"]
    return composed


def checked_key(composed: DictConfig, key: str) -> str:
    """The key itself, if there is such a node.

    Raises:
        ConfigurationError: If not.
    """
    if OmegaConf.select(composed, key, default=None) is None:
        top = ", ".join(map(str, composed))
        raise ConfigurationError(f"dataset.key={key}: the project's config has no such node; at its top it has {top}")
    return key


def found_node(composed: DictConfig) -> str:
    """The dotted key of the one node that makes what is loaded for training.

    Nodes that sound like data are looked at first: to look at one means to import its class.

    Raises:
        ConfigurationError: If there is none, or there are several.
    """
    nodes = dict(_targets(composed, ""))
    likely = {key: target for key, target in nodes.items() if _LIKELY.search(key)}
    for chosen in (likely, {key: target for key, target in nodes.items() if key not in likely}):
        if keys := _best_kind({key: _kind(target) for key, target in chosen.items()}):
            if len(keys) > 1:
                raise ConfigurationError(f"dataset.key=null: the project has several: {', '.join(keys)}; name one")
            return keys[0]
    raise ConfigurationError(
        "dataset.key=null: no node of the project's config has the _target_ of a DataLoader, a Dataset or a "
        "LightningDataModule; dataset.key=KEY names a function that returns one"
    )


def _targets(node: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Dotted key and ``_target_`` of the outermost nodes that have one."""
    if not isinstance(node, DictConfig):
        return
    for name in map(str, node):
        if OmegaConf.is_missing(node, name) or OmegaConf.is_interpolation(node, name):
            continue
        child, key = node[name], f"{prefix}{name}"
        if isinstance(child, DictConfig) and "_target_" in child:
            yield key, str(child["_target_"])
        else:
            yield from _targets(child, f"{key}.")


_KINDS = ("loader", "module", "dataset")


def _kind(target: str) -> str:
    """Which of ``_KINDS`` it makes; empty if none, or if that cannot be told without calling it."""
    try:
        made = get_object(target)
    except Exception:  # what is not for loading may need what is not installed here
        return ""
    if not isinstance(made, type):
        return ""
    if issubclass(made, DataLoader):
        return "loader"
    if hasattr(made, "train_dataloader"):
        return "module"
    return "dataset" if issubclass(made, Dataset) else ""


def _best_kind(kinds: Mapping[str, str]) -> list[str]:
    for kind in _KINDS:
        keys = [key for key, found in kinds.items() if found == kind]
        for_training = [key for key in keys if not is_of_another_split(key, "train")]
        if keys:
            return for_training or keys
    return []


def made_by(node: DictConfig, key: str, method: str) -> Any:
    """The DataLoader or Dataset that a project's node makes; a program may make it with ``_recursive_=False``.

    Args:
        node: What is instantiated: first as Hydra does by itself, then without the nodes in it.
        key: The node's key, for an error.
        method: What is asked of a LightningDataModule.

    Raises:
        Exception: That of the first attempt, if both fail.
    """
    try:
        return loader_of(instantiate(node), key, method)
    except Exception as first:
        with contextlib.suppress(Exception):
            return loader_of(instantiate(node, _recursive_=False), key, method)
        raise first


def loader_of(made: Any, key: str, method: str) -> Any:
    """The DataLoader or Dataset of what a project's node makes.

    Args:
        made: What was instantiated.
        key: The node's key, for an error.
        method: What is asked of a LightningDataModule.

    Raises:
        ConfigurationError: If there is none in it.
    """
    if hasattr(made, "train_dataloader") and not isinstance(made, Dataset | DataLoader):
        made.prepare_data()
        made.setup(_STAGES.get(method, "fit"))
        if not hasattr(made, method):
            raise ConfigurationError(f"dataset.method={method}: {type(made).__name__} has no such method")
        made = getattr(made, method)()
    if isinstance(made, DataLoader) or (hasattr(made, "__getitem__") and not isinstance(made, list | dict)):
        return made
    if hasattr(made, "__iter__") and not isinstance(made, list | dict):
        return made
    raise ConfigurationError(
        f"dataset.key={key}: makes a {type(made).__name__}; allowed is one DataLoader, Dataset or LightningDataModule"
    )
