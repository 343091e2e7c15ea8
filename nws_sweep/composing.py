"""Configurations of a grid's points, ten times as quickly as Hydra composes them.

What chooses files (a group, a preset, ``+key``) is composed by Hydra, once for all points that choose the same; values
of plain keys are then set in a copy, as Hydra does it at the end of each composition.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig, OmegaConf, open_dict

from nws_sweep import config as schema
from nws_sweep.errors import ConfigurationError
from nws_sweep.explain import explain
from nws_sweep.records import Configuration, LoaderSettings

# Compositions by Hydra that are kept: points that follow each other mostly choose the same.
_KEPT = 16
# ${another.key} as it is written; what calls a resolver, such as ${oc.env:HOME}, has a colon.
_REFERENCE = re.compile(r"\$\{[^:${}]+\}")


class Composer:
    """Makes configurations of one grid.

    Attributes:
        whole: What Hydra composed for the grid as a whole, with its ``hydra`` node.
        loader: Composes a point of the grid.
    """

    def __init__(self, whole: DictConfig, loader: ConfigLoader) -> None:
        self.whole = whole
        self.loader = loader
        self._parser = OverridesParser.create(config_loader=loader)
        self._composed: dict[tuple[str, ...], tuple[DictConfig, DictConfig]] = {}

    def configuration(self, overrides: Sequence[str]) -> Configuration:
        """The configuration of a point.

        Args:
            overrides: Its overrides, such as ``batch_size=64``.

        Raises:
            ConfigurationError: With one line about the value that is wrong.
        """
        try:
            chosen, values = self._parted(overrides)
            base, hydra = self._base(chosen)
            task = copy.deepcopy(base)
            _set(task, values)
            return configuration_of(task, hydra, overrides)
        except ConfigurationError:
            raise
        except Exception:  # Hydra knows better what is wrong
            return self._slowly(overrides)

    def check_values(self, overrides: Sequence[str], key: str, texts: Iterable[str]) -> None:
        """Checks many values of one plain key, without making configurations of them.

        Args:
            overrides: A point that is known to be right.
            key: The key.
            texts: Its overrides, such as ``batch_size=64``.

        Raises:
            ConfigurationError: With one line about the first value that is wrong.
        """
        chosen, values = self._parted(overrides)
        task = copy.deepcopy(self._base(chosen)[0])
        _set(task, values)
        affected = {name for name in schema.ranges() if name == key or _is_taken_over(task, name)}
        for text in texts:
            try:
                _set(task, self._parser.parse_overrides([text]))
                schema.check(task, affected)
            except ConfigurationError:
                raise
            except Exception:
                self._slowly([*(o for o in overrides if not o.startswith(f"{key}=")), text])

    def is_plain(self, text: str) -> bool:
        """Whether an override sets the value of a key, and chooses no file."""
        return not self._parted([text])[0]

    def _parted(self, overrides: Sequence[str]) -> tuple[tuple[str, ...], list[Override]]:
        """Those that Hydra must compose, and those that set plain values."""
        parsed = self._parser.parse_overrides(list(overrides))
        plain = [override for override in parsed if self._sets_a_value(override)]
        if any(_overlap(one, other) for one in parsed if one not in plain for other in plain):
            return tuple(overrides), []  # which of both comes last decides
        rest = [text for text, override in zip(overrides, parsed, strict=True) if override not in plain]
        return tuple(rest), plain

    def _sets_a_value(self, override: Override) -> bool:
        # A group has no dot in its name, and none is called like a key of the schema.
        key = override.get_key_element()
        is_value = override.type is OverrideType.CHANGE and "/" not in key and "@" not in key
        return is_value and ("." in key or key in schema.ranges())

    def _base(self, chosen: tuple[str, ...]) -> tuple[DictConfig, DictConfig]:
        """What Hydra composes of these overrides alone, and its own node."""
        if chosen not in self._composed:
            if len(self._composed) >= _KEPT:
                self._composed.pop(next(iter(self._composed)))
            self._composed[chosen] = _parts(self.loader.load_sweep_config(self.whole, list(chosen)))
        return self._composed[chosen]

    def _slowly(self, overrides: Sequence[str]) -> Configuration:
        try:
            task, hydra = _parts(self.loader.load_sweep_config(self.whole, list(overrides)))
            return configuration_of(task, hydra, overrides)
        except ConfigurationError:
            raise
        except Exception as error:  # Hydra's and OmegaConf's errors have no common base
            raise explain(error, overrides) from error


def _overlap(other: Override, plain: Override) -> bool:
    """Whether an override that is not plain sets, adds or deletes what a plain one sets, or a part of it."""
    if other.type is OverrideType.CHANGE and not isinstance(other.value(), dict):
        return False  # it chooses a file, which comes before all values
    one, two = f"{other.get_key_element().lstrip('+~')}.", f"{plain.get_key_element()}."
    return one.startswith(two) or two.startswith(one)


def _set(task: DictConfig, values: Iterable[Override]) -> None:
    for override in values:
        OmegaConf.update(task, override.get_key_element(), override.value(), merge=True)


def _is_taken_over(task: DictConfig, key: str) -> bool:
    """Whether a value is, or is made of, that of another key."""
    parent, _, name = key.rpartition(".")
    node = OmegaConf.select(task, parent) if parent else task
    if not isinstance(node, DictConfig) or not OmegaConf.is_interpolation(node, name):
        return False
    written = OmegaConf.to_container(node, resolve=False)
    return isinstance(written, dict) and _REFERENCE.search(str(written[name])) is not None


def configuration_of(
    task: DictConfig, hydra: DictConfig, overrides: Sequence[str], own: LoaderSettings | None = None
) -> Configuration:
    """The plain configuration of what Hydra composed.

    Args:
        task: The job's own configuration, without the ``hydra`` node.
        hydra: Hydra's node beside it.
        overrides: The job's overrides.
        own: The settings of the DataLoader that the dataset comes in; None if it comes by itself or is not made yet.
    """
    name = dataset_name(hydra.runtime.choices.get("dataset"), overrides, task)
    return schema.configuration(task, name, overrides, own)


def dataset_name(choice: str | None, overrides: Sequence[str], config: DictConfig) -> str:
    """What the dataset is called: the chosen option, or the target's own name where that was given by hand."""
    by_hand = any(text.lstrip("+").startswith("dataset._target_=") for text in overrides)
    if choice and not by_hand:
        return str(choice)
    return str(OmegaConf.select(config, "dataset._target_", default="dataset")).rpartition(".")[2]


def _parts(composed: DictConfig) -> tuple[DictConfig, DictConfig]:
    """The job's own configuration, with the types of its values and refusing unknown keys, and Hydra's node."""
    hydra = composed.hydra
    with open_dict(composed):  # a masked copy would lose the types
        del composed["hydra"]
    return composed, hydra
