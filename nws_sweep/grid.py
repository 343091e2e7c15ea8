"""The grid before it runs: its axes, its size, and a check of every value before anything is measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from nws_sweep import config as schema
from nws_sweep.errors import ConfigurationError
from nws_sweep.explain import explain
from nws_sweep.records import Configuration, LoaderSettings, varying_columns
from nws_sweep.strategies import most_candidates

# Seconds that a trial takes beside its measuring: process, dataset, start of the workers, warm-up. For the plan only.
_TRIAL_OVERHEAD_S = 2.0


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


def axes(overrides: Sequence[str], presets: Mapping[str, str], loader: ConfigLoader) -> dict[str, list[str]]:
    """Each overridden key with the overrides that it takes in turn, as Hydra's own sweeper expands them.

    Args:
        overrides: The task's overrides of the whole grid, such as ``batch_size=64,256``.
        presets: hydra.sweeper.params, which the command line's overrides of the same key replace.
        loader: For ``glob(*)`` over the options of a group.
    """
    texts = [f"{key}={value}" for key, value in presets.items()] + list(overrides)
    expanded = {}
    for override in OverridesParser.create(config_loader=loader).parse_overrides(texts):
        key = override.get_key_element()
        if override.is_sweep_override():
            expanded[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
        else:
            expanded[key] = [f"{key}={override.get_value_element_as_str()}"]
    return expanded


def samples(expanded: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Points of the grid that show every value of every axis at least once.

    Their number grows with the sum of the axes' lengths, not with the product, so that a large grid is checked quickly.
    """
    first = {key: values[0] for key, values in expanded.items()}
    yield list(first.values())
    for key, values in expanded.items():
        for value in values[1:]:
            yield list({**first, key: value}.values())


def check(config: DictConfig, loader: ConfigLoader) -> tuple[Plan, list[Configuration]]:
    """Composes and checks the grid.

    Args:
        config: What Hydra composed for the grid as a whole, with its ``hydra`` node.
        loader: Composes a point of the grid.

    Returns:
        The plan, and configurations that show every value of every axis.

    Raises:
        ConfigurationError: With one line about the first value that is wrong.
    """
    expanded = axes(list(config.hydra.overrides.task), dict(config.hydra.sweeper.get("params") or {}), loader)
    shown = [_compose(config, loader, point) for point in samples(expanded)]
    size = math.prod(len(values) for values in expanded.values())
    return _plan(shown, size, varying_columns(shown), str(config.hydra.sweep.dir)), shown


def check_single(config: DictConfig) -> tuple[Plan, list[Configuration]]:
    """The same for a single configuration."""
    chosen = configuration_of(_without_hydra(config), config.hydra)
    notes = []
    if params := dict(config.hydra.sweeper.get("params") or {}):
        names = ", ".join(f"{key}={value}" for key, value in params.items())
        notes.append(f"presets of axes are swept only with -m; without it {names} is ignored")
    varying = ("dataset", "batch_size", "pin_memory", "prefetch_factor", "ranks")
    return _plan([chosen], 1, varying, str(config.hydra.run.dir), tuple(notes)), [chosen]


def _compose(config: DictConfig, loader: ConfigLoader, overrides: list[str]) -> Configuration:
    try:
        composed = loader.load_sweep_config(config, overrides)
        return configuration_of(_without_hydra(composed), composed.hydra)
    except ConfigurationError:
        raise
    except Exception as error:  # Hydra's and OmegaConf's errors have no common base
        raise explain(error, overrides) from error


def configuration_of(task: DictConfig, hydra: DictConfig, own: LoaderSettings | None = None) -> Configuration:
    """The plain configuration of what Hydra composed for one job.

    Args:
        task: The job's own configuration.
        hydra: Hydra's node beside it.
        own: The settings of the DataLoader that the dataset comes in; None if it comes by itself or is not made yet.
    """
    overrides = list(hydra.overrides.task)
    name = dataset_name(hydra.runtime.choices.get("dataset"), overrides, task)
    return schema.configuration(task, name, overrides, own)


def _without_hydra(composed: DictConfig) -> DictConfig:
    return OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])


def dataset_name(choice: str | None, overrides: Sequence[str], config: DictConfig) -> str:
    """What the dataset is called: the chosen option, or the target's own name where that was given by hand."""
    by_hand = any(text.lstrip("+").startswith("dataset._target_=") for text in overrides)
    if choice and not by_hand:
        return str(choice)
    return str(OmegaConf.select(config, "dataset._target_", default="dataset")).rpartition(".")[2]


def _plan(
    shown: Sequence[Configuration], size: int, varying: tuple[str, ...], folder: str, notes: tuple[str, ...] = ()
) -> Plan:
    searches_s = [_search_s(point) for point in shown]
    known_s = [search_s for search_s in searches_s if search_s is not None]
    return Plan(
        configurations=size,
        candidates=max((point.search.candidates for point in shown), key=len),
        tried=max(most_candidates(point.search) for point in shown),
        at_most_s=size * max(known_s) if len(known_s) == len(searches_s) else None,
        varying=varying,
        folder=folder,
        notes=notes,
    )


def _search_s(point: Configuration) -> float | None:
    """The longest that the search of a configuration may take, roughly; None where that cannot be told."""
    if point.search.time_budget_s is not None:
        return point.search.time_budget_s + _TRIAL_OVERHEAD_S
    if point.measure.mode == "epoch":
        return None
    return most_candidates(point.search) * (point.measure.max_seconds + _TRIAL_OVERHEAD_S)
