"""``${nws_best:num_workers}``: what was measured on this host, in the config that it was measured for."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nws_sweep import host
from nws_sweep.errors import ConfigurationError
from nws_sweep.project_keys import SETTINGS, asking, fingerprint_of, is_asking
from nws_sweep.records import LoaderSettings, ProjectFacts, SearchRecord
from nws_sweep.store import ResultStore, default_folder, staleness

_USUAL = LoaderSettings(batch_size=1)


def stand_in() -> None:
    """Makes the DataLoader's own values stand for the answers, in a config that is composed to be measured."""
    OmegaConf.register_new_resolver("nws_best", _usual, replace=True)


def best_setting(name: str, *default: Any, _root_: DictConfig) -> Any:
    """The best value of a DataLoader setting by the newest result for this project on this host.

    Args:
        name: One of ``SETTINGS``.
        default: What it is where there is no such result; nothing for an error.
        _root_: The config that asks.

    Raises:
        ConfigurationError: If there is no result and no default, with the reason why the newest one will not do.
    """
    _check(name)
    if is_asking():  # about what else is in the node that this stands in
        return _asked_for(name)
    reasons: list[str] = []
    here = host.describe()
    for record in ResultStore(default_folder()).newest():
        project = record.facts.project if record.facts else None
        if project is None or record.verdict is None:
            continue
        obstacle = staleness(record, here) or _difference(record, project, _root_)
        if not obstacle:
            return getattr(record.verdict.recommended, name)
        reasons.append(f"the newest was {obstacle}")
    if default:
        return default[0]
    why = reasons[0] if reasons else "there is none on this machine"
    raise ConfigurationError(
        f"nws_best:{name}: no result for this config ({why}); make one with python -m nws_sweep dataset=project "
        f"dataset.config=FILE, or give a default: ${{nws_best:{name},VALUE}}"
    )


def _usual(name: str, *default: Any) -> Any:
    _check(name)
    if is_asking():
        return _asked_for(name)
    return default[0] if default else getattr(_USUAL, name)


def _asked_for(name: str) -> str:
    """What an answer is where it is only looked at."""
    return f"nws_best:{name}"


def _check(name: str) -> None:
    if name not in SETTINGS:
        raise ConfigurationError(f"nws_best:{name}: allowed are {', '.join(SETTINGS)}")


def _difference(record: SearchRecord, project: ProjectFacts, root: DictConfig) -> str:
    try:
        same = (
            OmegaConf.select(root, project.key) is not None and fingerprint_of(root, project.key) == project.fingerprint
        )
    except OmegaConfBaseException:
        same = False
    if not same:
        return f"of another dataset, at {project.key}"
    key = project.keys.get("batch_size")
    measured = record.configuration.loader.batch_size
    if key is None or measured is None:
        return ""
    with asking():
        asked = OmegaConf.select(root, key)
    return "" if asked in (measured, _asked_for("batch_size")) else f"of batch_size={measured}, this has {asked}"


def _loads_the_same(project: ProjectFacts, root: DictConfig) -> bool:
    try:
        there = OmegaConf.select(root, project.key) is not None
        return there and fingerprint_of(root, project.key) == project.fingerprint
    except OmegaConfBaseException:  # something that it was measured with is not there
        return False
