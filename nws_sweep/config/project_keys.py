"""DataLoader settings in another project's config: their keys, and overrides with the
best."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, cast

from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import DictConfig, ListConfig, OmegaConf

from nws_sweep.errors import ConfigurationError
from nws_sweep.records import ProjectFacts, ranges, shown

SETTINGS = (
    "batch_size",
    "num_workers",
    "pin_memory",
    "prefetch_factor",
    "persistent_workers",
)
# Words that Hydra's command line reads as text without quotes.
_WORD = re.compile(r"(?!(true|false|null|inf|nan)\Z)[a-z_][a-z0-9_-]*", re.IGNORECASE)
# Prefixes of the names of nodes that belong to one split of the data.
_OF_TRAINING = re.compile(r"(^|[._])(train|fit)", re.IGNORECASE)
_OF_OTHERS = re.compile(r"(^|[._])(val|eval|test|predict)", re.IGNORECASE)


def keys_of(composed: DictConfig, *, is_training: bool = True) -> ProjectFacts:
    """Finds the outermost dotted keys with the names of DataLoader settings; keys that
    Hydra cannot spell do not count.

    In mappings and among nodes named after splits only the keys of training count; all
    keys count if the split of the measured DataLoader is unknown.

    Returns:
        Settings with one key, such as ``{"num_workers": "data.num_workers.train"}``,
        and unclear ones with several keys, such as ``{"num_workers":
        ("data.num_workers.a", "data.num_workers.b")}``.
    """
    by_depth: dict[str, dict[int, list[str]]] = {}  # the keys of each setting
    for depth, name, dotted in _settings_below(
        composed, "", 0, is_training=is_training
    ):
        if ranges.fits(dotted, ranges.DottedKey):
            by_depth.setdefault(name, {}).setdefault(depth, []).append(dotted)
    clear, unclear = {}, {}
    for name, keys_at in by_depth.items():
        keys = keys_at[min(keys_at)]
        if len(keys) == 1:
            clear[name] = keys[0]
        else:
            unclear[name] = tuple(keys)
    return ProjectFacts(keys=clear, unclear=unclear)


def _settings_below(
    node: DictConfig, prefix: str, depth: int, *, is_training: bool
) -> Iterator[tuple[int, str, str]]:
    for name in SETTINGS:
        if name in node:
            for leaf in _leaves(node[name], f"{prefix}{name}", is_training=is_training):
                yield depth, name, leaf
    for name, child in _nodes_in(node):
        if name not in SETTINGS and not (is_training and _is_of_another_split(name)):
            yield from _settings_below(
                child, f"{prefix}{name}.", depth + 1, is_training=is_training
            )


def _nodes_in(node: Any) -> Iterator[tuple[str, DictConfig]]:
    """Yields names and values of the nodes right below a node, without interpolations
    of other nodes."""
    for name in node:
        is_here = not OmegaConf.is_missing(
            node, name
        ) and not OmegaConf.is_interpolation(node, name)
        if is_here and isinstance(node[name], DictConfig):
            yield str(name), node[name]


def _is_of_another_split(name: str) -> bool:
    return bool(_OF_OTHERS.search(name)) and not _OF_TRAINING.search(name)


def _leaves(value: Any, dotted: str, *, is_training: bool) -> list[str]:
    """Lists the keys of a setting: the key itself, or the keys in its mapping, if
    possible of training."""
    if isinstance(value, ListConfig):
        return []
    if not isinstance(value, DictConfig):
        return [dotted]
    names = [str(name) for name in value]
    if is_training:
        names = [name for name in names if not _is_of_another_split(name)]
        names = [name for name in names if _OF_TRAINING.search(name)] or names
    leaves = []
    for name in names:
        leaves += _leaves(value[name], f"{dotted}.{name}", is_training=is_training)
    return leaves


def as_nodes(settings: Mapping[str, Any], project: ProjectFacts) -> dict[str, Any]:
    """Places the settings with one key in the project as nested mappings from the top
    of its config."""
    top = OmegaConf.create()
    for name, value in settings.items():
        if name in project.keys:
            OmegaConf.update(top, project.keys[name], value, force_add=True)
    return cast("dict[str, Any]", OmegaConf.to_container(top))


def left_out(settings: Mapping[str, Any], project: ProjectFacts) -> Iterator[str]:
    """Yields a line with the reason for each setting that does not have one key in the
    project."""
    for name, value in settings.items():
        if name in project.keys:
            continue
        has = "no key for it; set it where the DataLoader is made"
        if keys := project.unclear.get(name):
            has = f"{', '.join(keys)}; add the key of the measured loader, such as {override(keys[0], value)}"
        yield f"{name}={shown(value)} is left out: the project's config has {has}"


def override(key: str, value: Any, mark: str = "++") -> str:
    """Writes ``++data.num_workers=4``, quoted as Hydra's command line and a shell need
    it.

    ``++`` makes Hydra set a key whether or not it exists. The settings of a result need
    no quotes, so that a shell also takes them from ``$(nws-sweep best DIR --format
    overrides)``, whose quotes would stay.
    """
    text = shown(value)
    if isinstance(value, str) and not _WORD.fullmatch(value):
        literal = value.replace("${", "\\${")  # no interpolation
        text = QuotedString(text=literal, quote=Quote.single).with_quotes()
    return shlex.quote(f"{mark}{key}={text}")


def refuse_mapping(
    settings: Mapping[str, Any], project: ProjectFacts, key: str
) -> None:
    """Raises ConfigurationError if a setting below the key would replace a mapping of
    the project's config."""
    for name in settings:
        mapping = f"{key}.{name}" if key else name
        places = (project.keys.get(name, ""), *project.unclear.get(name, ()))
        if any(place.startswith(f"{mapping}.") for place in places):
            raise ConfigurationError(
                f"--key {key}: {mapping} is a mapping in the project's config; without --key its own keys are used"
            )
