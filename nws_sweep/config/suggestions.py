"""What may have been meant by a name that does not exist: of a command, an option, a
key, an argument or an attribute."""

import difflib
from collections.abc import Iterable, Iterator, Mapping

# Words of DataLoader, optuna, Keras, Lightning and pandas, and what they are called
# here, the likeliest first: where a word was typed, only some of the names exist.
_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    # arguments, keys and options
    "batch": ("batch_size",), "bs": ("batch_size",),
    "budget": ("time_limit_s", "time_limit"), "budget_s": ("time_limit_s", "time_limit"),
    "cache": ("reuse",),
    "candidates": ("num_workers", "max_workers"),
    "data": ("dataset", "loader"), "dataloader": ("dataset", "loader"),
    "devices": ("ranks",),
    "ds": ("dataset",),
    "epochs": ("measure",), "max_epochs": ("measure",),
    "jobs": ("num_workers", "max_workers"), "n_jobs": ("num_workers", "max_workers"),
    "loader": ("dataset",),
    "max_num_workers": ("max_workers",),
    "max_queue_size": ("prefetch_factor",), "prefetch": ("prefetch_factor",),
    "max_time": ("time_limit_s", "time_limit"),
    "n_trials": ("num_workers", "max_workers"),
    "n_workers": ("num_workers", "max_workers"),
    "progress_bar": ("progress",), "show_progress_bar": ("progress",),
    "quiet": ("progress",), "silent": ("progress",),
    "verbose": ("progress",), "verbosity": ("progress",),
    "step": ("training_step",),
    "time_limit": ("time_limit_s",), "timeout": ("time_limit_s", "time_limit"),
    "workers": ("num_workers", "max_workers"),
    "world_size": ("ranks",),
    # commands and functions
    "benchmark": ("search",), "find": ("search",), "measure": ("search",),
    "optimize": ("search",), "run": ("search",), "start": ("search",),
    "tune": ("search",),
    "num_workers": ("search", "best_params"),
    "diff": ("compare",),
    "grid": ("sweep", "search"), "grid_search": ("sweep", "search"),
    "sweep": ("search",),
    "monitor": ("watch",),
    "profile": ("explain",),
    "show": ("report",), "view": ("report",), "html": ("report",),
    "simulate": ("predict",),
    # attributes of results
    "best": ("best_params", "search"), "params": ("best_params", "settings"),
    "batch_size": ("best_params",), "pin_memory": ("best_params",),
    "persistent_workers": ("best_params",), "prefetch_factor": ("best_params",),
    "bottleneck": ("diagnosis",), "bottlenecks": ("diagnosis", "explain"),
    "dataframe": ("to_frame",), "df": ("to_frame",), "pandas": ("to_frame",),
    "trials_dataframe": ("to_frame",),
    "json": ("to_dict",), "value": ("to_dict",),
    "kwargs": ("loader_kwargs",),
    "trial": ("trials",),
    "time": ("cost_s",), "seconds": ("cost_s",),
}  # fmt: skip
# what people put before a noun: best_num_workers, to_pandas, find_num_workers
_PREFIXES = ("find_", "get_", "tune_", "optimal_", "best_", "to_", "as_")


def suggestion(name: str, names: Iterable[str]) -> str:
    """Returns the name that was probably meant, as it is in ``names``; empty if none is
    near."""
    existing = {_word(candidate): candidate for candidate in names}
    for word in _shortened(_word(name)):
        for meaning in (word, *_SYNONYMS.get(word, ())):
            if meaning in existing:
                return existing[meaning]
    close = difflib.get_close_matches(_word(name), existing, n=1)
    return existing[close[0]] if close else ""


def did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    """Asks whether another name was meant; ``otherwise`` if none is near."""
    meant = suggestion(name, names)
    return f"did you mean {meant}?" if meant else otherwise


def _word(name: str) -> str:
    """The name of an option, a key or an attribute in the same form."""
    return name.strip("-_").replace("-", "_").lower()


def _shortened(word: str) -> Iterator[str]:
    """Yields the word, then the rest of it behind each prefix."""
    yield word
    for prefix in _PREFIXES:
        if word.startswith(prefix):
            word = word.removeprefix(prefix)
            yield word
