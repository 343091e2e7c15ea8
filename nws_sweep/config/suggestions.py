"""What may have been meant by a name that does not exist: of a command, an option, a
key, an argument or an attribute."""

import difflib
from collections.abc import Iterable, Iterator

# Words of DataLoader, optuna, Keras, Lightning and pandas behind what they are called
# here, the likeliest first: where a word was typed, only some of the names exist.
_WORDS = """
batch_size: batch bs
dataset loader: data dataloader ds loader
max_workers: max_num_workers
measure: epochs max_epochs
num_workers max_workers: candidates jobs n_jobs n_trials n_workers workers
prefetch_factor: max_queue_size prefetch
progress: progress_bar quiet show_progress_bar silent verbose verbosity
ranks: devices world_size
reuse: cache
time_limit_s time_limit: budget budget_s max_time time_limit timeout
training_step: step

compare: diff
explain: profile
predict: simulate
report: html show view
sweep: grid grid_search
search: benchmark find grid grid_search measure num_workers optimize run start sweep tune
watch: monitor

best_params: batch_size best num_workers params persistent_workers pin_memory prefetch_factor
search: best
settings: params
cost_s: seconds time
diagnosis explain: bottleneck bottlenecks
loader_kwargs: kwargs
to_dict: json value
to_frame: dataframe df pandas trials_dataframe
trials: trial
"""
# what people put before a noun: best_num_workers, to_pandas, find_num_workers
_PREFIXES = ("find_", "get_", "tune_", "optimal_", "best_", "to_", "as_")


def suggestion(name: str, names: Iterable[str]) -> str:
    """Returns the name that was probably meant, as it is in ``names``; empty if none is
    near."""
    existing = {_word(candidate): candidate for candidate in names}
    for word in _shortened(_word(name)):
        for meaning in (word, *_meanings(word)):
            if meaning in existing:
                return existing[meaning]
    close = difflib.get_close_matches(_word(name), existing, n=1)
    return existing[close[0]] if close else ""


def did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    """Asks whether another name was meant; ``otherwise`` if none is near."""
    meant = suggestion(name, names)
    return f"did you mean {meant}?" if meant else otherwise


def _meanings(word: str) -> Iterator[str]:
    for line in _WORDS.splitlines():
        names, _, words = line.partition(":")
        if word in words.split():
            yield from names.split()


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
