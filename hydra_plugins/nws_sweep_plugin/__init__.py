"""Enables any Hydra program to compose ``+nws_sweep=search``, ``+nws_sweep=autotune``
and ``+nws_sweep=base``.

Hydra 1.3 imports this module at the start of every program of an environment; 1.4 finds
its classes as entry points of the group ``hydra.plugins``. It imports only
``nws_sweep.config.embedding`` and modules that Hydra has imported already, unless the
program composes an option. It adds one group, ``nws_sweep``, so that it does not affect
a program with its own ``batch_size`` or ``dataset``.
"""

import warnings

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from nws_sweep.config import embedding

embedding.register_resolvers()


class NwsSweepConfigSource(ConfigSource):
    """The folder ``conf/`` as the group ``nws_sweep``, without the files for nws_sweep
    itself."""

    @staticmethod
    def scheme() -> str:
        """``nws-sweep``."""
        return embedding.SCHEME

    def available(self) -> bool:
        """True if ``conf/`` exists, as in a complete installation."""
        return embedding.conf_folder().is_dir()

    def is_group(self, config_path: str) -> bool:
        """True for the root, the group itself and folders that a program may
        compose."""
        place = embedding.served(config_path)
        return config_path == "" or (place is not None and place.is_dir())

    def is_config(self, config_path: str) -> bool:
        """True for a file that a program may compose, with or without ``.yaml``."""
        place = embedding.served(self._normalize_file_name(config_path))
        return place is not None and place.is_file()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Sorted names of the groups or the configurations in a group; None for
        both."""
        place = embedding.served(config_path)
        entries = place.iterdir() if place is not None and place.is_dir() else ()
        names: list[str] = []
        for name in (
            [entry.name for entry in entries] if config_path else [embedding.GROUP]
        ):
            # a part of the others, which a program composes to read it itself
            if f"{config_path}/{name}" == f"{embedding.GROUP}/base.yaml":
                continue
            path = f"{config_path}/{name}".lstrip("/")
            self._list_add_result(
                names, file_path=path, file_name=name, results_filter=results_filter
            )
        return sorted(set(names))

    def load_config(self, config_path: str) -> ConfigResult:
        """Reads one file; ConfigLoadError if the program may not compose it."""
        place = embedding.served(self._normalize_file_name(config_path))
        if place is None or not place.is_file():
            raise ConfigLoadError(f"Config not found : {config_path}")
        # an option, such as +nws_sweep=search
        if place.parent == embedding.conf_folder():
            from nws_sweep.hydra_app import composing

            composing.note_composed(place.stem)
        text = place.read_text("utf-8")
        header, config = self._get_header_dict(text), OmegaConf.create(text)
        return ConfigResult(
            config=config, path=self.full_path(), provider=self.provider, header=header
        )


class NwsSweepSearchPath(SearchPathPlugin):
    """Appends the group to the search path, behind the program's own entries."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Appends it, except in nws_sweep itself, whose primary configuration is the
        same folder."""
        mains = [
            element.path
            for element in search_path.get_path()
            if element.provider == "main"
        ]
        if not any(path is not None and embedding.is_our_own(path) for path in mains):
            search_path.append(provider="nws_sweep", path=embedding.SEARCH_PATH)
            # Hydra 1.4 warns of every target, unless the program lists those that it
            # trusts; the user named this one.
            warnings.filterwarnings(
                "ignore",
                r"\s*hydra\.utils\.instantiate\(\) resolved _target_='nws_sweep\.",
            )
