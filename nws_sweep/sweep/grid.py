"""The grid before it runs: its axes, its points, and a check of every value before anything is measured.

What chooses files (a group, a preset, ``+key``) is composed by Hydra, once for all points that choose the same; values
of plain keys are then set in a copy, as Hydra does it at the end of each composition: that takes a tenth of the time.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig, OmegaConf, open_dict

from nws_sweep.config import schema
from nws_sweep.errors import ConfigurationError
from nws_sweep.results import Configuration, LoaderSettings, varying_columns
from nws_sweep.tuning.strategy import most_candidates

# Seconds that a trial takes beside its measuring: process, dataset, start of the workers, warm-up. For the plan only.
_TRIAL_OVERHEAD_S = 2.0
# Compositions by Hydra that are kept: points that follow each other mostly choose the same.
_KEPT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is about to be done.

    Attributes:
        configurations: Points of the grid.
        candidates: The longest list of values of num_workers that a configuration may try.
        tried: How many of them at most.
        at_most_s: Rough upper limit of the time, s; None where whole epochs are measured, whose length is not known.
        varying: The identifying columns that tell the configurations apart, or describe the only one.
        folder: Where the files will be.
        notes: Lines that the user should see beforehand.
    """

    configurations: int
    candidates: tuple[int, ...]
    tried: int
    at_most_s: float | None
    varying: tuple[str, ...]
    folder: str
    notes: tuple[str, ...] = ()


class Composer:
    """Makes configurations of one grid, of what Hydra composed for the ``whole`` of it, its ``hydra`` node included."""

    def __init__(self, whole: DictConfig, loader: ConfigLoader) -> None:
        self.whole = whole
        self.loader = loader
        self._parser = OverridesParser.create(config_loader=loader)
        self._by_hydra = functools.lru_cache(_KEPT)(self._composed_by_hydra)

    def configuration(self, overrides: Sequence[str]) -> Configuration:
        """The configuration of a point; ConfigurationError with one line about the value that is wrong."""
        try:
            parsed = self._parser.parse_overrides(list(overrides))
            plain = [override for override in parsed if _sets_a_value(override)]
            if any(_overlap(one, other) for one in parsed if one not in plain for other in plain):
                plain = []  # which of both comes last decides
            chosen = [text for text, override in zip(overrides, parsed, strict=True) if override not in plain]
            task, hydra = self._by_hydra(*chosen)
            task = copy.deepcopy(task)
            for override in plain:
                OmegaConf.update(task, override.get_key_element(), override.value(), merge=True)
            return configuration_of(task, hydra, overrides)
        except ConfigurationError:
            raise
        except Exception as error:  # Hydra's and OmegaConf's errors have no common base
            raise schema.explain(error, overrides) from error

    def _composed_by_hydra(self, *overrides: str) -> tuple[DictConfig, DictConfig]:
        """The job's own configuration, with the types of its values and refusing unknown keys, and Hydra's node."""
        composed = self.loader.load_sweep_config(self.whole, list(overrides))
        hydra = composed.hydra
        with open_dict(composed):  # a masked copy would lose the types
            del composed["hydra"]
        return composed, hydra


def _sets_a_value(override: Override) -> bool:
    """Whether it sets the value of a key; a group has no dot in its name, and none is called like a key."""
    key = override.get_key_element()
    is_value = override.type is OverrideType.CHANGE and "/" not in key and "@" not in key
    return is_value and ("." in key or key in schema.ranges())


def _overlap(other: Override, plain: Override) -> bool:
    """Whether an override that is not plain sets, adds or deletes what a plain one sets, or a part of it."""
    if other.type is OverrideType.CHANGE and not isinstance(other.value(), dict):
        return False  # it chooses a file, which comes before all values
    one, two = f"{other.get_key_element().lstrip('+~')}.", f"{plain.get_key_element()}."
    return one.startswith(two) or two.startswith(one)


def configuration_of(
    task: DictConfig, hydra: DictConfig, overrides: Sequence[str], own: LoaderSettings | None = None
) -> Configuration:
    """The plain configuration of a job: of its own node of what Hydra composed, without ``hydra``, which is beside it.

    The dataset is called by the option that it was chosen by, or by a target that an override gives; see
    ``config.configuration``.
    """
    name = hydra.runtime.choices.get("dataset")
    if not name or any(text.lstrip("+").startswith("dataset._target_=") for text in overrides):
        name = str(OmegaConf.select(task, "dataset._target_", default="dataset")).rpartition(".")[2]
    return schema.configuration(task, str(name), overrides, own)


def axes_of(config: DictConfig, loader: ConfigLoader) -> dict[str, list[str]]:
    """Each overridden key of a grid with the overrides that it takes in turn, as Hydra's own sweeper expands them."""
    presets = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
    given = cast(
        "list[str]", OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    )  # ${...} is each point's
    expanded = {}
    for override in OverridesParser.create(config_loader=loader).parse_overrides([*presets, *given]):
        key = override.get_key_element()
        if override.is_sweep_override():
            expanded[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
        else:
            expanded[key] = [f"{key}={override.get_value_element_as_str()}"]
    return expanded


def points(expanded: Mapping[str, Sequence[str]], order: str) -> Iterator[list[str]]:
    """The points of the grid one by one, each as its overrides; the same grid always has the same order.

    ``grid``: the last axis the fastest, as Hydra has it. ``interleaved``: drawn, repeats one after the other, so that
    a machine that slowly changes does so to all alike.
    """
    if order == "grid":
        yield from map(list, itertools.product(*expanded.values()))
        return
    for number, seed in enumerate(expanded.get("seed", [""])):
        once = [[seed] if key == "seed" else values for key, values in expanded.items()]
        drawn = [list(point) for point in itertools.product(*once)]
        random.Random(number).shuffle(drawn)
        yield from drawn


def samples(expanded: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Points of the grid that show every value of every axis at least once.

    Their number grows with the sum of the axes' lengths, not with the product.
    """
    first = {key: values[0] for key, values in expanded.items()}
    yield list(first.values())
    for key, values in expanded.items():
        for value in values[1:]:
            yield list({**first, key: value}.values())


def check(composer: Composer) -> tuple[Plan, list[Configuration]]:
    """The plan of a grid, and configurations that show every value of every axis; ConfigurationError if it is wrong."""
    expanded = axes_of(composer.whole, composer.loader)
    shown = [composer.configuration(point) for point in samples(expanded)]
    size = math.prod(map(len, expanded.values()))
    return _plan(shown, size, varying_columns(shown), str(composer.whole.hydra.sweep.dir)), shown


def check_single(config: DictConfig) -> tuple[Plan, list[Configuration]]:
    """The same for a single configuration."""
    task = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    chosen = configuration_of(task, config.hydra, list(config.hydra.overrides.task))
    notes = []
    if params := dict(config.hydra.sweeper.get("params") or {}):
        names = ", ".join(f"{key}={value}" for key, value in params.items())
        notes.append(f"presets of axes are swept only with -m; without it {names} is ignored")
    varying = ("dataset", "batch_size", "pin_memory", "prefetch_factor", "ranks")
    return _plan([chosen], 1, varying, str(config.hydra.run.dir), tuple(notes)), [chosen]


def _plan(
    shown: Sequence[Configuration], size: int, varying: tuple[str, ...], folder: str, notes: tuple[str, ...] = ()
) -> Plan:
    longest_s = [_search_s(point) for point in shown]
    return Plan(
        configurations=size,
        candidates=max((point.search.candidates for point in shown), key=len),
        tried=max(most_candidates(point.search) for point in shown),
        at_most_s=size * max(longest_s) if max(longest_s) < math.inf else None,
        varying=varying,
        folder=folder,
        notes=notes,
    )


def _search_s(point: Configuration) -> float:
    """The longest that the search of a configuration may take, roughly; infinite where that cannot be told."""
    if point.search.time_budget_s is not None:
        return point.search.time_budget_s + _TRIAL_OVERHEAD_S
    if point.measure.mode == "epoch":
        return math.inf
    return most_candidates(point.search) * (point.measure.max_seconds + _TRIAL_OVERHEAD_S)
