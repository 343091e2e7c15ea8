"""Best settings in the place where a project's own config has them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nws_sweep.errors import ConfigurationError
from nws_sweep.records import ProjectFacts, shown


def as_overrides(settings: Mapping[str, Any], project: ProjectFacts) -> str:
    """``++data.num_workers=4 ...`` for the settings for which the project has one key.

    A key that the project does not have would be passed to its class, which may refuse it.
    """
    return " ".join(f"++{project.keys[name]}={shown(settings[name])}" for name in settings if name in project.keys)


def as_nodes(settings: Mapping[str, Any], project: ProjectFacts) -> dict[str, Any]:
    """The same as nested mappings from the top of the project's config."""
    top: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in project.keys:
            continue
        *path, last = project.keys[name].split(".")
        node = top
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return top


def left_out(settings: Mapping[str, Any], project: ProjectFacts) -> Iterator[str]:
    """A line for each setting that is in neither, and why."""
    for name, value in settings.items():
        if not (keys := project.unclear.get(name)):
            continue
        parent = keys[0].rpartition(".")[0]
        what = f"the project's config has {', '.join(keys)}"
        if parent.rpartition(".")[2] == name:
            what = f"{parent} is a mapping of {', '.join(key.rpartition('.')[2] for key in keys)}"
        yield (
            f"{name}={shown(value)} is left out: {what}; add the key that the measured loader takes, such as "
            f"++{keys[0]}={shown(value)}"
        )
    missing = [name for name in settings if name not in project.keys and name not in project.unclear]
    if missing:
        assigned = " ".join(f"{name}={shown(settings[name])}" for name in missing)
        yield f"the project's config has no key for: {assigned}"


def refuse_mapping(settings: Mapping[str, Any], project: ProjectFacts, key: str) -> None:
    """Refuses a key below which a setting would take the place of a mapping of the project's config.

    Raises:
        ConfigurationError: If there is such a mapping.
    """
    for name in settings:
        mapping = f"{key}.{name}" if key else name
        if any(one.startswith(f"{mapping}.") for one in (project.keys.get(name, ""), *project.unclear.get(name, ()))):
            raise ConfigurationError(
                f"--key {key}: {mapping} is a mapping in the project's config; without --key its own keys are used"
            )
