"""How to search and tune, as the configuration of another program or the arguments of
Python say."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import msgspec
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nws_sweep.config.embedding import conf_folder
from nws_sweep.config.schema import is_seconds, require, sleeping, valid_values
from nws_sweep.errors import ConfigurationError, one_line
from nws_sweep.records import MeasureRules, SearchRules

# settings that autotune may change besides num_workers
AUTOTUNED = ("prefetch_factor",)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How to search, by the configuration of another program or the arguments of the
    API."""

    search: SearchRules
    measure: MeasureRules
    training_step: dict[str, Any]
    check_samples: bool | None
    reuse: str
    ranks: int


def embedded(node: Any) -> SearchOptions:
    """Reads the node that a program composed with ``+nws_sweep=base``, or a plain
    mapping of it.

    ConfigurationError if it is the string ``base``, as without the plugin, or a value
    is out of range.
    """
    if isinstance(node, str):
        raise ConfigurationError(
            f"nws_sweep={node}: a plain value, since Hydra found no search-path plugin of nws_sweep; install nws_sweep "
            "again (a checkout: pip install -e .), or put the folder of the checkout on PYTHONPATH, until "
            "--info plugins lists NwsSweepSearchPath"
        )
    plain: Any = (
        OmegaConf.to_container(node, resolve=True)
        if OmegaConf.is_config(node)
        else dict(node)
    )
    if is_seconds(plain.get("training_step")):
        plain["training_step"] = sleeping(plain["training_step"])
    try:
        values = valid_values(plain, "training_step")
    except OmegaConfBaseException as error:
        raise ConfigurationError(one_line(f"config: {error}")) from error
    return msgspec.convert(values, SearchOptions)


def names(settings: str | Iterable[str]) -> tuple[str, ...]:
    """Lists the names of settings; a text is a single name."""
    return (settings,) if isinstance(settings, str) else tuple(settings)


def measure_rules(measure: str | MeasureRules | None) -> MeasureRules:
    """Reads the rules of a preset of ``conf/measure``, or checks rules; None for the
    defaults."""
    if isinstance(measure, MeasureRules):
        for rule in fields(measure):
            require(f"measure.{rule.name}", getattr(measure, rule.name))
        return measure
    folder = conf_folder() / "measure"
    presets = sorted(file.stem for file in folder.glob("*.yaml"))
    if measure is not None and measure not in presets:
        raise ConfigurationError(
            f"measure={measure!r}: must be {', '.join(presets)}, or MeasureRules(...)"
        )
    values = OmegaConf.to_container(
        OmegaConf.load(folder / f"{measure or 'default'}.yaml")
    )
    return msgspec.convert(values, MeasureRules)


def reuse_of(value: bool | str) -> str:
    """Reads True as ``fresh`` and False as ``never``; ConfigurationError if a text is
    not in ``ranges.REUSES``."""
    if not isinstance(value, str):
        return "fresh" if value else "never"
    require("reuse", value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class AutotuneOptions:
    """Options of ``autotune`` and ``watch``."""

    max_workers: int | None
    settings: tuple[str, ...] | None
    reuse: str
    once: bool
    watches: bool  # nothing changes
    progress: Any


def autotune_options(
    max_workers: int | None = None,
    settings: str | Iterable[str] | None = None,
    reuse: bool | str = "fresh",
    once: bool = False,
    *,
    watches: bool = False,
    progress: Any = None,
) -> AutotuneOptions:
    """Checks the options of ``autotune``. ConfigurationError if an option is out of
    range."""
    chosen = None if settings is None else names(settings)
    require("max_workers", max_workers)
    if unknown := [name for name in chosen or () if name not in AUTOTUNED]:
        raise ConfigurationError(
            f"settings={unknown}: must be {', '.join(AUTOTUNED)}, or nothing"
        )
    if not isinstance(once, bool):
        raise ConfigurationError(f"once={once!r}: must be true or false")
    return AutotuneOptions(
        max_workers=max_workers,
        settings=chosen,
        reuse=reuse_of(reuse),
        once=once,
        watches=watches,
        progress=progress,
    )
