"""Hydra's launchers that are packages of their own, and which extra of ours brings each."""

from __future__ import annotations

import importlib.util

from nws_sweep.errors import ConfigurationError

_OF_OPTION = {"submitit_slurm": "slurm", "submitit_local": "slurm"}  # of hydra/launcher
_OF_PACKAGE = {"hydra_plugins.hydra_ray_launcher": "ray"}


def advice(option: str) -> str | None:
    """What to install for an option of hydra/launcher that cannot be found; None if we have nothing to do with it."""
    extra = _OF_OPTION.get(option)
    return _line(extra) if extra else None


def require_launcher(target: str) -> None:
    """Checks that a launcher is installed whose configuration is ours, and so is always found.

    Args:
        target: Its ``_target_``.

    Raises:
        ConfigurationError: If it is not.
    """
    package = ".".join(target.split(".")[:2])
    if package in _OF_PACKAGE and importlib.util.find_spec(package) is None:
        raise ConfigurationError(_line(_OF_PACKAGE[package]))


def _line(extra: str) -> str:
    return f"hydra/launcher: its package is missing; install it by pip install 'nws-sweep[{extra}]'"
