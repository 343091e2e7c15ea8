"""nws_sweep finds the best PyTorch DataLoader settings by measuring them.

On the command line: ``python -m nws_sweep --help``. In a program::

    result = nws_sweep.search(dataset, batch_size=64)
    print(nws_sweep.explain(loader))  # which functions make a sample expensive
    loader = nws_sweep.tune(loader)
    loader = nws_sweep.autotune(loader)  # in the first epoch of training, without a search

docs/project/architecture.md has the packages, each of which may import those below it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nws_sweep.api import explain as explain
    from nws_sweep.api import search as search
    from nws_sweep.api import sweep as sweep
    from nws_sweep.api import tune as tune
    from nws_sweep.dataloading.generators import seed_worker as seed_worker
    from nws_sweep.errors import ConfigurationError as ConfigurationError
    from nws_sweep.errors import DatasetError as DatasetError
    from nws_sweep.errors import NwsSweepError as NwsSweepError
    from nws_sweep.errors import NwsSweepWarning as NwsSweepWarning
    from nws_sweep.model.stages import Stage as Stage
    from nws_sweep.online.autotune import autotune as autotune
    from nws_sweep.online.autotune import watch as watch
    from nws_sweep.records import MeasureRules as MeasureRules
    from nws_sweep.records import Tuning as Tuning
    from nws_sweep.report.explanation import Explanation as Explanation
    from nws_sweep.report.search_result import SearchResult as SearchResult
    from nws_sweep.report.sweep_result import SweepResult as SweepResult

__version__ = "0.4.0"

# Imported at the first use: the API needs torch, which takes seconds to import.
_MODULES = {
    "search": "api",
    "explain": "api",
    "tune": "api",
    "sweep": "api",
    "autotune": "online.autotune",
    "watch": "online.autotune",
    "seed_worker": "dataloading.generators",
    "MeasureRules": "records",
    "Tuning": "records",
    "Stage": "model.stages",
    "Explanation": "report.explanation",
    "SearchResult": "report.search_result",
    "SweepResult": "report.sweep_result",
    "NwsSweepError": "errors",
    "ConfigurationError": "errors",
    "DatasetError": "errors",
    "NwsSweepWarning": "errors",
}
__all__ = ["__version__", *_MODULES]  # noqa: PLE0604 - they are strings


# modules that need the packages of these names
_CALLBACKS = ("lightning", "transformers")


def __getattr__(name: str) -> Any:
    if name in _CALLBACKS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        missing = f"module {__name__} has no attribute {name}"
        if name.startswith("_"):
            raise AttributeError(missing)
        suggestions = importlib.import_module(f"{__name__}.config.suggestions")
        instead = f"it has {', '.join(_MODULES)}"
        meant = suggestions.did_you_mean(name, __all__, instead)
        # with the name, Python adds no suggestion of its own
        raise AttributeError(f"{missing}; {meant}", name=name)
    # rich draws a random number when it is imported
    random = importlib.import_module("random")
    state = random.getstate()
    try:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    finally:
        random.setstate(state)


def __dir__() -> list[str]:
    return sorted(__all__)
