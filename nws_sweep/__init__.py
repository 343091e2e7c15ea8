"""nws_sweep finds the best PyTorch DataLoader settings by measuring them.

On the command line: ``python -m nws_sweep --help``. In a program::

    result = nws_sweep.search(dataset, batch_size=64)
    loader = nws_sweep.tune(loader)
    loader = nws_sweep.autotune(loader)  # in the first epoch of a training, without a search

Packages, each of which may import those below it: ``cli``; ``api`` and ``sweep``; ``online``; ``report`` and
``executor``; ``analysis`` and ``dataloading``; ``config`` and ``datasets``; ``tuning``; ``measurement``; ``replay``
and ``system``; ``units``; ``results``; ``errors``.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nws_sweep.api import search as search
    from nws_sweep.api import tune as tune
    from nws_sweep.dataloading.generators import seed_worker as seed_worker
    from nws_sweep.errors import ConfigurationError as ConfigurationError
    from nws_sweep.errors import DatasetError as DatasetError
    from nws_sweep.errors import NwsSweepError as NwsSweepError
    from nws_sweep.online.loader import autotune as autotune
    from nws_sweep.online.plan import Tuning as Tuning
    from nws_sweep.report.search_result import SearchResult as SearchResult
    from nws_sweep.results import MeasureRules as MeasureRules

__version__ = "0.2.0"

# Imported at the first use: the API needs torch, which takes seconds to import.
_MODULES = {
    "search": "api", "tune": "api", "autotune": "online.loader", "Tuning": "online.plan",
    "seed_worker": "dataloading.generators",
    "SearchResult": "report.search_result", "MeasureRules": "results",
    "NwsSweepError": "errors", "ConfigurationError": "errors", "DatasetError": "errors",
}  # fmt: skip
__all__ = ["__version__", *_MODULES]  # noqa: PLE0604 - they are strings


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
