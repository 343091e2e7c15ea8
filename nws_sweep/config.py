"""The schema of the configuration, its ranges, and the way from Hydra's configuration to a ``Configuration``.

Values and their explanations stand in conf/*.yaml; here stand their types and what is allowed. OmegaConf checks types
and misspelt keys, ``configuration`` checks ranges; either way the user reads one line.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, cast, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nws_sweep.embedding import refuse_unserved, register_resolvers
from nws_sweep.errors import ConfigurationError, one_line
from nws_sweep.records import Configuration, LoaderSettings, MeasureRules, SearchRules, shown
from nws_sweep.storage import NAMELESS, folder_name
from nws_sweep.store import REUSES
from nws_sweep.strategies import ALSO, STRATEGIES

SCHEMA_NAME = "nws_sweep_schema"
# The columns that every configuration has, in the order of results.csv.
AXES = ("batch_size", "pin_memory", "prefetch_factor", "patience")
_GROUPS = ("dataset", "search", "measure", "consumer", "paths", "experiment")
_MISSING: Any = "???"
_QUOTES = ("'", '"')


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a value may be: in words, and as a test that a value of the right type must pass."""

    text: str
    test: Callable[[Any], bool] = lambda value: True


def allowed(text: str, test: Callable[[Any], bool] = lambda value: True, *, null: bool = False) -> Any:
    """A field of the schema whose value comes from conf/*.yaml and must pass ``test``, or may be null too."""
    permitted = Allowed(f"null or {text}", lambda value: value is None or test(value)) if null else Allowed(text, test)
    return field(default=_MISSING, metadata={"allowed": permitted})


def at_least(least: int, unit: str = "an integer", *, null: bool = False) -> Any:
    """A field with a smallest value."""
    return allowed(f"{unit} of at least {least}", lambda value: least <= value < math.inf, null=null)


def above_zero(unit: str = "seconds, a number", *, null: bool = False) -> Any:
    """A field whose value is positive."""
    return allowed(f"{unit} above 0", lambda value: 0 < value < math.inf, null=null)


def one_of(*options: str | None) -> Any:
    """A field with a fixed set of values; None stands for null."""
    return allowed(" or ".join(option or "null" for option in options), lambda value: value in options)


def yes_or_no() -> Any:
    """A field that is true or false; or null, for what the DataLoader has by itself."""
    return allowed("true, false or null")


@dataclass
class LoaderSchema:
    """``loader``: the DataLoader's other keywords; null for those of a DataLoader that the dataset comes in."""

    shuffle: bool | None = yes_or_no()
    drop_last: bool | None = yes_or_no()
    persistent_workers: bool | None = yes_or_no()
    multiprocessing_context: str | None = one_of("fork", "spawn", "forkserver", None)
    timeout: float | None = at_least(0, "seconds, a number", null=True)
    in_order: bool | None = yes_or_no()
    threads_per_worker: int | None = at_least(1, null=True)
    collate_fn: dict[str, Any] | None = allowed("a _target_ with its arguments, or null")


@dataclass
class SearchSchema:
    """``search``: which candidates are tried and which is called the best."""

    strategy: str = one_of(*STRATEGIES)
    maximum_patience: int = at_least(0)
    candidates: list[int] | None = allowed(
        "a list of different integers of at least 0, such as [0,2,4]",
        lambda value: value and min(value) >= 0 and len(set(value)) == len(value),
        null=True,
    )
    max_workers: int = at_least(0)
    reference: int | None = at_least(0, null=True)
    tolerance: float = allowed("a number from 0 to 1", lambda value: 0 <= value <= 1)
    also: list[str] = allowed(
        f"a list of different names out of {', '.join(ALSO)}",
        lambda value: set(value) <= set(ALSO) and len(set(value)) == len(value),
    )
    time_budget_s: float | None = above_zero(null=True)


@dataclass
class MeasureSchema:
    """``measure``: how long a trial measures, and under which circumstances."""

    mode: str = one_of("steady", "epoch")
    precision: float = allowed("a number above 0 and up to 1", lambda value: 0 < value <= 1)
    window_s: float = above_zero()
    bursts: int = at_least(1)
    max_seconds: float = above_zero()
    max_batches: int | None = at_least(1, null=True)
    epochs: int = at_least(1)
    timeout_s: float | None = above_zero(null=True)
    interleave: int = at_least(1)
    cache: str = one_of("warm", "cold", "as_is")
    cache_files: list[str] | None = allowed("a list of files and folders, such as [data/train]", null=True)
    memory_budget_bytes: int | None = above_zero("an integer", null=True)


@dataclass
class ResumeSchema:
    """``resume``: what happens to results that a folder holds already."""

    force: bool = allowed("true or false")


@dataclass
class PathsSchema:
    """``paths``: folders."""

    cache_dir: str = allowed("a folder")
    data_dir: str = allowed("a folder")
    output_dir: str = allowed("a folder")
    lock_file: str | None = allowed("a file, or null")


@dataclass
class SweepSchema:
    """The whole configuration."""

    batch_size: int | None = at_least(1, null=True)
    pin_memory: bool | None = yes_or_no()
    prefetch_factor: int | None = at_least(1, null=True)
    patience: int = at_least(0)
    ranks: int = at_least(1)
    loader: LoaderSchema = field(default_factory=LoaderSchema)
    search: SearchSchema = field(default_factory=SearchSchema)
    measure: MeasureSchema = field(default_factory=MeasureSchema)
    paths: PathsSchema = field(default_factory=PathsSchema)
    # Free-form: each option carries a _target_ and that target's arguments.
    dataset: dict[str, Any] = field(default_factory=dict)
    consumer: dict[str, Any] = field(default_factory=dict)
    services: dict[str, Any] = field(default_factory=dict)
    seed: int = allowed("an integer")
    check_samples: bool | None = yes_or_no()
    reuse: str = one_of(*REUSES)
    order: str = one_of("grid", "interleaved")
    resume: ResumeSchema = field(default_factory=ResumeSchema)


def register() -> None:
    """Makes the schema and the resolvers known to Hydra and OmegaConf; may be called again."""
    ConfigStore.instance().store(name=SCHEMA_NAME, node=SweepSchema)
    register_resolvers()
    OmegaConf.register_new_resolver("nws_sweep.folder_name", folder_name, replace=True)


def with_quoted_overrides(argument: str) -> str:
    """An argument of the command line as Hydra's grammar takes it, which has no ``=`` in a list but in quotes.

    Args:
        argument: Such as ``dataset.overrides=[data=cifar,trainer=cpu]``, of a grid with several lists; any other one
            is given back as it is.
    """
    match = re.fullmatch(r"(\+{0,2}dataset\.overrides=)(.*)", argument, re.DOTALL)
    return match[1] + ",".join(map(_with_quoted_elements, _split_at_commas(match[2]))) if match else argument


def _with_quoted_elements(value: str) -> str:
    if not re.fullmatch(r"\[.*\S.*\]", value, re.DOTALL):
        return value
    elements = [element.strip() for element in _split_at_commas(value[1:-1])]
    quoted = ("'" + element.replace("'", "\\'") + "'" for element in elements)
    return f"[{','.join(old if old[:1] in _QUOTES else new for old, new in zip(elements, quoted, strict=True))}]"


def _split_at_commas(text: str) -> list[str]:
    """The parts between the commas that stand in no brackets and no quotes."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote or char in _QUOTES:
            quote = char if not quote else quote.replace(char, "")
        else:
            depth += (char in "[{(") - (char in "]})")
        if char == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def configuration(
    config: DictConfig, dataset_name: str, overrides: Sequence[str] = (), own: LoaderSettings | None = None
) -> Configuration:
    """The plain ``Configuration`` of a composed Hydra configuration.

    Args:
        config: Composed by Hydra, without its ``hydra`` node.
        dataset_name: What the dataset is called in tables.
        overrides: The task's overrides, ``key=value``; those that no column shows yet become columns.
        own: The settings of the DataLoader that the dataset comes in, which stand for null; None if it comes by itself
            or is not made yet.

    Raises:
        ConfigurationError: If a value is out of range or a key unknown.
        OmegaConfBaseException: If a value is missing; ``explain`` makes one line of it.
    """
    for key in map(str, config):  # +bach_size=64 makes Hydra add any key; at the top level none would have an effect
        if key not in SweepSchema.__dataclass_fields__:
            raise ConfigurationError(f"{key}={shown(config[key])}: {no_such_key(key)}")
    plain = _checked(config)
    loader = _loader(plain, own or LoaderSettings(batch_size=None))
    columns = {"dataset": dataset_name, **{name: getattr(loader, name) for name in AXES[:3]}}
    return Configuration(
        columns=_with_overridden({**columns, "patience": plain["patience"]}, config, overrides),
        dataset=_target(plain, "dataset"),
        consumer=_target(plain, "consumer"),
        loader=loader,
        measure=_measure(plain["measure"]),
        search=_search(plain["search"]),
        collate_fn=plain["loader"]["collate_fn"],
        services=plain["services"],
        seed=plain["seed"],
        check_samples=plain["check_samples"],
        ranks=plain["ranks"],
    )


def leaves_open(config: DictConfig) -> bool:
    """Whether settings are null that a DataLoader has itself, if the dataset comes in one."""
    own = ("shuffle", "drop_last", "persistent_workers", "timeout", "in_order")  # null in others has another meaning
    return None in [config.batch_size, config.pin_memory, *(config.loader[name] for name in own)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """What a program's own configuration says about how to search."""

    search: SearchRules
    measure: MeasureRules
    consumer: dict[str, Any]
    check_samples: bool | None
    reuse: str
    ranks: int


def embedded(node: Any) -> Embedded:
    """Reads what a program composed with ``+nws_sweep=base``.

    Args:
        node: ``cfg.nws_sweep``, or a plain mapping with all of its keys.

    Raises:
        ConfigurationError: If a key is unknown, or a value missing or out of range.
    """
    refuse_unserved(node)
    plain = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    try:
        checked = _checked(OmegaConf.merge(OmegaConf.structured(SweepSchema), plain))
    except OmegaConfBaseException as error:
        raise ConfigurationError(one_line(f"config: {error}")) from error
    return Embedded(
        search=_search(checked["search"]),
        measure=_measure(checked["measure"]),
        consumer=_target(checked, "consumer"),
        check_samples=checked["check_samples"],
        reuse=checked["reuse"],
        ranks=checked["ranks"],
    )


def no_such_key(key: str) -> str:
    """What to tell about a key that does not exist."""
    if key.startswith(("dataset.", "consumer.")):
        return f"the chosen {key.partition('.')[0]} has no such argument; ++{key}=VALUE passes it on all the same"
    close = difflib.get_close_matches(key, [*ranges(), *_GROUPS], n=1)
    return f"there is no key {key}; " + (f"did you mean {close[0]}?" if close else "--help lists the keys")


def _checked(config: Any) -> dict[str, Any]:
    """The plain values, each of which is what its field of the schema allows."""
    plain = cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    for key, permitted in ranges().items():
        node, _, name = key.rpartition(".")
        values = plain.get(node, {}) if node else plain
        if name not in values:
            raise ConfigurationError(f"~{key}: the key cannot be deleted; allowed is {permitted.text}")
        _require(key, values[name], permitted, shown(values[name]))
    return plain


def require(name: str, value: Any, key: str | None = None) -> None:
    """Checks one value that a program has given.

    Args:
        name: What the program calls it.
        value: The value.
        key: Its key in the configuration, dotted; None if that is the name.

    Raises:
        ConfigurationError: With one line that names it, the value and what is allowed.
    """
    _require(name, value, ranges()[key or name], repr(value))


def _require(name: str, value: Any, permitted: Allowed, written: str) -> None:
    try:
        passes = permitted.test(value)
    except TypeError:  # null where a number is needed: OmegaConf lets a key be deleted
        passes = False
    if not passes:
        raise ConfigurationError(f"{name}={written}: allowed is {permitted.text}")


@functools.cache
def ranges() -> Mapping[str, Allowed]:
    """Every key of the schema, dotted, with what it allows."""
    found: dict[str, Allowed] = {}
    types = get_type_hints(SweepSchema)
    for entry in fields(SweepSchema):
        if "allowed" in entry.metadata:
            found[entry.name] = entry.metadata["allowed"]
        elif is_dataclass(types[entry.name]):
            found |= {f"{entry.name}.{below.name}": below.metadata["allowed"] for below in fields(types[entry.name])}
    return found


def _loader(plain: Mapping[str, Any], own: LoaderSettings) -> LoaderSettings:
    """The DataLoader's own settings with those that are given."""
    given = {**{name: plain[name] for name in AXES[:3]}, **plain["loader"], "collate_fn": None}
    return replace(own, num_workers=0, **{name: value for name, value in given.items() if value is not None})


def _measure(plain: Mapping[str, Any]) -> MeasureRules:
    files = plain["cache_files"]
    return MeasureRules(**{**plain, "cache_files": None if files is None else tuple(files)})


def _search(plain: Mapping[str, Any]) -> SearchRules:
    given = dict(plain)
    largest, chosen = given.pop("max_workers"), given.pop("candidates")
    candidates = tuple(range(largest + 1)) if chosen is None else tuple(sorted(chosen))
    if given["reference"] not in candidates:  # nobody who limits the candidates wants others to be started
        given["reference"] = None
    return SearchRules(**{**given, "candidates": candidates, "also": tuple(given["also"])})


def _target(plain: Mapping[str, Any], key: str) -> dict[str, Any]:
    node: dict[str, Any] = plain[key]
    if "_target_" not in node:
        raise ConfigurationError(f"{key}={shown(node)}: it needs a _target_, such as {key}._target_=package.Class")
    return node


def _with_overridden(columns: dict[str, Any], config: DictConfig, overrides: Sequence[str]) -> dict[str, Any]:
    for override in overrides:
        key = override.partition("=")[0].lstrip("+")
        if key not in columns and not key.startswith(("~", *NAMELESS, "experiment/")):
            columns[key] = column_value(config, key, override)
    return columns


def column_value(config: DictConfig, key: str, override: str) -> Any:
    """The value itself, or for a group the chosen option's name."""
    value = None if "/" in key else OmegaConf.select(config, key, default=None)
    if value is None or OmegaConf.is_config(value):
        return override.partition("=")[2]
    return value
