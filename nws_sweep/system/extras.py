"""Launchers of Hydra that an extra of nws_sweep installs."""

import importlib.util

from nws_sweep.errors import ConfigurationError


def advice(option: str) -> str | None:
    """What to install for an option of hydra/launcher that is not found; None for options that are not ours."""
    return _line("slurm") if option in ("submitit_slurm", "submitit_local") else None


def require(package: str) -> None:
    """Raises ConfigurationError if a package of a launcher that an extra installs is missing."""
    if package == "hydra_plugins.hydra_ray_launcher" and importlib.util.find_spec(package) is None:
        raise ConfigurationError(_line("ray"))


def _line(extra: str) -> str:
    return f"hydra/launcher: a package is missing; pip install '.[{extra}]' in the checkout of nws_sweep installs it"
