"""The schema of the configuration, its ranges, and the ``Configuration`` of Hydra's
configuration.

conf/*.yaml has values and their explanations, this module types and ranges. OmegaConf
checks types and misspelt keys, ``configuration`` checks ranges; both errors become one
line.
"""

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, cast, get_type_hints

import msgspec
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nws_sweep.config.embedding import register_resolvers
from nws_sweep.config.hydra_versions import register_resolver
from nws_sweep.errors import ConfigurationError
from nws_sweep.records import (
    SEARCHABLE,
    Configuration,
    LoaderSettings,
    SearchRules,
    ranges,
    shown,
)
from nws_sweep.records.storage import safe_name
from nws_sweep.system import host

# Prefixes of overrides that do not identify a configuration: how the grid is run, and
# presets.
_NAMELESS = (
    "axis/",
    "reuse=",
    "paths.output_dir=",
    "paths.lock_file=",
    "paths.cache_dir=",
)


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The range of a value: a text, and a test for values of the right type."""

    text: str
    test: Callable[[Any], bool] = lambda value: True


# The candidates without a limit: all numbers up to 64, then four for each doubling.
WITHOUT_LIMIT = (*range(65), *(round(64 * 2 ** (step / 4)) for step in range(1, 17)))


def _are_candidates(value: Any) -> bool:
    are_numbers = all(ranges.fits(number, ranges.Workers) for number in value)
    return are_numbers and len(value) > 0 and len(set(value)) == len(value)


def _are_searchable(value: Any) -> bool:
    return set(value) <= set(SEARCHABLE) and len(set(value)) == len(value)


def _or_null(permitted: ValueRange) -> ValueRange:
    return ValueRange(
        f"null or {permitted.text}",
        lambda value: value is None or permitted.test(value),
    )


_CANDIDATES = ValueRange(
    f"a list of different integers from 0 to {ranges.MOST_WORKERS}, such as [0,2,4]",
    _are_candidates,
)
_SETTINGS = ValueRange(
    f"a list of different names out of {', '.join(SEARCHABLE)}", _are_searchable
)
_CACHE_FILES = ValueRange("a list of files and folders, such as [data/train]")
_COLLATE_FN = ValueRange(
    "a _target_ with its arguments, or null",
    lambda value: value is None or "_target_" in value,
)
_FOLDER = ValueRange("a folder")
# Null for the DataLoader's own.
_YesNo = Annotated[bool | None, ValueRange("true, false or null")]


# The schema for OmegaConf has types and ranges; all values come from conf/*.yaml. Its
# classes stand in the module because launchers pickle configurations, and so the
# classes by their names.
@dataclass
class MeasureSchema:
    """The keys of ``measure``; see ``MeasureRules``."""

    mode: ranges.Mode
    precision: ranges.Precision
    window_s: ranges.Seconds
    windows: ranges.Count
    trial_limit_s: ranges.Seconds
    epochs: ranges.Count
    kill_after_s: ranges.Seconds | None
    interleave: ranges.Count
    cache: ranges.Cache
    cache_files: Annotated[list[str] | None, _or_null(_CACHE_FILES)]
    memory_budget_bytes: ranges.Count | None


@dataclass
class PathsSchema:
    """The keys of ``paths``."""

    cache_dir: Annotated[str, _FOLDER]
    data_dir: Annotated[str, _FOLDER]
    output_dir: Annotated[str, _FOLDER]
    lock_file: Annotated[str | None, ValueRange("a file, or null")]


@dataclass
class SweepSchema:
    """All keys."""

    batch_size: ranges.Count | None
    pin_memory: _YesNo
    prefetch_factor: ranges.Count | None
    patience: ranges.CountOr0
    ranks: ranges.Ranks
    # Keywords of DataLoader; null for those of the DataLoader that the dataset comes
    # in.
    shuffle: _YesNo
    drop_last: _YesNo
    persistent_workers: _YesNo
    multiprocessing_context: ranges.StartMethod | None
    timeout: ranges.SecondsOr0 | None
    in_order: _YesNo
    # OmegaConf cannot set a key of a mapping whose type is known and whose value is
    # null.
    collate_fn: Annotated[Any, _COLLATE_FN]
    strategy: ranges.Strategy
    num_workers: Annotated[list[int] | None, _or_null(_CANDIDATES)]
    max_workers: ranges.Workers | None
    reference: ranges.Workers | None
    tolerance: ranges.Share
    settings: Annotated[list[str] | None, _or_null(_SETTINGS)]
    time_limit_s: ranges.Seconds | None
    seed: Annotated[int, ValueRange("an integer")]
    check_samples: _YesNo
    reuse: ranges.Reuse
    measure: MeasureSchema
    paths: PathsSchema
    # A _target_ with its arguments.
    dataset: dict[str, Any] = field(default_factory=dict)
    training_step: dict[str, Any] = field(default_factory=dict)
    services: dict[str, Any] = field(default_factory=dict)


def _ranges_of(schema: type, prefix: str = "") -> Iterator[tuple[str, ValueRange]]:
    """Yields the dotted keys of a class of the schema, with their ranges."""
    for name, kind in get_type_hints(schema, include_extras=True).items():
        if isinstance(kind, type) and is_dataclass(kind):
            yield from _ranges_of(kind, f"{prefix}{name}.")
        elif kind != dict[str, Any]:
            yield f"{prefix}{name}", _range_of(kind)


def _range_of(kind: Any) -> ValueRange:
    for mark in getattr(kind, "__metadata__", ()):
        if isinstance(mark, ValueRange):
            return mark
    return ValueRange(ranges.text_of(kind), lambda value: ranges.fits(value, kind))


RANGES: Mapping[str, ValueRange] = dict(_ranges_of(SweepSchema))


@functools.cache  # Hydra 1.4 warns of a second registration
def register() -> None:
    """Registers the schema and the resolvers; may be called again."""
    ConfigStore.instance().store(name="nws_sweep_schema", node=SweepSchema)
    register_resolvers()
    register_resolver("nws_sweep.folder_name", folder_name, replace=True)


def folder_name(overrides: Sequence[str], nameless: tuple[str, ...] = _NAMELESS) -> str:
    """Names a configuration's folder in a grid after its overrides, sorted, such as
    ``batch_size=64,pin_memory=true``.

    Overrides with ``nameless`` prefixes, which do not identify a configuration of ours,
    are omitted; see ``safe_name``.
    """
    names = []
    for override in overrides:
        if not override.lstrip("+").startswith(nameless):
            names.append(
                re.sub("=(True|False|None)$", lambda value: value[0].lower(), override)
            )
    return safe_name(",".join(sorted(names)) or "default", r"[^\w=.,+~@\[\]-]")


def hydra_arguments(argument: str) -> list[str]:
    """Writes an argument of the command line as Hydra accepts it.

    A number as training step, ``training_step=0.05``, sets the group and its key, since
    a group takes no number. A single name, ``settings=pin_memory``, is a list with one
    element.
    """
    if match := re.fullmatch(r"training_step=(-?[\d.][\d.e,-]*)", argument):
        return ["training_step=sleep", f"training_step.seconds_per_batch={match[1]}"]
    if match := re.fullmatch(r"settings=(?!null$)([a-z_]+)", argument):
        return [f"settings=[{match[1]}]"]
    return [argument]


def configuration(
    config: DictConfig,
    dataset_name: str,
    overrides: Sequence[str] = (),
    loader: LoaderSettings | None = None,
) -> Configuration:
    """Makes the ``Configuration`` of a composed Hydra configuration without its
    ``hydra`` node.

    Overrides of other keys become columns. ``loader`` has the settings of the
    DataLoader that the dataset comes in, which replace null. ConfigurationError if a
    value is out of range, OmegaConf's error if a key is unknown or a value is missing.
    """
    # Hydra adds any key with a plus
    values = OmegaConf.to_container(config, resolve=True)
    plain = valid_values(values, "dataset", "training_step")
    settings = _settings(plain, loader or LoaderSettings(batch_size=None))
    # In the order of results.csv.
    columns = {
        "dataset": dataset_name,
        "batch_size": settings.batch_size,
        "pin_memory": settings.pin_memory,
        "prefetch_factor": settings.prefetch_factor,
        "patience": plain["patience"],
    }
    for override in overrides:
        key = override.partition("=")[0].lstrip("+")
        if key not in columns and not f"{key}=".startswith(("~", *_NAMELESS)):
            columns[key.removeprefix("experiment/")] = column_value(
                config, key, override
            )
    # its parts say better what is measured
    if any(override.startswith("experiment/") for override in overrides):
        columns.pop("experiment", None)
    rules = plain["search"]
    # a value that is set is not searched
    if rules.settings is None and "persistent_workers" in columns:
        searched = rules.searched(replace(settings, persistent_workers=True))
        rules = replace(rules, settings=searched)
    return msgspec.convert(
        {**plain, "columns": columns, "loader": settings, "search": rules},
        Configuration,
    )


def _settings(plain: Mapping[str, Any], loader: LoaderSettings) -> LoaderSettings:
    """Changes the settings of the loader as the configuration says; its num_workers is
    searched."""
    for setting in fields(LoaderSettings):
        # num_workers is a list here
        if setting.name != "num_workers" and plain[setting.name] is not None:
            loader = replace(loader, **{setting.name: plain[setting.name]})
    return replace(loader, num_workers=0)


def has_open_settings(config: DictConfig) -> bool:
    """True if a setting is null and must be taken from the DataLoader that the dataset
    comes in."""
    # Null has another meaning elsewhere.
    names = (
        "batch_size",
        "pin_memory",
        "shuffle",
        "drop_last",
        "persistent_workers",
        "timeout",
        "in_order",
    )
    return any(config[name] is None for name in names)


def is_seconds(value: Any) -> bool:
    """Whether a training step is given as a number, the seconds of a batch."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value < math.inf
    )


def sleeping(seconds: float) -> dict[str, Any]:
    """Makes the node of a training step that sleeps for these seconds per batch."""
    return {
        "_target_": "nws_sweep.dataloading.training_steps.Sleep",
        "seconds_per_batch": float(seconds),
    }


def valid_values(values: Any, *targets: str) -> dict[str, Any]:
    """Checks values, and adds ``search``, their ``SearchRules``; ``targets`` are nodes
    that need a ``_target_``.

    OmegaConf's error if a key is unknown or missing.
    """
    merged = OmegaConf.merge(OmegaConf.structured(SweepSchema), values)
    plain = cast(
        "dict[str, Any]", OmegaConf.to_container(merged, throw_on_missing=True)
    )
    for key in RANGES:
        node, _, name = key.rpartition(".")
        value = plain[node][name] if node else plain[name]
        require(key, value, written=shown(value))
    for key in targets:
        if "_target_" not in plain[key]:
            raise ConfigurationError(
                f"{key}={shown(plain[key])}: needs a _target_, such as {key}._target_=package.Class"
            )
    return {**plain, "search": search_rules(plain)}


def require(name: str, value: Any, *, written: str | None = None) -> None:
    """Raises ConfigurationError if a value is out of the range of its key."""
    permitted = RANGES[name]
    with contextlib.suppress(TypeError):  # a value of another type
        if permitted.test(value):
            return
    raise ConfigurationError(
        f"{name}={written or repr(value)}: must be {permitted.text}"
    )


def search_rules(values: Mapping[str, Any]) -> SearchRules:
    """Makes the rules of a search from valid values by the names of their keys."""
    most = values["max_workers"]
    if most is None and values["strategy"] != "adaptive":
        most = 2 * host.usable_cpus(values["ranks"])
    has_limit = values["num_workers"] is not None or most is not None
    if values["num_workers"] is not None:
        candidates = set(map(int, values["num_workers"]))
    elif most is not None:
        candidates = set(range(most + 1))
    else:  # the CPU count is compared with, also if it is none of those without a limit
        candidates = {*WITHOUT_LIMIT, values["reference"] or 0}
    settings = values["settings"]
    return SearchRules(
        candidates=tuple(sorted(candidates)),
        max_workers=max(candidates) if has_limit else None,
        reference=values["reference"] if values["reference"] in candidates else None,
        settings=None if settings is None else tuple(settings),
        strategy=values["strategy"],
        patience=values["patience"],
        tolerance=values["tolerance"],
        time_limit_s=values["time_limit_s"],
    )


def column_value(config: DictConfig, key: str, override: str) -> Any:
    """Finds the value of a key, or for a group the name of the chosen option."""
    typed = override.partition("=")[2]
    if "/" in key:
        return typed
    try:
        value = OmegaConf.select(config, key, default=None)
    except OmegaConfBaseException:  # it cannot be resolved now
        return typed
    return typed if value is None or OmegaConf.is_config(value) else value
