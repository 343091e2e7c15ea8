"""The grid before it runs: its axes, its size, and a check of every value before anything is measured."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from nws_sweep.composing import Composer, configuration_of
from nws_sweep.records import Configuration, varying_columns
from nws_sweep.strategies import most_candidates

# Seconds that a trial takes beside its measuring: process, dataset, start of the workers, warm-up. For the plan only.
_TRIAL_OVERHEAD_S = 2.0
# The axis whose values are repeats: it changes the random order of the samples, and nothing that should matter.
_REPEATS = "seed"
# Of an axis with more values than that each value is checked by itself, not in a configuration.
_LONG = 100
_LOCAL_LAUNCHERS = (".BasicLauncher", ".JoblibLauncher", ".LocalLauncher")


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


def size_of(expanded: Mapping[str, Sequence[str]]) -> int:
    """How many points the grid has."""
    return math.prod(len(values) for values in expanded.values())


def points(expanded: Mapping[str, Sequence[str]], order: str) -> Iterator[list[str]]:
    """The points of the grid one by one, each as its overrides.

    Args:
        expanded: The axes.
        order: ``grid``, the last axis the fastest, as Hydra has it. Or ``interleaved``: drawn, so that a machine that
            slowly changes does so to all configurations alike; where the axis ``seed`` repeats the grid, one repeat
            after the other, each in an order of its own. The same grid always has the same order.
    """
    if order == "grid":
        yield from map(list, itertools.product(*expanded.values()))
        return
    for number, seed in enumerate(expanded.get(_REPEATS, [""])):
        once = {key: [seed] if key == _REPEATS else values for key, values in expanded.items()}
        size = size_of(once)
        for index in random.Random(number).sample(range(size), size):
            yield _point(list(once.values()), index)


def _point(axes: Sequence[Sequence[str]], index: int) -> list[str]:
    """The point of a number in the order of the grid."""
    found = []
    for values in reversed(axes):
        index, position = divmod(index, len(values))
        found.append(values[position])
    return found[::-1]


def samples(expanded: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Points of the grid that show every value of every axis at least once.

    Their number grows with the sum of the axes' lengths, not with the product, so that a large grid is checked quickly.
    """
    first = {key: values[0] for key, values in expanded.items()}
    yield list(first.values())
    for key, values in expanded.items():
        for value in values[1:]:
            yield list({**first, key: value}.values())


def check(composer: Composer) -> tuple[Plan, list[Configuration]]:
    """Composes and checks a grid.

    Args:
        composer: Makes configurations of its points.

    Returns:
        The plan, and configurations that show every value of every axis, of very long axes the ends.

    Raises:
        ConfigurationError: With one line about the first value that is wrong.
    """
    expanded = axes_of(composer.whole, composer.loader)
    shown = [composer.configuration(point) for point in samples(_shortened(expanded, composer))]
    return _plan(shown, size_of(expanded), varying_columns(shown), str(composer.whole.hydra.sweep.dir)), shown


def _shortened(expanded: Mapping[str, Sequence[str]], composer: Composer) -> dict[str, Sequence[str]]:
    """The axes; of very long ones the ends, after all their values were checked."""
    first = [values[0] for values in expanded.values()]
    shortened = dict(expanded)
    for key, values in expanded.items():
        if len(values) > _LONG and composer.is_plain(values[0]):
            composer.check_values(first, key, values)
            shortened[key] = _ends(values)
    return shortened


def axes_of(config: DictConfig, loader: ConfigLoader) -> dict[str, list[str]]:
    """The axes of what Hydra composed for the grid as a whole; see ``axes``."""
    given = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)  # ${...} is each point's own
    overrides = [str(override) for override in given] if isinstance(given, list) else []
    return axes(overrides, dict(config.hydra.sweeper.get("params") or {}), loader)


def _ends(values: Sequence[str]) -> list[str]:
    """The first and the last value, the least and the greatest."""
    numbers = sorted(values, key=_number)
    return list(dict.fromkeys([values[0], values[-1], numbers[0], numbers[-1]]))


def _number(text: str) -> float:
    try:
        return float(text.partition("=")[2])
    except ValueError:
        return 0.0


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


def is_local(launcher: DictConfig) -> bool:
    """Whether a launcher runs the jobs on this machine."""
    return str(launcher.get("_target_")).endswith(_LOCAL_LAUNCHERS)


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
