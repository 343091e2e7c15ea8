"""nws_sweep in the configuration of another Hydra program (the host): which files of
conf/ it can compose.

Every Hydra program of an environment imports the plugin
(hydra_plugins/nws_sweep_plugin) and so this module, which imports nothing that Hydra
has not imported already.
"""

import importlib.util
from pathlib import Path, PurePosixPath

from nws_sweep.config import hydra_versions

GROUP = "nws_sweep"
PACKAGE = "nws_sweep.conf"
SCHEME = "nws-sweep"
SEARCH_PATH = f"{SCHEME}://{PACKAGE}"
# Parts of conf/ for nws_sweep itself: the primary configuration, and files for fixed
# places of it.
_OUR_OWN = ("config", "hydra", "local", "axis", "experiment")


def conf_folder() -> Path:
    """The folder of our own configuration: of the installed package, or of a
    checkout."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(__file__).resolve().parents[2] / "conf"


def is_our_own(search_path: str) -> bool:
    """True if an entry of Hydra's search path is our own configuration, as a package or
    as a folder."""
    is_folder = (
        Path(search_path.removeprefix("file://")).resolve() == conf_folder().resolve()
    )
    return is_folder or search_path == f"pkg://{PACKAGE}"


def served(config_path: str) -> Path | None:
    """The file or folder for a path as Hydra writes it; None if the host must not see
    it."""
    parts = PurePosixPath(config_path).parts
    names = [part.removesuffix(".yaml") for part in parts[1:]]
    is_our_own = bool(names) and names[0] in _OUR_OWN
    return (
        None
        if parts[:1] != (GROUP,) or is_our_own
        else conf_folder().joinpath(*parts[1:])
    )


def register_resolvers() -> None:
    """Registers the resolvers of conf/, which import their modules at the first use;
    may be called again."""

    def usable_cpus(ranks: int = 1) -> int:
        from nws_sweep.system import host

        return host.usable_cpus(max(1, ranks))

    hydra_versions.register_resolver("nws_sweep.usable_cpus", usable_cpus, replace=True)
