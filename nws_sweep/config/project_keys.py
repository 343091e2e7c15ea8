"""DataLoader settings in another project's config: their keys, and overrides with the best."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, cast

from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import DictConfig, ListConfig, OmegaConf

from nws_sweep.errors import ConfigurationError
from nws_sweep.results import ProjectFacts, ranges, shown

SETTINGS = ("batch_size", "num_workers", "pin_memory", "prefetch_factor", "persistent_workers")
# Words that Hydra's command line reads as text without quotes.
_WORD = re.compile(r"(?!(true|false|null|inf|nan)\Z)[a-z_][a-z0-9_-]*", re.IGNORECASE)
# Prefixes of the names of nodes that belong to one split of the data.
_SPLITS = {"train": "train|fit", "val": "val|eval", "test": "test", "predict": "predict"}


def keys_of(composed: DictConfig, key: str, split: str = "train") -> ProjectFacts:
    """The outermost dotted keys at or below a node with the names of DataLoader settings; an empty key is the top.

    In mappings and among nodes named after splits only those of the measured split (``train``, ``val``, ``test`` or
    ``predict``) count. Keys that Hydra's command line cannot spell are left out.

    Returns:
        Settings with one key, such as ``{"num_workers": "data.num_workers.train"}``, and unclear ones with several
        keys, such as ``{"num_workers": ("data.num_workers.a", "data.num_workers.b")}``.
    """
    by_depth: dict[str, dict[int, list[str]]] = {}
    for depth, name, dotted in _settings_below(OmegaConf.select(composed, key), f"{key}." if key else "", split, 0):
        if ranges.fits(dotted, ranges.DottedKey):
            by_depth.setdefault(name, {}).setdefault(depth, []).append(dotted)
    places = {name: depths[min(depths)] for name, depths in by_depth.items()}
    keys = {name: dotted[0] for name, dotted in places.items() if len(dotted) == 1}
    unclear = {name: tuple(dotted) for name, dotted in places.items() if len(dotted) > 1}
    return ProjectFacts(keys=keys, unclear=unclear)


def nodes_in(node: Any) -> Iterator[tuple[str, DictConfig]]:
    """Names and values of the nodes right below a node, without interpolations of other nodes."""
    for name in node:
        is_here = not OmegaConf.is_missing(node, name) and not OmegaConf.is_interpolation(node, name)
        if is_here and isinstance(node[name], DictConfig):
            yield str(name), node[name]


def _settings_below(node: DictConfig, prefix: str, split: str, depth: int) -> Iterator[tuple[int, str, str]]:
    for name in SETTINGS:
        if name in node:
            yield from ((depth, name, leaf) for leaf in _leaves(node[name], f"{prefix}{name}", split))
    for name, child in nodes_in(node):
        if name not in SETTINGS and not is_of_another_split(name, split):
            yield from _settings_below(child, f"{prefix}{name}.", split, depth + 1)


def is_of_another_split(name: str, split: str) -> bool:
    """True if the name of a node, or a dotted key, names another split."""
    return split in _SPLITS and bool(named := _splits_of(name)) and split not in named


def _splits_of(name: str) -> set[str]:
    return {split for split, begin in _SPLITS.items() if re.search(rf"(^|[._])({begin})", name, re.IGNORECASE)}


def _leaves(value: Any, dotted: str, split: str) -> list[str]:
    """The keys of a setting: its own, or those of a mapping, if possible of the split."""
    if isinstance(value, ListConfig):
        return []
    if not isinstance(value, DictConfig):
        return [dotted]
    names = [str(name) for name in value if not is_of_another_split(str(name), split)]
    own = [name for name in names if split in _splits_of(name)]
    return [leaf for name in own or names for leaf in _leaves(value[name], f"{dotted}.{name}", split)]


def as_nodes(settings: Mapping[str, Any], project: ProjectFacts) -> dict[str, Any]:
    """The settings with one key in the project as nested mappings from the top of its config."""
    top = OmegaConf.create()
    for name, value in settings.items():
        if name in project.keys:
            OmegaConf.update(top, project.keys[name], value, force_add=True)
    return cast("dict[str, Any]", OmegaConf.to_container(top))


def left_out(settings: Mapping[str, Any], project: ProjectFacts) -> Iterator[str]:
    """A line with the reason for each setting without one key in the project."""
    for name, value in settings.items():
        if name not in project.keys:
            has, keys = "no key for it", project.unclear.get(name)
            if keys:
                has = f"{', '.join(keys)}; add the key of the measured loader, such as {override(keys[0], value)}"
            yield f"{name}={shown(value)} is left out: the project's config has {has}"


def override(key: str, value: Any, mark: str = "++") -> str:
    """``++data.num_workers=4``, quoted as Hydra's command line and a shell need it.

    ``++`` makes Hydra set a key whether or not it exists. The settings of a result need no quotes, so that a shell also
    takes them from ``$(nws-sweep best DIR --format overrides)``, whose quotes would stay.
    """
    text = shown(value)
    if isinstance(value, str) and not _WORD.fullmatch(value):
        literal = value.replace("${", "\\${")  # no interpolation
        text = QuotedString(text=literal, quote=Quote.single).with_quotes()
    return shlex.quote(f"{mark}{key}={text}")


def refuse_mapping(settings: Mapping[str, Any], project: ProjectFacts, key: str) -> None:
    """Raises ConfigurationError if a setting below the key would replace a mapping of the project's config."""
    for name in settings:
        mapping = f"{key}.{name}" if key else name
        if any(one.startswith(f"{mapping}.") for one in (project.keys.get(name, ""), *project.unclear.get(name, ()))):
            raise ConfigurationError(
                f"--key {key}: {mapping} is a mapping in the project's config; without --key its own keys are used"
            )
