"""Makes the DataLoader or Dataset of a project from the project's own Hydra config.

Runs in a trial process, in place of the project's program: only code that the config names runs.
"""

import contextlib
import importlib
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import UnsupportedInterpolationType
from torch.utils.data import DataLoader, Dataset

from nws_sweep.config.hydra_versions import BASE, instantiate
from nws_sweep.config.project_keys import is_of_another_split, keys_of, nodes_in
from nws_sweep.dataloading.inputs import is_module, loader_of_module
from nws_sweep.dataloading.loaders import Project
from nws_sweep.errors import ConfigurationError
from nws_sweep.results import shown

_ROOT_MARKS = (".project-root", "pyproject.toml", "setup.py", ".git")
_LIKELY = re.compile(r"data|loader", re.IGNORECASE)


def load(
    config: str,
    overrides: str = "",
    key: str | None = None,
    method: str = "train_dataloader",
    imports: Sequence[str] = (),
) -> Project:
    """Composes a project's config and makes its DataLoader or Dataset; ConfigurationError if either is impossible.

    Args:
        config: File of the primary config.
        overrides: Arguments of the project's own command line, separated by spaces.
        key: Dotted key of the node that makes a DataLoader, a Dataset or a LightningDataModule; None to find it.
        method: Method of a LightningDataModule that returns the DataLoader.
        imports: Modules to import first, which register resolvers or structured configs.
    """
    path = Path(config).absolute()
    if not path.is_file():
        raise ConfigurationError(f"dataset.config={config}: no such file; expected the project's primary config")
    _set_import_path(path)
    for module in imports:
        importlib.import_module(module)
    try:
        composed = _compose(path, shlex.split(overrides))
        chosen = key or find_node(composed)
        node = OmegaConf.select(composed, chosen, default=None)
        if node is None:
            top = ", ".join(map(str, composed))
            raise ConfigurationError(
                f"dataset.key={key}: the project's config has no such node; its top-level nodes are {top}"
            )
        facts = keys_of(composed, chosen, method.removesuffix("_dataloader"))
        return Project(made=make_loader(node, chosen, method), facts=facts)
    except UnsupportedInterpolationType as error:
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(
            f"dataset.imports={shown(list(imports))}: {reason}; must be a list with the project's module that "
            "registers it, such as [train]"
        ) from error


def _set_import_path(config: Path) -> None:
    """Adds the folders where projects keep their programs, and sets ``PROJECT_ROOT`` as rootutils does."""
    folders = (config.parent, *config.parent.parents)
    root = next((one for one in folders if any((one / mark).exists() for mark in _ROOT_MARKS)), config.parent.parent)
    os.environ.setdefault("PROJECT_ROOT", str(root))  # read by the configs of lightning-hydra-template
    import_folders = (Path.cwd(), config.parent.parent, root, root / "src")
    sys.path[:0] = [str(folder) for folder in import_folders if str(folder) not in sys.path and folder.is_dir()]


def _compose(path: Path, overrides: Sequence[str]) -> DictConfig:
    with initialize_config_dir(config_dir=str(path.parent), **BASE):
        composed = compose(config_name=path.stem, overrides=list(overrides), return_hydra_config=True)
    with open_dict(composed.hydra):
        composed.hydra.runtime.output_dir = tempfile.gettempdir()  # for ${hydra:runtime.output_dir}; nothing is written
        composed.hydra.job.num, composed.hydra.job.id = 0, "nws_sweep"
    HydraConfig.instance().set_config(composed)
    with open_dict(composed):
        del composed["hydra"]
    return composed


def find_node(composed: DictConfig) -> str:
    """The dotted key of the node that makes the DataLoader, LightningDataModule or Dataset for training.

    Nodes with "data" or "loader" in their names come first, since the class of each examined node is imported.
    ConfigurationError if no node or several nodes fit.
    """
    nodes = list(_targets(composed, ""))
    for is_likely in (True, False):
        kinds = [(key, _kind(target)) for key, target in nodes if bool(_LIKELY.search(key)) is is_likely]
        for kind in ("loader", "module", "dataset"):
            keys = [key for key, found in kinds if found == kind]
            keys = [key for key in keys if not is_of_another_split(key, "train")] or keys
            if len(keys) > 1:
                raise ConfigurationError(
                    f"dataset.key=null: several nodes of the project fit: {', '.join(keys)}; name one"
                )
            if keys:
                return keys[0]
    raise ConfigurationError(
        "dataset.key=null: no node of the project's config has the _target_ of a DataLoader, a Dataset or a "
        "LightningDataModule; dataset.key=KEY names a function that returns one"
    )


def _targets(node: DictConfig, prefix: str) -> Iterator[tuple[str, str]]:
    """Dotted key and ``_target_`` of the outermost nodes that have one."""
    for name, child in nodes_in(node):
        if "_target_" in child:
            yield f"{prefix}{name}", str(child["_target_"])
        else:
            yield from _targets(child, f"{prefix}{name}.")


def _kind(target: str) -> str:
    """Kind of the class; empty for other classes, and for functions, whose result is unknown before the call."""
    made = None
    with contextlib.suppress(Exception):  # other nodes may need packages that are not installed
        made = get_object(target)
    if not isinstance(made, type):
        return ""
    if issubclass(made, DataLoader):
        return "loader"
    if hasattr(made, "train_dataloader"):
        return "module"
    return "dataset" if issubclass(made, Dataset) else ""


def make_loader(node: DictConfig, key: str, method: str) -> Any:
    """The DataLoader or Dataset of a node: as Hydra instantiates it, or if that fails with ``_recursive_=False``.

    ``method`` is the method of a LightningDataModule. If both attempts fail, or the dataset of the second is or has the
    config of an object, the exception is that of the first; ConfigurationError if the node makes another object.
    """
    try:
        return loader_of(instantiate(node), key, method)
    except Exception as first:
        with contextlib.suppress(Exception):
            made = loader_of(instantiate(node, _recursive_=False), key, method)
            dataset = getattr(made, "dataset", made)
            parts = (dataset, *getattr(dataset, "__dict__", {}).values())
            if not any(isinstance(part, Mapping) and "_target_" in part for part in parts):
                return made
        raise first


def loader_of(made: Any, key: str, method: str) -> Any:
    """The DataLoader or Dataset of the object that a node has made; see ``make_loader``."""
    if is_module(made):
        if not hasattr(made, method):
            raise ConfigurationError(f"dataset.method={method}: {type(made).__name__} has no such method")
        made = loader_of_module(made, method)
    gives_samples = hasattr(made, "__getitem__") or hasattr(made, "__iter__")
    if isinstance(made, list | dict) or not gives_samples:
        raise ConfigurationError(
            f"dataset.key={key}: makes a {type(made).__name__}; must make one DataLoader, Dataset or "
            "LightningDataModule"
        )
    return made
