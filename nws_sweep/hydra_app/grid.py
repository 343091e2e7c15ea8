"""The axes and points of a grid, and a check of every value before anything is
measured."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from nws_sweep.config import hydra_errors, schema
from nws_sweep.errors import ConfigurationError, NwsSweepError
from nws_sweep.model.time_limit import limit_s
from nws_sweep.records import Configuration, DatasetFacts, varying_columns
from nws_sweep.searching.strategy import most_candidates

# Start of the process, dataset and workers, and warm-up of a trial. Used for the plan
# only.
_TRIAL_OVERHEAD_S = 2.0

# of its dataset; its relative paths begin in the folder
Facts = Callable[[Configuration, str], DatasetFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run or a grid will measure."""

    configurations: int  # number of points of the grid
    tried: int  # the largest number of candidates that a search tries
    # rough upper limit of the time; None for whole epochs, whose length is unknown
    at_most_s: float | None
    # the identifying columns that differ between configurations, or describe the only
    # one
    varying: tuple[str, ...]
    note: str = ""  # a line for the user


@dataclass(frozen=True, slots=True)
class Composer:
    """Composes the points of a grid from Hydra's configuration of the multirun, with
    its ``hydra`` node."""

    multirun: DictConfig
    loader: ConfigLoader

    def configuration(
        self, overrides: Sequence[str], facts: Facts | None = None
    ) -> Configuration:
        """Composes a point; ConfigurationError if a value is wrong."""
        try:
            composed = self.loader.load_sweep_config(self.multirun, list(overrides))
            if composed.hydra.sweeper.get("params") != self.multirun.hydra.sweeper.get(
                "params"
            ):
                raise ConfigurationError(
                    f"{', '.join(overrides)}: a preset with axes of its own cannot be a value of an axis; choose one, "
                    "or list the values themselves"
                )
            return configuration_of(without_hydra(composed), composed.hydra, facts)
        except ConfigurationError:
            raise
        except Exception as error:  # Hydra's and OmegaConf's errors have no common base
            raise hydra_errors.explain(error, overrides) from error


def configuration_of(
    task: DictConfig, hydra: DictConfig, facts: Facts | None = None
) -> Configuration:
    """Makes the configuration of a job from its values and its ``hydra`` node; see
    ``schema.configuration``.

    The dataset has the name of the chosen option, or of the class or function that an
    override gives. With ``facts``, settings that are null are those of the DataLoader
    that the dataset comes in.
    """
    name, overrides = hydra.runtime.choices.get("dataset"), list(hydra.overrides.task)
    if not name or any(
        text.lstrip("+").startswith("dataset._target_=") for text in overrides
    ):
        name = str(
            OmegaConf.select(task, "dataset._target_", default="dataset")
        ).rpartition(".")[2]
    configuration = schema.configuration(task, str(name), overrides)
    if facts and schema.has_open_settings(task):
        with contextlib.suppress(NwsSweepError):  # the search reports it
            loader = facts(configuration, hydra.runtime.cwd).loader
            return schema.configuration(task, str(name), overrides, loader)
    return configuration


def without_hydra(config: DictConfig) -> DictConfig:
    """Copies a composed configuration without its ``hydra`` node."""
    return OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])


def axes_of(config: DictConfig, loader: ConfigLoader) -> dict[str, list[str]]:
    """Expands each overridden key of a grid to an override for each value, as Hydra's
    own sweeper does."""
    # Interpolations are resolved in each point.
    overrides = cast(
        "list[str]", OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    )
    expanded = {}
    for override in OverridesParser.create(config_loader=loader).parse_overrides(
        [*_presets(config.hydra), *overrides]
    ):
        key = override.get_key_element()
        if override.is_sweep_override():
            expanded[key] = [
                f"{key}={value}" for value in override.sweep_string_iterator()
            ]
        else:
            expanded[key] = [f"{key}={override.get_value_element_as_str()}"]
        if not expanded[key]:
            raise ConfigurationError(f"{override.input_line}: has no value")
    return expanded


def _presets(hydra: DictConfig) -> list[str]:
    """Lists the overrides of the chosen presets of axes."""
    return [
        f"{key}={value}" for key, value in (hydra.sweeper.get("params") or {}).items()
    ]


def samples(expanded: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Yields points with every value of every axis at least once; their number grows
    with the sum of axis lengths."""
    first = {key: overrides[0] for key, overrides in expanded.items()}
    yield list(first.values())
    for key, overrides in expanded.items():
        for override in overrides[1:]:
            point = {**first, key: override}
            yield list(point.values())


def check(composer: Composer) -> tuple[Plan, list[Configuration]]:
    """Plans a grid, and makes configurations with every value of every axis;
    ConfigurationError if a value is wrong."""
    expanded = axes_of(composer.multirun, composer.loader)
    checked = [composer.configuration(point) for point in samples(expanded)]
    size = math.prod(map(len, expanded.values()))
    return _plan(checked, size, varying_columns(checked)), checked


def check_single(
    task: DictConfig, hydra: DictConfig
) -> tuple[Plan, list[Configuration]]:
    """Plans a single run, and makes its configuration; see ``check``."""
    configuration = configuration_of(task, hydra)
    presets = ", ".join(_presets(hydra))
    note = (
        f"presets of axes are swept only with -m; without it {presets} is ignored"
        if presets
        else ""
    )
    varying = ("dataset", "batch_size", "pin_memory", "prefetch_factor", "ranks")
    return _plan([configuration], 1, varying, note), [configuration]


def _plan(
    checked: Sequence[Configuration],
    size: int,
    varying: tuple[str, ...],
    note: str = "",
) -> Plan:
    at_most_s = size * max(map(_search_s, checked))
    rules = [point.search for point in checked]
    return Plan(
        configurations=size,
        tried=max(map(most_candidates, rules)),
        at_most_s=at_most_s if at_most_s < math.inf else None,
        varying=varying,
        note=note,
    )


def _search_s(point: Configuration) -> float:
    search_s = limit_s(point)
    if point.measure.mode == "epoch":
        return search_s
    trial_s = point.measure.trial_limit_s + _TRIAL_OVERHEAD_S
    return min(most_candidates(point.search) * trial_s, search_s)
