"""What differs between Hydra 1.3 (OmegaConf 2.3) and 1.4 (2.4); no other module checks
their versions."""

import functools
import sys
from typing import Any

import hydra.utils
from omegaconf import OmegaConf

from nws_sweep.errors import ConfigurationError

# Hydra 1.4 warns of each target unless the caller trusts all or lists those that it
# trusts. Ours come from the user's own command line or program; None in Hydra 1.3,
# which has no such lists.
_TRUST_ALL = getattr(hydra.utils, "UNSAFE_DISABLE_EXECUTION_CHECKS", None)
IS_1_3 = _TRUST_ALL is None

# Keywords of initialize_config_dir and hydra.main: 1.3 warns without version_base,
# 1.4 warns of it.
BASE: dict[str, Any] = {"version_base": "1.3"} if IS_1_3 else {}
MAIN: dict[str, Any] = BASE if IS_1_3 else {"execution_whitelist": _TRUST_ALL}

_TRUST: dict[str, Any] = {} if IS_1_3 else {"_execution_whitelist_": _TRUST_ALL}
register_resolver: Any = (
    OmegaConf.register_new_resolver if IS_1_3 else OmegaConf.register_resolver
)


def instantiate(node: Any, **options: Any) -> Any:
    """Hydra's ``instantiate`` for nodes whose targets are trusted; its partials can be
    sent to spawned workers."""
    _pickle_partials()
    return hydra.utils.instantiate(node, **options, **_TRUST)


@functools.cache
def _pickle_partials() -> None:
    # not imported by every Hydra program
    from multiprocessing.reduction import ForkingPickler

    kind = type(
        hydra.utils.instantiate(
            {"_target_": "builtins.dict", "_partial_": True}, **_TRUST
        )
    )
    if kind is not functools.partial:  # that of Hydra 1.4 cannot be pickled
        ForkingPickler.register(kind, _reduced)


def _reduced(partial: Any) -> Any:
    return functools.partial(
        partial.func, *partial.args, **partial.keywords
    ).__reduce__()


def require_command_line() -> None:
    """Raises ConfigurationError on Python 3.14 with Hydra 1.3, whose help strings
    argparse rejects there."""
    if IS_1_3 and sys.version_info >= (3, 14):
        raise ConfigurationError(
            f"Hydra {hydra.__version__} does not start on Python 3.14: the command line needs Hydra 1.4 or later "
            "(pip install --pre 'hydra-core>=1.4.0rc3')"
        )
