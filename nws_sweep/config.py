"""The schema of the configuration, its ranges, and the way from Hydra's configuration to a ``Configuration``.

Values and their explanations stand in conf/*.yaml; here stand their types and what is allowed. OmegaConf checks types
and misspelt keys, ``configuration`` checks ranges; either way the user reads one line.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
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
_DELETED = object()
ORDERS = ("grid", "interleaved")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a value may be: in words, and as a test that a value of the right type must pass."""

    text: str
    test: Callable[[Any], bool] = lambda value: True


def allowed(text: str, test: Callable[[Any], bool] = lambda value: True) -> Any:
    """A field of the schema whose value comes from conf/*.yaml and must pass ``test``."""
    return field(default=_MISSING, metadata={"allowed": Allowed(text, test)})


def at_least(least: float, unit: str = "an integer") -> Any:
    """A field with a smallest value."""
    return allowed(f"{unit} of at least {least:g}", lambda value: least <= value < math.inf)


def above_zero(unit: str) -> Any:
    """A field whose value is positive."""
    return allowed(f"{unit} above 0", lambda value: 0 < value < math.inf)


def one_of(*options: str | None) -> Any:
    """A field with a fixed set of values; None stands for null."""
    return allowed(" or ".join("null" if option is None else option for option in options), lambda v: v in options)


def or_null(text: str, test: Callable[[Any], bool]) -> Any:
    """A field that may be null."""
    return allowed(f"null or {text}", lambda value: value is None or test(value))


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
    timeout: float | None = or_null("seconds, a number of at least 0", lambda value: 0 <= value < math.inf)
    in_order: bool | None = yes_or_no()
    threads_per_worker: int | None = or_null("an integer of at least 1", lambda value: value >= 1)
    collate_fn: dict[str, Any] | None = allowed("a _target_ with its arguments, or null")


@dataclass
class SearchSchema:
    """``search``: which candidates are tried and which is called the best."""

    strategy: str = one_of(*STRATEGIES)
    maximum_patience: int = at_least(0)
    candidates: list[int] | None = allowed(
        "null or a list of different integers of at least 0, such as [0,2,4]",
        lambda value: value is None or (value and min(value) >= 0 and len(set(value)) == len(value)),
    )
    max_workers: int = at_least(0)
    reference: int | None = or_null("an integer of at least 0", lambda value: value >= 0)
    tolerance: float = allowed("a number from 0 to 1", lambda value: 0 <= value <= 1)
    also: list[str] = allowed(
        f"a list of different names out of {', '.join(ALSO)}",
        lambda value: set(value) <= set(ALSO) and len(set(value)) == len(value),
    )
    time_budget_s: float | None = or_null("seconds, a number above 0", lambda value: 0 < value < math.inf)


@dataclass
class MeasureSchema:
    """``measure``: how long a trial measures, and under which circumstances."""

    mode: str = one_of("steady", "epoch")
    precision: float = allowed("a number above 0 and up to 1", lambda value: 0 < value <= 1)
    window_s: float = above_zero("seconds, a number")
    bursts: int = at_least(1)
    max_seconds: float = above_zero("seconds, a number")
    max_batches: int | None = or_null("an integer of at least 1", lambda value: value >= 1)
    epochs: int = at_least(1)
    timeout_s: float | None = or_null("seconds, a number above 0", lambda value: 0 < value < math.inf)
    interleave: int = at_least(1)
    cache: str = one_of("warm", "cold", "as_is")
    cache_files: list[str] | None = allowed("null or a list of files and folders, such as [data/train]")
    memory_budget_bytes: int | None = or_null("an integer above 0", lambda value: value > 0)


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

    batch_size: int | None = or_null("an integer of at least 1", lambda value: value >= 1)
    pin_memory: bool | None = yes_or_no()
    prefetch_factor: int | None = or_null("an integer of at least 1", lambda value: value >= 1)
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
    order: str = one_of(*ORDERS)
    resume: ResumeSchema = field(default_factory=ResumeSchema)


def register() -> None:
    """Makes the schema and the resolvers known to Hydra and OmegaConf; may be called again."""
    ConfigStore.instance().store(name=SCHEMA_NAME, node=SweepSchema)
    register_resolvers()
    OmegaConf.register_new_resolver("nws_sweep.folder_name", folder_name, replace=True)


_PROJECT_OVERRIDES = re.compile(r"(\+{0,2}dataset\.overrides=)(.*)", re.DOTALL)


def with_quoted_overrides(argument: str) -> str:
    """An argument of the command line as Hydra's grammar takes it, which has no ``=`` in a list but in quotes.

    Args:
        argument: Such as ``dataset.overrides=[data=cifar,trainer=cpu]``, of a grid with several lists; any other one
            is given back as it is.
    """
    match = _PROJECT_OVERRIDES.fullmatch(argument)
    if match is None:
        return argument
    return match[1] + ",".join(_with_quoted_elements(value) for value in _split_at_commas(match[2]))


def _with_quoted_elements(value: str) -> str:
    if not re.fullmatch(r"\[.*\S.*\]", value, re.DOTALL):
        return value
    elements = (element.strip() for element in _split_at_commas(value[1:-1]))
    return f"[{','.join(element if element[:1] in _QUOTES else _quoted(element) for element in elements)}]"


_QUOTES = ("'", '"')


def _quoted(text: str) -> str:
    escaped = text.replace("'", "\\'")
    return f"'{escaped}'"


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
    _refuse_unknown_keys(config)
    check(config)
    plain = cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    _fill_in(plain, own or _USUAL)
    return Configuration(
        columns=_columns(plain, config, dataset_name, overrides),
        dataset=_target(plain, "dataset"),
        consumer=_target(plain, "consumer"),
        loader=_loader(plain),
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
    settings = [config[name] for name in AXES[:2]] + [config.loader[name] for name in _OWN]
    return None in settings


# Beside the axes; null in others has a meaning of its own.
_OWN = ("shuffle", "drop_last", "persistent_workers", "timeout", "in_order")


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
        config = cast("DictConfig", OmegaConf.merge(OmegaConf.structured(SweepSchema), plain))
        check(config)
    except OmegaConfBaseException as error:
        raise ConfigurationError(one_line(f"config: {error}")) from error
    checked = cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True))
    return Embedded(
        search=_search(checked["search"]),
        measure=_measure(checked["measure"]),
        consumer=_target(checked, "consumer"),
        check_samples=checked["check_samples"],
        reuse=checked["reuse"],
        ranks=checked["ranks"],
    )


# What DataLoader does by itself.
_USUAL = LoaderSettings(batch_size=None)


def _fill_in(plain: dict[str, Any], own: LoaderSettings) -> None:
    """Puts the DataLoader's own settings where there are none."""
    for node, name in [(plain, name) for name in AXES[:3]] + [(plain["loader"], name) for name in plain["loader"]]:
        if node[name] is None and name != "collate_fn":
            node[name] = getattr(own, name)


def _refuse_unknown_keys(config: DictConfig) -> None:
    """A plus sign (``+bach_size=64``) makes Hydra add any key; at the top level none would have an effect."""
    for key in map(str, config):
        if key not in {entry.name for entry in fields(SweepSchema)}:
            raise ConfigurationError(f"{key}={shown(config[key])}: {no_such_key(key)}")


def no_such_key(key: str) -> str:
    """What to tell about a key that does not exist."""
    if key.startswith(("dataset.", "consumer.")):
        return f"the chosen {key.partition('.')[0]} has no such argument; ++{key}=VALUE passes it on all the same"
    close = difflib.get_close_matches(key, [*ranges(), *_GROUPS], n=1)
    return f"there is no key {key}; " + (f"did you mean {close[0]}?" if close else "--help lists the keys")


def check(config: DictConfig, keys: Collection[str] | None = None) -> None:
    """Checks every value against what its field of the schema allows.

    Args:
        config: The whole configuration.
        keys: Dotted keys of the values to check; None for all.

    Raises:
        ConfigurationError: With one line that names the key, the value and what is allowed.
    """
    known = ranges()
    for key in known if keys is None else keys:
        permitted = known[key]
        value = OmegaConf.select(config, key, default=_DELETED, throw_on_missing=True)
        if value is _DELETED:
            raise ConfigurationError(f"~{key}: the key cannot be deleted; allowed is {permitted.text}")
        plain = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
        if not _passes(permitted, plain):
            raise ConfigurationError(f"{key}={shown(plain)}: allowed is {permitted.text}")


def require(name: str, value: Any, key: str | None = None) -> None:
    """Checks one value that a program has given.

    Args:
        name: What the program calls it.
        value: The value.
        key: Its key in the configuration, dotted; None if that is the name.

    Raises:
        ConfigurationError: With one line that names it, the value and what is allowed.
    """
    permitted = ranges()[key or name]
    if not _passes(permitted, value):
        raise ConfigurationError(f"{name}={value!r}: allowed is {permitted.text}")


def _passes(permitted: Allowed, value: Any) -> bool:
    try:
        return permitted.test(value)
    except TypeError:  # null where a number is needed: OmegaConf lets a key be deleted
        return False


@functools.cache
def ranges() -> Mapping[str, Allowed]:
    """Every key of the schema, dotted, with what it allows."""
    return dict(_ranges(SweepSchema, ""))


def _ranges(schema: type, prefix: str) -> Iterator[tuple[str, Allowed]]:
    types = get_type_hints(schema)
    for entry in fields(schema):
        if is_dataclass(types[entry.name]):
            yield from _ranges(cast("type", types[entry.name]), f"{prefix}{entry.name}.")
        elif "allowed" in entry.metadata:
            yield f"{prefix}{entry.name}", entry.metadata["allowed"]


def _loader(plain: Mapping[str, Any]) -> LoaderSettings:
    keywords = {key: value for key, value in plain["loader"].items() if key != "collate_fn"}
    axes = {name: plain[name] for name in ("batch_size", "pin_memory", "prefetch_factor")}
    return LoaderSettings(**axes, **keywords)


def _measure(plain: Mapping[str, Any]) -> MeasureRules:
    files = plain["cache_files"]
    return MeasureRules(**{**plain, "cache_files": None if files is None else tuple(files)})


def _search(plain: Mapping[str, Any]) -> SearchRules:
    chosen = plain["candidates"]
    candidates = tuple(range(plain["max_workers"] + 1)) if chosen is None else tuple(sorted(chosen))
    reference = plain["reference"]
    return SearchRules(
        strategy=plain["strategy"],
        candidates=candidates,
        maximum_patience=plain["maximum_patience"],
        tolerance=plain["tolerance"],
        time_budget_s=plain["time_budget_s"],
        also=tuple(plain["also"]),
        # Nobody who limits the candidates wants others to be started.
        reference=reference if reference in candidates else None,
    )


def _target(plain: Mapping[str, Any], key: str) -> dict[str, Any]:
    node: dict[str, Any] = plain[key]
    if "_target_" not in node:
        raise ConfigurationError(f"{key}={shown(node)}: it needs a _target_, such as {key}._target_=package.Class")
    return node


def _columns(
    plain: Mapping[str, Any], config: DictConfig, dataset_name: str, overrides: Sequence[str]
) -> dict[str, Any]:
    columns = {"dataset": dataset_name, **{axis: plain[axis] for axis in AXES}}
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
