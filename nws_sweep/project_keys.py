"""DataLoader settings in the config of another project: where they stand, and whether what they load is the same."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

# Whether a node is being looked at only to tell what it loads.
_asking: ContextVar[bool] = ContextVar("nws_sweep_asking", default=False)
SETTINGS = ("batch_size", "num_workers", "pin_memory", "prefetch_factor", "persistent_workers")


def keys_of(composed: DictConfig, key: str) -> dict[str, str]:
    """The dotted keys at or below a node that are called like settings of the DataLoader, the outermost of each.

    Args:
        composed: The project's config.
        key: Dotted key of the node that makes what is loaded.

    Returns:
        Each setting that has a key, such as ``{"num_workers": "data.num_workers"}``.
    """
    found: dict[str, str] = {}
    level = {key: OmegaConf.select(composed, key)}
    while level:
        for dotted, node in level.items():
            found |= {name: f"{dotted}.{name}" for name in SETTINGS if name in node and name not in found}
        level = {
            f"{dotted}.{name}": node[name]
            for dotted, node in level.items()
            for name in node
            if not OmegaConf.is_missing(node, name)
            and not OmegaConf.is_interpolation(node, name)
            and isinstance(node[name], DictConfig)
        }
    return found


def fingerprint_of(composed: DictConfig, key: str) -> str:
    """A short hash of what a node loads: of all that it says but the settings of the DataLoader.

    Args:
        composed: The project's config.
        key: Dotted key of the node.

    Raises:
        OmegaConfBaseException: If something in the node cannot be resolved.
    """
    without = copy.deepcopy(composed)
    node = OmegaConf.select(without, key)
    if isinstance(node, DictConfig):
        _drop_settings(node)
    with asking():
        plain = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    text = json.dumps(_plain(plain), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def asking() -> Iterator[None]:
    """What is resolved in the block is only looked at."""
    token = _asking.set(True)
    try:
        yield
    finally:
        _asking.reset(token)


def is_asking() -> bool:
    """Whether a fingerprint is being made: what is asked of a result meanwhile must not ask for the result again."""
    return _asking.get()


def _drop_settings(node: DictConfig) -> None:
    """They may be taken from the result that this hash is asked about."""
    OmegaConf.set_readonly(node, False)
    with open_dict(node):
        for name in list(node):
            if name in SETTINGS:
                del node[name]
            elif not OmegaConf.is_missing(node, name) and not OmegaConf.is_interpolation(node, name):
                child = node[name]
                if isinstance(child, DictConfig):
                    _drop_settings(child)


def _plain(value: Any) -> Any:
    """The value without settings that interpolations have brought in."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items() if name not in SETTINGS}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
