"""Best settings in the place where a project's own config has them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nws_sweep.records import ProjectFacts, shown


def as_overrides(settings: Mapping[str, Any], project: ProjectFacts) -> str:
    """``++data.num_workers=4 ...`` for the keys that the project has; the others are told in a comment line.

    A key that the project does not have would be passed to its class, which may refuse it.
    """
    known = {project.keys[name]: value for name, value in settings.items() if name in project.keys}
    others = {name: value for name, value in settings.items() if name not in project.keys}
    lines = [f"# the project's config has no key for: {_assigned(others)}"] if others else []
    return "\n".join([*lines, " ".join(f"++{key}={shown(value)}" for key, value in known.items())])


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


def _assigned(settings: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={shown(value)}" for name, value in settings.items())
