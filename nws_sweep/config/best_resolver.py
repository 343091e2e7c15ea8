"""``${nws_best:num_workers}``: the measured best setting in the config of the project that was measured."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException

from nws_sweep.config.project_keys import SETTINGS, fingerprint_of, fingerprinting, is_fingerprinting
from nws_sweep.errors import ConfigurationError
from nws_sweep.results import LoaderSettings, ProjectFacts, SearchRecord
from nws_sweep.results.result_cache import ResultStore, staleness
from nws_sweep.system import host

_DEFAULTS = LoaderSettings(batch_size=1)
_PROVISIONAL = "provisional"


def register_defaults() -> None:
    """Makes ``nws_best`` resolve to DataLoader's defaults, for a config that is composed to be measured."""

    def default(name: str, *given: Any) -> Any:
        return _placeholder(name, given) or (given[0] if given else getattr(_DEFAULTS, name))

    OmegaConf.register_new_resolver("nws_best", default, replace=True)


def best_setting(name: str, *given: Any, _root_: DictConfig) -> Any:
    """The best value of a DataLoader setting in the newest result for this project on this host.

    Args:
        name: One of ``SETTINGS``.
        given: The value if there is no such result, nothing for an error (ConfigurationError, with the reason why the
            newest result does not apply); then ``provisional`` to accept a provisional result.
        _root_: The config that contains the interpolation.
    """
    if placeholder := _placeholder(name, given):
        return placeholder
    reasons: list[str] = []
    here = host.describe()
    for record in ResultStore().newest():
        project = record.facts.project if record.facts else None
        if project is None or record.verdict is None:
            continue
        target = OmegaConf.select(_root_, f"{project.key}._target_", throw_on_resolution_failure=False)
        if target != project.target:  # of another project
            continue
        provisional = "" if _PROVISIONAL in given[1:] else record.provisional
        obstacle = staleness(record, here) or _difference(record, project, _root_) or provisional
        if not obstacle:
            return getattr(record.verdict.recommended, name)
        reasons.append(f"provisional: {obstacle}" if obstacle == provisional else obstacle)
    if given:
        return given[0]
    why = f"the newest is {reasons[0]}" if reasons else "there is none on this machine"
    raise ConfigurationError(
        f"nws_best:{name}: no result for this config ({why}); measure with {_command()}, or set a default: "
        f"${{nws_best:{name},{getattr(_DEFAULTS, name)!r}}}"
    )


def _command() -> str:
    """The command that measures the running program, as far as Hydra knows it."""
    command = ["python", "-m", "nws_sweep", "dataset=project"]
    if not HydraConfig.initialized():
        return shlex.join([*command, "dataset.config=FILE"])
    hydra = HydraConfig.get()
    folder = next((one.path for one in hydra.runtime.config_sources if one.provider == "main"), "FOLDER")
    command.append(f"dataset.config={folder}/{str(hydra.job.config_name).removesuffix('.yaml')}.yaml")
    known = ("oc.", "nws_", "hydra", "now", "python_version")
    if any(not name.startswith(known) for name in BaseContainer._resolvers):  # probably registered by the program
        command.append(f"dataset.imports=[{hydra.job.name}]")
    if hydra.overrides.task:
        command.append(f"dataset.overrides=[{','.join(hydra.overrides.task)}]")
    return shlex.join(command)


def _placeholder(name: str, given: Sequence[Any]) -> str:
    """Checks the arguments; the value while a fingerprint of the config is computed, else empty."""
    if name not in SETTINGS:
        raise ConfigurationError(f"nws_best:{name}: allowed are {', '.join(SETTINGS)}")
    if list(given[1:]) not in ([], [_PROVISIONAL]):
        more = ",".join(map(str, given[1:]))
        raise ConfigurationError(f"nws_best:{name}: after the default {_PROVISIONAL} is allowed, not {more}")
    return f"nws_best:{name}" if is_fingerprinting.get() else ""


def _difference(record: SearchRecord, project: ProjectFacts, root: DictConfig) -> str:
    try:
        same = fingerprint_of(root, project.key) == project.fingerprint
    except OmegaConfBaseException:  # a key of the measured config is missing
        same = False
    if not same:
        return f"of another dataset, at {project.key}"
    key, measured = project.keys.get("batch_size"), record.configuration.loader.batch_size
    if key is None or measured is None:
        return ""
    with fingerprinting():
        current = OmegaConf.select(root, key)
    return "" if current in (measured, "nws_best:batch_size") else f"of batch_size={measured}, this has {current}"
