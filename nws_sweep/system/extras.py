"""Optional packages, and the extra of nws_sweep that installs each."""

import importlib.util

from nws_sweep.errors import ConfigurationError


def advice(option: str) -> str | None:
    """What to install for an option of hydra/launcher that is not found; None for options that are not ours."""
    return _line("hydra/launcher", "slurm") if option in ("submitit_slurm", "submitit_local") else None


def require(user: str, package: str) -> None:
    """Raises ConfigurationError, naming ``user``, if a package that an extra installs is missing."""
    if package == "hydra_plugins.hydra_ray_launcher" and importlib.util.find_spec(package) is None:
        raise ConfigurationError(_line(user, "ray"))


def protocol_advice(user: str, url: str, reason: ImportError) -> str:
    """What to install for a URL that fsspec cannot open without a package: our extra, or fsspec's own advice."""
    is_ours = url.startswith(("http://", "https://", "s3://"))
    return _line(user, "remote") if is_ours else f"{user}: a package is missing ({reason})"


def _line(user: str, extra: str) -> str:
    return f"{user}: a package is missing; pip install '.[{extra}]' in the checkout of nws_sweep installs it"
